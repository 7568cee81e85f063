"""LS-03 and LS-22: what one scan asks for, and where the next one goes on."""

from __future__ import annotations

from datetime import date
from uuid import UUID

import pytest
import structlog

from kbsync.db.pool import Database
from kbsync.domain.errors import FlagStoreUnavailable, LeaseLost, PayloadTooLarge, QueueUnavailable
from kbsync.domain.outcomes import Done, Skipped
from kbsync.domain.requests import Priority, Scan
from kbsync.library import due
from kbsync.queue.jobs import JobRequest
from producers import daily_tick
from producers.daily_tick import ScanServices, run_scan
from tests.producers.doubles import MemoryQueue, Switch, redis_is_down
from tests.producers.library_rows import a_document, a_source, an_organization, many_sources, owed

DAY = Scan(date=date(2026, 11, 30))
BY_HAND = Scan(date=date(2026, 11, 30), manual_id=UUID(int=1))


def services(database: Database, queue: MemoryQueue, switch: Switch | None = None, page: int = 1_000) -> ScanServices:
    return ScanServices(database, queue, switch or Switch(), page)


async def tick(database: Database) -> tuple[str, int, bool, bool]:
    async with database.fleet() as connection:
        row = await connection.fetchrow("select phase, after_id, skipped, finished_at from kbsync.ticks")
    assert row is not None
    return row["phase"], row["after_id"], row["skipped"], row["finished_at"] is not None


@pytest.mark.spec("LS-03")
async def test_every_kept_source_and_every_chunkless_document_once(database: Database) -> None:
    kept = await a_source(database)
    other = await a_source(database, 8, type="zendesk", daily_tick=True)
    await a_source(database, discarded=True)
    await a_source(database, daily_tick=False)
    intercom = await a_source(database, type="intercom")
    opted_in = await a_source(database, type="intercom", daily_tick=True)
    due_documents = [
        await a_document(database, source_id=kept),
        await a_document(database, 8),  # a document with no source
        await a_document(database, source_id=opted_in, source_type="intercom"),
    ]
    await a_document(database, source_id=intercom, source_type="intercom")
    await a_document(database, source_type="intercom")
    await a_document(database, source_id=kept, chunked=True)
    await a_document(database, source_id=kept, discarded=True)
    await a_document(database, source_id=kept, content="")
    await a_document(database, source_id=kept, content=None)
    queue = MemoryQueue()
    with structlog.testing.capture_logs() as logs:
        end = await run_scan(services(database, queue), DAY, run="a")
    assert isinstance(end, Done)
    expected = [f"kb-source-sync-{n}" for n in (kept, other, opted_in)]
    expected += [f"kb-document-chunks-{n}" for n in due_documents]
    assert list(queue.created) == expected
    assert {job.priority for job in queue.jobs.values()} == {Priority.BACKGROUND}
    assert not any(job.rerun_if_active for job in queue.jobs.values())
    assert await owed(database) == dict.fromkeys(sorted(expected), True)
    done = [entry for entry in logs if entry["event"] == "scan_done"]
    assert len(done) == 1
    assert {k: done[0][k] for k in ("date", "sources", "chunks", "paused", "failed")} == {
        "date": "2026-11-30", "sources": 3, "chunks": 3, "paused": 0, "failed": 0,
    }  # fmt: skip


@pytest.mark.spec("LS-22")
async def test_a_finished_date_is_not_scanned_again_and_another_date_is(database: Database) -> None:
    await a_source(database)
    queue = MemoryQueue()
    await run_scan(services(database, queue), DAY, run="a")
    queue.finish("kb-source-sync-1")
    end = await run_scan(services(database, queue), DAY, run="b")
    assert isinstance(end, Done)
    assert end.summary["status"] == "already_finished"
    assert queue.created == {"kb-source-sync-1": 1}
    await run_scan(services(database, queue), Scan(date=date(2026, 12, 1)), run="c")
    assert queue.created == {"kb-source-sync-1": 2}


class Crash(Exception):
    pass


@pytest.mark.spec("LS-22", "LS-03")
@pytest.mark.parametrize("before_enqueue", [True, False])
async def test_an_unfinished_scan_goes_on_behind_its_last_whole_page(
    database: Database, monkeypatch: pytest.MonkeyPatch, before_enqueue: bool
) -> None:
    await many_sources(database, 5)
    for _ in range(3):
        await a_document(database)
    queue = MemoryQueue()
    real, calls = daily_tick.enqueue_page, 0

    async def dies_at_the_second_page(*args: object) -> object:
        nonlocal calls
        calls += 1
        if calls != 2:
            return await real(*args)  # type: ignore[arg-type]
        if not before_enqueue:
            await real(*args)  # type: ignore[arg-type]
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(daily_tick, "enqueue_page", dies_at_the_second_page)
        with pytest.raises(Crash):
            await run_scan(services(database, queue, page=2), DAY, run="a")
    assert await tick(database) == ("sources", 2, False, False)
    queue.calls.clear()
    end = await run_scan(services(database, queue, page=2), DAY, run="b")
    assert isinstance(end, Done)
    assert (end.summary["sources"], end.summary["chunks"]) == (5, 3)
    assert queue.calls[0] == ["kb-source-sync-3", "kb-source-sync-4"]
    assert set(queue.created.values()) == {1}
    assert len(queue.created) == 8
    assert (await tick(database))[3]


@pytest.mark.spec("LS-22")
async def test_a_run_that_lost_its_lease_stops_at_its_next_page(database: Database) -> None:
    await many_sources(database, 6)
    queue, overtaken = MemoryQueue(), MemoryQueue()
    real = daily_tick._page
    reads = 0

    async def overtake_at_the_second_page(*args: object) -> object:
        nonlocal reads
        reads += 1
        if reads == 2:
            await run_scan(services(database, queue, page=2), DAY, run="b")
        return await real(*args)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(daily_tick, "_page", overtake_at_the_second_page)
        with pytest.raises(LeaseLost):
            await run_scan(services(database, overtaken, page=2), DAY, run="a")
    assert [len(call) for call in overtaken.calls] == [2, 2]  # the page it was at; its ids dedupe
    assert list(queue.created) == [f"kb-source-sync-{n}" for n in range(3, 7)]
    assert await tick(database) == ("done", 0, False, True)


@pytest.mark.spec("LS-03")
async def test_a_refused_batch_is_tried_one_by_one_and_the_rest_goes_on(database: Database) -> None:
    await many_sources(database, 6)
    queue = MemoryQueue()

    def refuses_source_2(jobs: list[JobRequest]) -> Exception | None:
        return PayloadTooLarge("too large") if "kb-source-sync-2" in {job.job_id for job in jobs} else None

    queue.fail = refuses_source_2
    with structlog.testing.capture_logs() as logs:
        end = await run_scan(services(database, queue, page=3), DAY, run="a")
    assert isinstance(end, Done)
    assert (end.summary["sources"], end.summary["failed"]) == (5, 1)
    assert [entry["job_id"] for entry in logs if entry["event"] == "scan_request_failed"] == ["kb-source-sync-2"]
    assert list(await owed(database)) == [f"kb-source-sync-{n}" for n in (1, 3, 4, 5, 6)]


@pytest.mark.spec("LS-03")
async def test_an_outage_ends_the_run_and_the_next_one_resumes(database: Database) -> None:
    await many_sources(database, 1_500)
    queue, asked = MemoryQueue(), 0

    def down_after_the_first_page(jobs: list[JobRequest]) -> Exception | None:
        nonlocal asked
        asked += 1
        return redis_is_down(jobs) if asked > 1 else None

    queue.fail = down_after_the_first_page
    with structlog.testing.capture_logs() as logs, pytest.raises(QueueUnavailable):
        await run_scan(services(database, queue), DAY, run="a")
    assert len([entry for entry in logs if entry["event"] == "scan_request_failed"]) < 5
    assert await tick(database) == ("sources", 1_000, False, False)
    queue.fail = lambda _: None
    await run_scan(services(database, queue), DAY, run="b")
    assert len(queue.created) == 1_500
    assert set(queue.created.values()) == {1}


@pytest.mark.spec("LS-03", "KS-01", "LS-22")
async def test_under_the_kill_switch_the_scan_is_skipped_and_counts_as_unfinished(database: Database) -> None:
    await a_source(database)
    queue, switch = MemoryQueue(), Switch(everybody=True)
    end = await run_scan(services(database, queue, switch), DAY, run="a")
    assert end == Skipped("paused")
    assert queue.created == {}
    assert await tick(database) == ("sources", 0, True, False)
    switch.broken = FlagStoreUnavailable("down")
    with pytest.raises(FlagStoreUnavailable):
        await run_scan(services(database, queue, switch), DAY, run="a")
    switch.broken, switch.everybody = None, False
    assert isinstance(await run_scan(services(database, queue, switch), DAY, run="b"), Done)
    assert queue.created == {"kb-source-sync-1": 1}
    assert await tick(database) == ("done", 0, False, True)


@pytest.mark.spec("LS-03", "KS-06")
async def test_a_paused_organization_is_left_out_and_counted(database: Database) -> None:
    await a_source(database, 7)
    await a_source(database, 8)
    queue = MemoryQueue()
    end = await run_scan(services(database, queue, Switch(organizations={7})), DAY, run="a")
    assert isinstance(end, Done)
    assert (end.summary["sources"], end.summary["paused"]) == (1, 1)
    assert list(queue.created) == ["kb-source-sync-2"]


@pytest.mark.spec("LS-03", "KS-01")
async def test_a_kill_switch_that_goes_on_in_the_middle_keeps_what_is_done(database: Database) -> None:
    await many_sources(database, 4)
    queue, switch = MemoryQueue(), Switch()

    def pause(done: int, total: int | None, note: str) -> None:
        switch.everybody = True

    assert await run_scan(services(database, queue, switch, page=2), DAY, run="a", progress=pause) == Skipped("paused")
    assert await tick(database) == ("sources", 2, True, False)
    switch.everybody = False
    await run_scan(services(database, queue, switch, page=2), DAY, run="b")
    assert len(queue.created) == 4


@pytest.mark.spec("LS-04")
async def test_a_scan_by_hand_runs_beside_the_ledger_and_ends_its_own_request(database: Database) -> None:
    await a_source(database)
    queue = MemoryQueue()
    async with database.fleet() as connection:
        await due.register_many(connection, [BY_HAND])
    await run_scan(services(database, queue), DAY, run="a")
    queue.finish("kb-source-sync-1")
    await run_scan(services(database, queue), BY_HAND, run="b")
    assert queue.created == {"kb-source-sync-1": 2}
    assert (await owed(database))[f"kb-scan-manual-{UUID(int=1)}"] is False


@pytest.mark.spec("LS-03")
async def test_a_scan_streams_its_rows(database: Database) -> None:
    await an_organization(database)
    await many_sources(database, 2_500)
    queue = MemoryQueue()
    await run_scan(services(database, queue), DAY, run="a")
    assert [len(call) for call in queue.calls] == [1_000, 1_000, 500]
