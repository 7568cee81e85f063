"""Each look with rows that pass and with rows that fail."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from kbsync.db.pool import Database
from kbsync.domain.requests import DocumentChunks
from kbsync.library import observations
from kbsync.library.due import register_many
from ops import observe
from ops.observe import Look, Verdict
from tests.looking.rows import a_legacy_job, counted, execute, make_good_jobs
from tests.producers.library_rows import a_document, a_source

NOW = datetime.now(UTC)


def row_of(look: Look, kind: str) -> dict[str, object]:
    return next(dict(row) for row in look.rows if row["kind"] == kind)


async def test_a_throttled_backlog_is_no_storm(database: Database) -> None:
    await counted(database, "sync_document", 3, executions=316, completed=158, delays=158, throttle_delays=158)
    await counted(database, "sync_document", 20, executions=9_999)  # before the window
    async with database.fleet() as connection:
        await register_many(connection, [DocumentChunks(organization_id=1, document_id=n) for n in range(1, 6)])
    look = await observe.throttle_storm(database, 12)
    assert not look.failed
    assert row_of(look, "sync_document") == {
        "kind": "sync_document", "executions": 316, "unique_jobs": 0, "ended": 158, "throttle_delays": 158,
        "failed_attempts": 0, "throttle_failures": 0, "runs_a_job": 2.0, "verdict": Verdict.PASS,
    }  # fmt: skip
    assert row_of(look, "document_chunks")["unique_jobs"] == 5


@pytest.mark.parametrize(
    "amounts", [{"executions": 2_629, "completed": 158}, {"executions": 1, "throttle_failures": 1}]
)
async def test_the_storm_and_a_failure_by_waiting_are_found(database: Database, amounts: dict[str, int]) -> None:
    await counted(database, "sync_document", 1, **amounts)
    look = await observe.throttle_storm(database, 12)
    assert look.failed
    assert row_of(look, "sync_document")["verdict"] is Verdict.FAIL


async def test_nothing_counted_is_no_row_and_no_verdict(database: Database) -> None:
    look = await observe.throttle_storm(database, 1)
    assert (look.rows, look.failed) == ([], False)


async def test_a_date_s_scan_is_a_unique_job(database: Database) -> None:
    await execute(database, "insert into kbsync.ticks (date, claimed_by) values ('2026-09-09', 'run')")
    await counted(database, "scan", executions=1, completed=1)
    assert row_of(await observe.throttle_storm(database, 1), "scan")["unique_jobs"] == 1


async def test_documents_whose_chunks_are_owed_are_a_backlog_and_no_failure(database: Database) -> None:
    owed = await a_document(database)
    await a_document(database, content="")
    await a_document(database, content=None)
    await a_document(database, chunked=True)
    await a_document(database, discarded=True)
    await a_document(database, source_type="intercom")
    async with database.fleet() as connection:
        await register_many(connection, [DocumentChunks(organization_id=7, document_id=owed)])
    look = await observe.chunk_backlog(database)
    assert list(look.rows) == [{"organization_id": 7, "documents": 1, "not_asked": 0, "first_not_asked": None}]
    assert not look.failed


async def test_a_document_that_nobody_owes_chunks_fails_the_look(database: Database) -> None:
    forgotten = await a_document(database)
    skipped = await a_document(database)
    opted_in = await a_source(database, type="intercom", daily_tick=True)
    await a_document(database, source_id=opted_in, source_type="intercom")
    async with database.fleet() as connection:
        await register_many(connection, [DocumentChunks(organization_id=7, document_id=skipped)])
    await execute(database, "update kbsync.unit_requests set ended_at = now() + '1 s', ended_as = 'skipped'")
    look = await observe.chunk_backlog(database)
    assert list(look.rows) == [{"organization_id": 7, "documents": 3, "not_asked": 3, "first_not_asked": forgotten}]
    assert look.failed


async def test_stale_sources_come_never_synced_first_and_only_kept_ones_fail(database: Database) -> None:
    made = {name: await a_source(database) for name in ("never", "old", "fresh", "failed", "gone", "new", "opted out")}
    await a_source(database, type="intercom", status="failed")
    for name, sql in (
        ("never", "created_at = now() - interval '3 days'"),
        ("old", "last_synced_at = now() - interval '49 hours'"),
        ("fresh", "last_synced_at = now() - interval '47 hours'"),
        ("failed", "last_synced_at = now(), sync_status = 'failed'"),
        ("gone", "created_at = now() - interval '3 days', discarded_at = now()"),
        ("opted out", "last_synced_at = now() - interval '49 hours', daily_tick = false"),
    ):
        await execute(database, f"update knowledge_base_sources set {sql} where id = $1", made[name])
    look = await observe.stale_sources(database)
    assert [row["id"] for row in look.rows] == [made[name] for name in ("never", "old", "failed", "gone")]
    assert list(look.rows[0]) == ["id", "organization_id", "type", "sync_status", "last_synced_at", "discarded_at"]
    assert look.failed
    await execute(database, "delete from knowledge_base_sources where discarded_at is null")
    look = await observe.stale_sources(database)
    assert (len(look.rows), look.failed) == (1, False)


async def test_a_database_without_the_producer_s_job_table_says_so(database: Database) -> None:
    look = await observe.legacy_jobs(database, NOW)
    assert (look.rows, look.failed) == ([], False)
    assert "not in this database" in look.empty


async def test_new_rows_of_the_six_classes_fail_and_other_rows_do_not(database: Database) -> None:
    await make_good_jobs(database)
    since = datetime.now(UTC) - timedelta(hours=2)
    await a_legacy_job(database, hours_ago=3)
    await a_legacy_job(database, job_class="SomethingElseJob")
    look = await observe.legacy_jobs(database, since)
    assert (look.rows, look.failed) == ([], False)
    for hours_ago in (0.5, 1):
        await a_legacy_job(database, hours_ago)
    await a_legacy_job(database, job_class="CrawlKnowledgeBaseUrlJob")
    look = await observe.legacy_jobs(database, since)
    assert [(row["job_class"], row["jobs"]) for row in look.rows] == [
        ("SyncKnowledgeBaseDocumentJob", 2),
        ("CrawlKnowledgeBaseUrlJob", 1),
    ]
    first, last = look.rows[0]["first_seen"], look.rows[0]["last_seen"]
    assert isinstance(first, datetime)
    assert isinstance(last, datetime)
    assert timedelta(minutes=29) < last - first < timedelta(minutes=31)
    assert look.failed


async def test_a_rails_app_s_times_without_a_zone_are_utc(database: Database) -> None:
    """Whatever the time zone of the session that asks."""
    await make_good_jobs(database)
    created = datetime(2026, 9, 9, 10, 13)
    await execute(
        database, "insert into good_jobs (job_class, created_at) values ('StartKnowledgeBaseCrawlJob', $1)", created
    )
    async with database.fleet() as connection:
        await connection.execute("set local timezone = 'Asia/Tokyo'")
        for minutes, jobs in ((12, 1), (14, 0)):
            since = datetime(2026, 9, 9, 10, minutes, tzinfo=UTC)
            found = await observations.legacy_jobs(connection, since)
            assert found is not None
            assert sum(one.jobs for one in found) == jobs
