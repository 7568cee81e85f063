"""What a process counts and what is read at a scrape: exact, bounded in commands, time and labels, there in an outage."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
import pytest
from prometheus_client.parser import text_string_to_metric_families
from redis.asyncio import Redis

from kbsync.api.fleet_state import LINE_LOOKED_AT, FleetState
from kbsync.api.services import ApiServices
from kbsync.db.pool import Database
from kbsync.domain.errors import FlagStoreUnavailable
from kbsync.domain.ids import QueueName
from kbsync.domain.requests import DocumentChunks, Priority, SyncSource
from kbsync.library.principals import Role
from kbsync.queue.fleet import Fleet
from kbsync.queue.jobs import Completed, DelayJob, JobEnd, RunningJob, SkippedJob
from kbsync.queue.units import enqueue_units
from kbsync.recovery.layers import PassDone
from kbsync.recovery.reconciler import KindCount, Reconciled
from kbsync.settings import Settings
from kbsync.telemetry import metrics
from ops.embedded.process import free_port
from ops.embedded.redis import EmbeddedRedis
from producers.recovery_tick import expect_recovery, note_recovery
from tests.acceptance.deployment import deployed, until
from tests.api.conftest import new_token, serve
from tests.producers.doubles import Switch
from tests.telemetry.test_reports import Job
from tests.website.fake_site import FakeSite
from workers.observing import ObservedEnqueuer, ObservedJobs

LATER = datetime(2100, 1, 1, tzinfo=UTC)
LABELS = {
    "queue",
    "kind",
    "outcome",
    "state",
    "provider",
    "status",
    "cause",
    "layer",
    "reason",
    "part",
    "version",
    "le",
}
LABELS |= {"method", "route"}

Values = Mapping[tuple[str, tuple[str, ...]], float]


def values(text: bytes) -> Values:
    """(metric, label values by label name) -> value of a scrape."""
    return {
        (sample.name, tuple(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


async def scrape(state: FleetState, statement_timeout_ms: int = 30_000) -> Values:
    """With time-outs for a machine that may be busy."""
    patient = replace(state, part_timeout_s=30, statement_timeout_ms=statement_timeout_ms)
    return values(metrics.render(await patient.read()))


def since(before: Values, name: str, *labels: str) -> float:
    return values(metrics.render()).get((name, labels), 0) - before.get((name, labels), 0)


@pytest.mark.spec("OP-08")
async def test_depths_are_exact_and_ages_those_of_the_oldest(
    database: Database, redis: Redis, redis_server: EmbeddedRedis
) -> None:
    fleet = Fleet(redis_server.url)
    state = FleetState(database, fleet, Switch(), redis_server.url)
    before = await scrape(state)
    assert before["kbsync_queue_jobs", ("knowledge-base-sync", "waiting")] == 0
    assert before["kbsync_queue_oldest_waiting_seconds", ("knowledge-base-sync",)] == 0
    requests = [SyncSource(organization_id=1 + n % 7, source_id=1 + n) for n in range(700)]
    await enqueue_units(ObservedEnqueuer(fleet), requests, priority=Priority.NORMAL)
    await enqueue_units(
        ObservedEnqueuer(fleet), [DocumentChunks(organization_id=1, document_id=1)] * 2, priority=Priority.NORMAL
    )
    after = await scrape(state)
    assert after["kbsync_queue_jobs", ("knowledge-base-sync", "waiting")] == 700
    assert after["kbsync_queue_jobs", ("knowledge-base-chunks", "waiting")] == 1
    assert after["kbsync_queue_jobs", ("knowledge-base-sync", "failed")] == 0
    assert after["kbsync_queue_oldest_waiting_seconds", ("knowledge-base-sync",)] > 0
    assert after["kbsync_queue_workers", ("knowledge-base-sync",)] == 0
    assert since(before, "kbsync_jobs_enqueued_total", "created", "knowledge-base-sync") == 700
    assert since(before, "kbsync_jobs_enqueued_total", "already_queued", "knowledge-base-chunks") == 1
    await fleet.close()


@pytest.mark.spec("OP-08")
async def test_a_scrape_costs_a_fixed_number_of_commands(
    database: Database, redis: Redis, redis_server: EmbeddedRedis
) -> None:
    fleet = Fleet(redis_server.url)
    state = FleetState(database, fleet, Switch(), redis_server.url)
    requests = [SyncSource(organization_id=1, source_id=n) for n in range(1, 5_001)]
    await enqueue_units(fleet, requests, priority=Priority.NORMAL)
    await state.read()
    await redis.config_resetstat()
    await state.read()
    stats = await redis.info("commandstats")
    assert isinstance(stats, dict)
    calls = {name.removeprefix("cmdstat_"): stat["calls"] for name, stat in stats.items()}
    assert not {"keys", "scan", "zscan"} & set(calls)
    assert sum(calls.values()) < LINE_LOOKED_AT + 60
    await fleet.close()


@pytest.mark.spec("OP-08")
async def test_a_scrape_in_an_outage_of_redis_answers_with_what_there_is(database: Database, tmp_path: Path) -> None:
    server = EmbeddedRedis(tmp_path / "redis", keep=False)
    server.start()
    fleet = Fleet(server.url)
    switch = Switch(broken=FlagStoreUnavailable("away"))
    state = FleetState(database, fleet, switch, server.url)
    up = await scrape(state)
    assert up["kbsync_up", ("queue:knowledge-base-sync",)] == 1
    assert up["kbsync_up", ("kill_switch",)] == 0
    server.kill()
    down = await scrape(state)
    assert {part: down["kbsync_up", (part,)] for part in ("postgres", "sources", "chunks", "throttles")} == {
        "postgres": 1, "sources": 1, "chunks": 1, "throttles": 0,
    }  # fmt: skip
    assert down["kbsync_up", ("queue:knowledge-base-sync",)] == 0
    assert down["kbsync_outbox_age_seconds", ()] == 0
    assert not [name for name, _ in down if name == "kbsync_queue_jobs"]
    await fleet.close()
    server.stop()


@pytest.mark.spec("OP-08")
async def test_the_api_answers_its_scrape_without_redis(settings: Settings, database: Database) -> None:
    gone = f"redis://127.0.0.1:{free_port()}"
    fleet = Fleet(gone)
    away = settings.model_copy(update={"redis_url": gone})
    client = await serve(ApiServices(database, fleet, fleet, Switch(), away))
    token = (await new_token(database, Role.VIEWER)).text
    async with client.get("/metrics", headers={"Authorization": f"Bearer {token}"}) as answer:
        assert (answer.status, answer.content_type) == (200, "text/plain")
        found = values(await answer.read())
    assert found["kbsync_up", ("queue:knowledge-base-chunks",)] == 0
    await client.close()
    await fleet.close()


@pytest.mark.spec("OP-08")
async def test_a_count_that_takes_too_long_costs_its_part_only(
    database: Database, database_url: str, redis: Redis, redis_server: EmbeddedRedis
) -> None:
    fleet = Fleet(redis_server.url)
    blocker = await asyncpg.connect(database_url)
    async with blocker.transaction():
        await blocker.execute("lock table knowledge_base_sources in access exclusive mode")
        state = FleetState(database, fleet, Switch(), redis_server.url)
        found = await scrape(state, statement_timeout_ms=1_500)
    await blocker.close()
    assert (found["kbsync_up", ("sources",)], found["kbsync_up", ("postgres",)]) == (0, 1)
    await fleet.close()


@pytest.mark.spec("OP-08")
async def test_promises_sources_and_chunks_are_read_from_the_library(
    database: Database, redis: Redis, redis_server: EmbeddedRedis
) -> None:
    fleet = Fleet(redis_server.url)
    async with database.fleet() as connection:
        await connection.execute("insert into organizations (name) values ('A'), ('B')")
        await connection.execute(
            "insert into knowledge_base_sources (organization_id, type, config, sync_status, last_synced_at) values"
            " (1, 'website', '{}', 'synced', now() - interval '1 hour'),"
            " (1, 'website', '{}', 'failed', now() - interval '5 days'),"
            " (2, 'some text; that is no name', '{}', 'synced', now())"
        )
        await connection.execute(
            "insert into knowledge_base_documents (organization_id, source_id, external_id, title, content, source_type)"
            " values (1, 1, 'a', 'A', 'text', 'website'), (1, 1, 'b', 'B', '', 'website')"
        )
        await connection.execute(
            "insert into kbsync.outbox (organization_id, request, created_at) values"
            " (1, '{}', now() - interval '1 minute'), (2, '{}', now() - interval '1 hour')"
        )
        await connection.execute(
            "insert into kbsync.ticks (date, claimed_by, finished_at) values ('2026-01-01', 'w', now() - interval '2 hours')"
        )
    found = await scrape(FleetState(database, fleet, Switch(everybody=True), redis_server.url))
    assert found["kbsync_sources", ("website",)] == 2
    assert (found["kbsync_sources_failed", ("website",)], found["kbsync_sources_stale", ("website",)]) == (1, 1)
    assert found["kbsync_source_freshness_lag_seconds", ("website",)] == pytest.approx(5 * 86_400, abs=60)
    assert found["kbsync_sources", ("other",)] == 1
    assert found["kbsync_documents_without_chunks", ()] == 1
    assert found["kbsync_outbox_age_seconds", ()] == pytest.approx(3_600, abs=60)
    assert found["kbsync_tick_age_seconds", ()] == pytest.approx(7_200, abs=60)
    assert found["kbsync_kill_switch_on", ()] == 1
    await fleet.close()


@pytest.mark.spec("OP-08")
@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        (Completed({"status": "done"}), "completed"),
        (Completed({"status": "record-missing"}), "record_missing"),
        (SkippedJob({"reason": "paused"}), "skipped"),
        (DelayJob(LATER, "window full"), "throttled"),
        (DelayJob(LATER, "DatabaseUnavailable: away"), "delayed"),
    ],
)
async def test_every_end_of_a_run_is_counted_once(end: JobEnd, outcome: str) -> None:
    async def handler(job: RunningJob) -> JobEnd:
        return end

    before = values(metrics.render())
    job: RunningJob = Job(stalls=2)  # type: ignore[assignment]  # a plain job
    await ObservedJobs(QueueName.SYNC).handler(handler)(job)
    labels = ("sync_document", outcome, "knowledge-base-sync")
    assert since(before, "kbsync_job_runs_total", *labels) == 1
    assert since(before, "kbsync_job_run_seconds_count", "sync_document", "knowledge-base-sync") == 1
    ended = outcome in ("completed", "record_missing", "skipped")
    assert since(before, "kbsync_job_stalls_total", "sync_document", "knowledge-base-sync") == (2 if ended else 0)


@pytest.mark.spec("OP-08")
async def test_failures_retries_and_unseen_ends(redis: Redis) -> None:
    observed = ObservedJobs(QueueName.SYNC)
    before = values(metrics.render())
    again: RunningJob = Job(is_final_attempt=False)  # type: ignore[assignment]
    final: RunningJob = Job()  # type: ignore[assignment]
    observed.attempt_failed(again, TimeoutError())
    observed.attempt_failed(final, TimeoutError())

    async def abandoned(job_id: str, kind: str, payload: object, reason: str) -> None:
        return None

    tell = observed.abandoned(abandoned)
    await tell("kb-1", "sync_document", None, "stalled_too_often")
    await tell("kb-2", "sync_document", None, "cancelled")
    await tell("kb-3", "\x1bhostile", None, "stalled_too_often")
    labels = ("knowledge-base-sync",)
    assert since(before, "kbsync_job_runs_total", "sync_document", "retried", *labels) == 1
    assert since(before, "kbsync_job_runs_total", "sync_document", "failed", *labels) == 2
    assert since(before, "kbsync_job_runs_total", "unknown", "failed", *labels) == 1


@pytest.mark.spec("OP-08", "OP-14")
def test_recovery_is_counted_by_layer_and_its_success_dated() -> None:
    expect_recovery()
    metrics.RECOVERY_LAST_SUCCESS.set(1)
    before = values(metrics.render())
    note_recovery(PassDone(1, 2, Reconciled(kinds={"units": KindCount(requeued=3)}, interrupted_sources=4)))
    for layer, number in (("lease", 1), ("transport", 2), ("reconcile", 3), ("interrupted_sources", 4)):
        assert since(before, "kbsync_recovered_total", layer) == number
    last = values(metrics.render())["kbsync_recovery_last_success_timestamp_seconds", ()]
    assert abs(last - time.time()) < 60


def test_labels_are_bounded_whatever_the_database_says() -> None:
    names = [metrics.provider_label(f"kind{n}") for n in range(100)]
    assert len(set(names)) <= metrics.MOST_PROVIDERS + 1
    assert metrics.provider_label("ann@example.org, 7") == "other"
    assert metrics.provider_label(None) == "none"
    classes = [metrics.status_class(status) for status in (None, 204, 301, 404, 429, 503, 999)]
    assert classes == ["failed", "2xx", "3xx", "4xx", "429", "5xx", "other"]
    metrics._known_providers.clear()


@pytest.mark.spec("OP-08")
async def test_a_real_run_is_counted_with_its_provider_and_no_tenant(settings: Settings) -> None:
    before = values(metrics.render())
    async with FakeSite() as site:
        site.page("/", "<h1>Home</h1><p>Freezing old rows.</p>")
        async with deployed(settings) as fleet:
            organization = await fleet.organization("Tenant Nine")
            source = await fleet.source(organization, "website", {"start_url": site.url, "use_sitemaps": False})
            await fleet.ask(SyncSource(organization_id=organization, source_id=source))

            async def done() -> bool:
                return await fleet.fetchval("select count(*) from document_chunks") == 1

            await until(done, "the page's chunks")
            await asyncio.sleep(0)
            text = metrics.render(await FleetState(fleet.runtime.database, fleet.runtime.fleet, Switch()).read())
    found = values(text)
    assert since(before, "kbsync_provider_calls_total", "website", "2xx") >= 1
    assert since(before, "kbsync_job_wait_seconds_count", "sync_source", "knowledge-base-sync") == 1
    assert found["kbsync_job_runs_total", ("sync_source", "completed", "knowledge-base-sync")] >= 1
    families = list(text_string_to_metric_families(text.decode()))
    assert {label for family in families for sample in family.samples for label in sample.labels} <= LABELS
    assert b"127.0.0.1" not in text
    assert b"Tenant" not in text
