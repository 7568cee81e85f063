"""The gates of a cutover: each expectation passes, fails, and says when it does not know."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from kbsync.db.pool import Database
from kbsync.domain.requests import Priority, SyncSource
from kbsync.domain.schedule import DAILY_SCAN
from kbsync.queue.fleet import Fleet
from kbsync.queue.units import enqueue_units
from kbsync.settings import Settings
from ops import cutover
from ops.observe import Look, Verdict
from tests.looking.rows import a_legacy_job, counted, execute, fleet_of, make_good_jobs, switch_of
from tests.producers.library_rows import a_document, a_source

PASS, FAIL, NOT_KNOWN = Verdict.PASS, Verdict.FAIL, Verdict.NOT_KNOWN
LEGACY = "no new legacy rows, unless paused"
OLD = "old legacy rows finish"
DRAINS = "the sync queue is bounded and drains after the daily scan"
DELAYS = "no failures caused by delays"
GROWTH = "failed jobs do not grow"


@pytest.fixture
async def fleet(settings: Settings) -> AsyncIterator[Fleet]:
    async with fleet_of(settings) as opened:
        yield opened


def verdicts(look: Look) -> dict[object, object]:
    return {row["expected"]: row["verdict"] for row in look.rows}


async def after(database: Database, fleet: Fleet, hours: float = 8) -> Look:
    return await cutover.after_cutover(database, fleet, switch_of(database), datetime.now(UTC) - timedelta(hours=hours))


async def a_tick(database: Database, hours_ago: float, *, finished: bool = True) -> None:
    await execute(
        database,
        "insert into kbsync.ticks (date, claimed_by, claimed_at, finished_at, phase, counts) values "
        "(current_date, 'run', now() - make_interval(secs => $1::float8 * 3600), "
        "case when $2 then now() - make_interval(secs => $1::float8 * 3600 - 1) end, 'done', '{\"sources\": 1}')",
        hours_ago,
        finished,
    )


async def test_a_clean_cutover_passes_each_expectation(database: Database, fleet: Fleet) -> None:
    await make_good_jobs(database)
    await a_legacy_job(database, hours_ago=9)
    await a_tick(database, 7)
    await counted(database, "sync_document", 7, executions=10, completed=8, delays=2, failed=1)
    await counted(database, "sync_document", 0, executions=10, completed=10)
    look = await after(database, fleet)
    assert set(verdicts(look).values()) == {PASS}
    assert not look.failed


async def test_what_nobody_measured_is_not_known_and_never_called_good(database: Database, fleet: Fleet) -> None:
    look = await after(database, fleet)
    assert set(verdicts(look).values()) == {NOT_KNOWN}
    assert not look.failed


async def test_new_legacy_rows_fail_unless_the_kill_switch_is_on(database: Database, fleet: Fleet) -> None:
    await make_good_jobs(database)
    await a_legacy_job(database)
    look = await after(database, fleet)
    assert verdicts(look)[LEGACY] is FAIL
    assert look.failed
    await switch_of(database).pause("me", "rollback")
    assert verdicts(await after(database, fleet))[LEGACY] is PASS


async def test_reported_fallbacks_fail_where_the_job_table_is_elsewhere(database: Database, fleet: Fleet) -> None:
    await counted(database, "sync_source", fallbacks_reported=1)
    assert verdicts(await after(database, fleet))[LEGACY] is FAIL


async def test_old_rows_that_have_not_finished_are_not_known_to_finish(database: Database, fleet: Fleet) -> None:
    await make_good_jobs(database)
    await a_legacy_job(database, hours_ago=9, finished=False)
    assert verdicts(await after(database, fleet))[OLD] is NOT_KNOWN


async def test_a_scan_s_jobs_that_still_wait_hours_later_fail(database: Database, fleet: Fleet) -> None:
    await enqueue_units(fleet, [SyncSource(organization_id=1, source_id=1)], priority=Priority.BACKGROUND)
    await a_tick(database, 7)
    assert verdicts(await after(database, fleet))[DRAINS] is PASS, "it was asked for after the scan"
    await execute(database, "update kbsync.ticks set finished_at = now() + interval '1 minute'")
    assert verdicts(await after(database, fleet))[DRAINS] is NOT_KNOWN, "the scan has only just finished"
    # The job's own age can't be staged, so the allowance is.
    cutover_within, cutover.DRAINED_WITHIN = cutover.DRAINED_WITHIN, timedelta(minutes=-5)
    try:
        assert verdicts(await after(database, fleet))[DRAINS] is FAIL
    finally:
        cutover.DRAINED_WITHIN = cutover_within


async def test_failures_by_waiting_and_growth_of_failed_jobs_fail(database: Database, fleet: Fleet) -> None:
    await counted(database, "sync_document", 7, failed=1, throttle_failures=1)
    await counted(database, "sync_document", 0, failed=2)
    found = verdicts(await after(database, fleet))
    assert (found[DELAYS], found[GROWTH]) == (FAIL, FAIL)


async def test_growing_delays_are_no_growth_of_failures(database: Database, fleet: Fleet) -> None:
    await counted(database, "sync_document", 7, delays=1)
    await counted(database, "sync_document", 0, delays=1_000)
    found = verdicts(await after(database, fleet))
    assert (found[DELAYS], found[GROWTH]) == (PASS, PASS)


# --- bake ----------------------------------------------------------------------------------------------------------


async def baked(database: Database) -> dict[object, object]:
    return verdicts(await cutover.bake(database, switch_of(database)))


async def a_scan_today(database: Database) -> datetime:
    due = DAILY_SCAN.latest_due(datetime.now(UTC))
    await execute(
        database,
        "insert into kbsync.ticks (date, claimed_by, claimed_at, finished_at, phase, counts) "
        "values ($1, 'run', $2::timestamptz, $2::timestamptz + interval '1 s', 'done', '{\"sources\": 1}')",
        DAILY_SCAN.date_of(due),
        due,
    )
    return due


async def test_a_clean_bake(database: Database) -> None:
    await make_good_jobs(database)
    await a_scan_today(database)
    source = await a_source(database)
    await execute(database, "update knowledge_base_sources set last_synced_at = now() where id = $1", source)
    await counted(database, "scan", 24, executions=1)
    look = await cutover.bake(database, switch_of(database))
    found = verdicts(look)
    assert found.pop("no delivery warnings of producers") is NOT_KNOWN  # no producer reports them yet
    assert set(found.values()) == {PASS}
    assert len(found) == 7
    assert "sources 1" in str(look.rows[1]["detail"])
    assert not look.failed


async def test_a_fresh_deployment_is_not_known_to_have_baked(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cutover, "SCANNED_WITHIN", timedelta(days=2))
    await counted(database, "scan", 1, executions=1)
    found = await baked(database)
    assert found.pop("no double chunk sets") is PASS
    assert set(found.values()) == {NOT_KNOWN}


async def test_a_bake_that_fails_at_each_gate(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cutover, "SCANNED_WITHIN", timedelta(0))
    await make_good_jobs(database)
    due = DAILY_SCAN.latest_due(datetime.now(UTC))
    await execute(
        database,
        "insert into good_jobs (job_class, created_at) values ('SyncKnowledgeBaseSourcesJob', $1::timestamptz::timestamp)",
        max(due + timedelta(seconds=1), datetime.now(UTC) - timedelta(hours=23)),
    )
    await a_source(database)
    await counted(database, "sync_document", 1, record_missing_elsewhere=1, fallbacks_reported=2)
    document = await a_document(database, chunked=True)
    await execute(
        database,
        "insert into document_chunks (organization_id, source_type, source_id, position, content) "
        "select 7, 'KnowledgeBaseDocument', $1, 0, 'text' from generate_series(1, 2)",
        document,
    )
    look = await cutover.bake(database, switch_of(database))
    assert set(verdicts(look).values()) == {FAIL}
    assert len(look.rows) == 8
    assert look.failed


async def test_a_skipped_scan_has_not_run(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cutover, "SCANNED_WITHIN", timedelta(0))
    await a_scan_today(database)
    await execute(database, "update kbsync.ticks set skipped = true, finished_at = null")
    found = await baked(database)
    assert (found["it ran once today"], found["it finished"]) == (FAIL, FAIL)
