"""What the hourly counters hold after real runs on real servers."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from kbsync.db.pool import Database
from kbsync.domain.errors import DatabaseUnavailable, ProviderRefused
from kbsync.domain.ids import QueueName
from kbsync.domain.requests import StartCrawl, SyncDocument, SyncSource
from kbsync.library import counters
from kbsync.library.counters import Counted
from kbsync.providers.contract import Content, ListedDocument, Provider, SourceSetup
from kbsync.queue.jobs import Completed, DelayJob, JobEnd, RunningJob, SkippedJob, Unrecoverable
from kbsync.settings import Settings
from tests.acceptance.deployment import Deployment, deployed, until
from tests.sync.pipeline import job_of
from tests.sync.toy import ToyListing
from workers.counting import RunCounters, counted, counted_abandoned
from workers.run_unit import WaitedTooOften

DOCUMENT = SyncDocument(organization_id=1, document_id=2)
LATER = datetime(2100, 1, 1, tzinfo=UTC)


async def amounts(database: Database) -> dict[str, int]:
    """`kind.name` -> amount, over all hours."""
    async with database.fleet() as connection:
        found = await counters.totals(connection, datetime(2020, 1, 1, tzinfo=UTC), LATER)
    return {f"{kind}.{name}": amount for (kind, name), amount in found.items()}


async def quiet(fleet: Deployment) -> bool:
    counts = [await fleet.runtime.fleet.queue(name).counts() for name in QueueName]
    return all(one.waiting + one.delayed + one.active == 0 for one in counts)


async def test_a_real_sync_is_counted_by_kind_and_how_it_ended(settings: Settings) -> None:
    provider = ToyListing(
        parts=[ListedDocument(one, title=one) for one in ("a", "b", "broken")],
        contents={"a": Content("# A", "a"), "b": Content("# B", "b"), "broken": ProviderRefused("no")},
    )

    def build(source_type: str, setup: SourceSetup) -> Provider:
        return provider

    async with deployed(settings, build_provider=build) as fleet:
        organization, other = await fleet.organization(), await fleet.organization("Other")
        limits = {"document_sync": {"count": 1, "window_s": 0.3}}
        source = await fleet.source(organization, "notion", {}, limits)
        await fleet.ask(  # twice the same, before anything of it can run
            SyncSource(organization_id=organization, source_id=source),
            SyncSource(organization_id=organization, source_id=source),
            StartCrawl(organization_id=organization, crawl_task_id=77),
        )

        async def ended() -> bool:
            done = "select count(*) from kbsync.unit_requests where kind = 'sync_document' and ended_at is not null"
            return await fleet.fetchval(done) == 3 and await quiet(fleet)

        await until(ended, "three documents ended")
        document = await fleet.fetchval("select min(id) from knowledge_base_documents")
        assert isinstance(document, int)
        await fleet.ask(SyncDocument(organization_id=other, document_id=document))

        async def refused() -> bool:
            row = "select count(*) from kbsync.unit_requests where ended_as = 'record_missing'"
            return await fleet.fetchval(row) == 2 and await quiet(fleet)

        await until(refused, "two records missing")
        database = fleet.runtime.database
        assert await amounts(database) == {}  # nothing was written on the job's path
        await fleet.runtime.counters.flush()
        found = await amounts(database)
    assert found["sync_document.completed"] == 3  # a, b and the other organization's
    assert (found["sync_document.failed_attempts"], found["sync_document.failed"]) == (1, 1)
    assert found["sync_document.throttle_delays"] == found["sync_document.delays"] >= 1
    assert found["sync_document.executions"] == 4 + found["sync_document.delays"]
    assert found["sync_document.record_missing"] == found["sync_document.record_missing_elsewhere"] == 1
    assert found["start_crawl.record_missing"] == 1
    assert "start_crawl.record_missing_elsewhere" not in found
    assert found["document_chunks.completed"] == 2
    assert not any(name.endswith(("throttle_failures", "fallbacks_reported")) for name in found)


async def test_a_stopping_deployment_writes_what_it_has_counted(settings: Settings, database: Database) -> None:
    async with deployed(settings, start=False) as fleet:
        fleet.runtime.counters.note("sync_source", Counted.EXECUTIONS)
    assert await amounts(database) == {"sync_source.executions": 1}


async def test_flushes_of_two_processes_add_up_in_one_hour_row(database: Database) -> None:
    first, second = RunCounters(database), RunCounters(database)
    for one in (first, second, first):
        one.note("scan", Counted.EXECUTIONS)
        await one.flush()
    assert await amounts(database) == {"scan.executions": 3}
    async with database.fleet() as connection:
        hours = await connection.fetch("select hour from kbsync.hourly_counters")
    assert all(row["hour"] == row["hour"].replace(minute=0, second=0, microsecond=0) for row in hours)


async def test_a_worker_process_flushes_again_and_again_until_it_stops(database: Database) -> None:
    own = RunCounters(database)
    flushing = asyncio.create_task(own.keep_flushing(every_s=0.01))
    for expected in (1, 2):
        own.note("scan", Counted.EXECUTIONS)

        async def written(expected: int = expected) -> bool:
            return (await amounts(database)).get("scan.executions") == expected

        await until(written, "a flush")
    assert not flushing.done(), "nothing ends it but its process"
    flushing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await flushing
    own.note("scan", Counted.EXECUTIONS)
    assert await amounts(database) == {"scan.executions": 2}


async def test_an_outage_keeps_the_counts_for_the_next_flush(database: Database, database_url: str) -> None:
    away = await Database.open(database_url)
    await away.close()
    kept = RunCounters(away)
    kept.note("scan", Counted.COMPLETED)
    with pytest.raises(DatabaseUnavailable):
        await kept.flush()
    await kept.flush_or_say()
    kept._database = database
    await kept.flush()
    assert await amounts(database) == {"scan.completed": 1}


async def test_rows_past_90_days_go_in_bounded_batches(database: Database) -> None:
    async with database.fleet() as connection:
        await connection.execute(
            "insert into kbsync.hourly_counters select date_trunc('hour', now() at time zone 'UTC') at time zone 'UTC' "
            "- make_interval(days => 85, hours => n * 24), 'scan', 'executions', 1 from generate_series(1, 10) n"
        )
        await counters.remove_older(connection, limit=2)
        assert await connection.fetchval("select count(*) from kbsync.hourly_counters") == 8
    one = RunCounters(database)
    one.note("sync_source", Counted.EXECUTIONS)
    await one.flush()
    async with database.fleet() as connection:
        rows = await connection.fetch("select hour from kbsync.hourly_counters where kind = 'scan'")
    now = datetime.now(UTC)
    assert 4 <= len(rows) <= 5
    assert min(row["hour"] for row in rows) > now - timedelta(days=90, hours=1)


@pytest.mark.parametrize(
    ("end", "names"),
    [
        (Completed({"status": "done"}), {"completed"}),
        (SkippedJob({"reason": "paused"}), {"skipped"}),
        (DelayJob(LATER, "window full"), {"delays", "throttle_delays"}),
        (DelayJob(LATER, "DatabaseUnavailable: Postgres is away"), {"delays"}),
        (DelayJob(LATER, "FlagStoreUnavailable: away"), {"delays"}),
    ],
)
async def test_how_a_run_returned_is_what_is_counted(database: Database, end: JobEnd, names: set[str]) -> None:
    async def handler(job: RunningJob) -> JobEnd:
        return end

    own = RunCounters(database)
    assert await counted(handler, own)(job_of(DOCUMENT)) is end
    assert own.amounts == Counter({("sync_document", name): 1 for name in {*names, "executions"}})


async def test_a_handler_that_raises_is_raised_as_it_is(database: Database) -> None:
    async def handler(job: RunningJob) -> JobEnd:
        raise asyncio.CancelledError

    own = RunCounters(database)
    with pytest.raises(asyncio.CancelledError):
        await counted(handler, own)(job_of(DOCUMENT))
    assert own.amounts == Counter({("sync_document", "executions"): 1})


@pytest.mark.parametrize(
    ("error", "attempt", "names"),
    [
        (TimeoutError("timed out"), 1, {"failed_attempts"}),
        (KeyError("a handler's own"), 1, {"failed_attempts"}),
        (TimeoutError("timed out"), 3, {"failed_attempts", "failed"}),
        (Unrecoverable("no"), 1, {"failed_attempts", "failed"}),
        (WaitedTooOften("again"), 1, {"failed_attempts", "throttle_failures"}),
    ],
)
async def test_failing_attempts_and_failed_jobs_are_told_apart(
    database: Database, error: Exception, attempt: int, names: set[str]
) -> None:
    own = RunCounters(database)
    own.attempt_failed(job_of(DOCUMENT, attempt=attempt), error)
    assert own.amounts == Counter({("sync_document", name): 1 for name in names})


async def test_a_job_that_stalled_too_often_failed_and_a_hostile_kind_is_unknown(database: Database) -> None:
    own, told = RunCounters(database), []

    async def abandoned(job_id: str, kind: str, payload: object, reason: str) -> None:
        told.append(reason)

    tell = counted_abandoned(abandoned, own)
    for kind, reason in (
        ("sync_source", "stalled_too_often"),
        ("\x1b[31m", "stalled_too_often"),
        ("scan", "cancelled"),
    ):
        await tell("id", kind, None, reason)
    assert len(told) == 3
    assert own.amounts == Counter({("sync_source", "failed"): 1, ("unknown", "failed"): 1})
