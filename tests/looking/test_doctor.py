"""Every check of the doctor is seen to bite, and a healthy deployment that has worked is clean."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from redis.asyncio import Redis
from typer.testing import CliRunner, Result

from kbsync.db.pool import Database
from kbsync.domain.errors import SettingsError
from kbsync.domain.ids import QueueName
from kbsync.domain.requests import DocumentChunks, LibraryRequest, Priority, SyncSource
from kbsync.library.due import register_many
from kbsync.providers.contract import Content, ListedDocument, Provider, SourceSetup
from kbsync.queue.units import enqueue_units
from kbsync.settings import Settings, load_settings
from ops.cli.app import app
from ops.doctor import clock_findings, examine
from ops.embedded.redis import EmbeddedRedis
from ops.findings import Finding, Severity
from tests.acceptance.deployment import deployed, until
from tests.looking.rows import execute, fleet_of, switch_of
from tests.producers.library_rows import a_document, a_source, an_organization
from tests.sync.toy import ToyListing

ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE


async def found(settings: Settings) -> dict[str, Finding]:
    """What counts, by check. The review date of the kill switch is a real day, so it is put off."""
    findings = await examine(lambda: settings)
    return {one.check: one for one in findings if one.severity is not NOTE}


@pytest.fixture(autouse=True)
async def review_is_not_due(database: Database) -> None:
    await execute(database, "update kbsync.flag_notes set review_by = current_date + 30")


async def a_crawl(database: Database, *, status: str = "running", pending: int = 0, unfinished: int = 0) -> int:
    source = await a_source(database, type="website")
    async with database.direct() as connection:
        task: int = await connection.fetchval(
            "insert into knowledge_base_crawl_tasks (organization_id, source_id, start_url, status, urls_pending) "
            "values (7, $1, 'https://x.test/', $2, $3) returning id",
            source, status, pending,
        )  # fmt: skip
        await connection.execute(
            "insert into kbsync.crawl_task_urls (organization_id, crawl_task_id, url, url_key, fetch_url, depth) "
            "select 7, $1, 'https://x.test/' || n, encode(sha256(n::text::bytea), 'hex'), '', 0 "
            "from generate_series(1, $2) n",
            task, unfinished,
        )  # fmt: skip
    return task


async def chunks_of(database: Database, document: int, *positions: int, organization_id: int = 7) -> None:
    async with database.direct() as connection:
        await connection.executemany(
            "insert into document_chunks (organization_id, source_type, source_id, position, content) "
            "values ($1, 'KnowledgeBaseDocument', $2, $3, 'text')",
            [(organization_id, document, position) for position in positions],
        )


async def owe(database: Database, request: LibraryRequest, *, minutes_ago: int = 61) -> None:
    async with database.fleet() as connection:
        await register_many(connection, [request], asked_s_ago=minutes_ago * 60)


# --- clean ---------------------------------------------------------------------------------------------------------


async def test_a_deployment_that_has_synced_removed_and_failed_is_clean(settings: Settings) -> None:
    provider = ToyListing(
        parts=[ListedDocument(one, title=one) for one in ("a", "b")],
        contents={"a": Content("# A\n\nText.", "a"), "b": Content("<!-- nothing to search -->", "b")},
    )

    def build(source_type: str, setup: SourceSetup) -> Provider:
        return provider

    async with deployed(settings, build_provider=build) as fleet:
        organization = await fleet.organization()
        source = await fleet.source(organization, "notion", {})
        await fleet.ask(SyncSource(organization_id=organization, source_id=source))

        async def chunked() -> bool:
            count = "select count(*) from knowledge_base_documents where chunks_synced_at is not null"
            return await fleet.fetchval(count) == 2

        await until(chunked, "two documents chunked")
        assert await found(settings) == {}


async def test_rows_that_are_as_they_should_be_are_no_findings(settings: Settings, database: Database) -> None:
    await a_crawl(database, pending=2, unfinished=2)
    await a_crawl(database, status="pending", pending=1, unfinished=1)
    await a_crawl(database, status="completed")
    await a_crawl(database, status="failed")
    await chunks_of(database, await a_document(database, chunked=True), 0, 1, 2)
    await a_document(database, content=" \n\u00a0 ", chunked=True)
    await a_source(database, status="syncing", started_s_ago=5)
    await owe(database, SyncSource(organization_id=7, source_id=99), minutes_ago=59)
    assert await found(settings) == {}


# --- ledgers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "pending", "unfinished"),
    [("running", 3, 2), ("pending", 0, 1), ("running", 0, 0), ("completed", 1, 0)],
)
async def test_a_crawl_whose_count_is_wrong(
    settings: Settings, database: Database, status: str, pending: int, unfinished: int
) -> None:
    task = await a_crawl(database, status=status, pending=pending, unfinished=unfinished)
    finding = (await found(settings))["crawls_miscounted"]
    assert finding.severity is ERROR
    assert f"id {task}," in finding.what
    assert finding.cure


async def test_a_completed_crawl_with_an_unfinished_url(settings: Settings, database: Database) -> None:
    task = await a_crawl(database, status="completed", unfinished=1)
    assert f"id {task}" in (await found(settings))["crawls_ended_unfinished"].what


async def test_two_chunk_sets_of_one_document(settings: Settings, database: Database) -> None:
    document = await a_document(database, chunked=True)
    await chunks_of(database, document, *range(7), *range(7))
    finding = (await found(settings))["double_chunks"]
    assert f"document_id {document}, position 0, chunks 2" in finding.what
    assert "(the first 5 of 7)" in finding.what


async def test_chunks_and_search_rows_whose_document_is_not_kept(settings: Settings, database: Database) -> None:
    await an_organization(database, 8)
    discarded = await a_document(database, discarded=True)
    theirs = await a_document(database, 8, content="")
    for document in (discarded, theirs, 12_345):
        await chunks_of(database, document, 0)
    await execute(
        database,
        "insert into pg_search_documents (organization_id, searchable_type, searchable_id) "
        "values (7, 'KnowledgeBaseDocument', $1), (7, 'KnowledgeBaseDocument', $2), (7, 'AnotherModel', 1)",
        discarded,
        theirs,
    )
    findings = await found(settings)
    chunks, search = findings["chunks_without_document"].what, findings["search_rows_without_document"].what
    assert all(f"document_id {document}," in chunks for document in (discarded, theirs, 12_345))
    assert chunks.count("document_id") == 3
    assert search.count("document_id") == 2


async def test_a_document_that_says_chunked_and_has_none(settings: Settings, database: Database) -> None:
    document = await a_document(database, chunked=True)
    assert f"id {document}" in (await found(settings))["documents_missing_chunks"].what


async def test_an_open_unit_without_a_job(settings: Settings, database: Database, redis: Redis) -> None:
    request = SyncSource(organization_id=7, source_id=1)
    await owe(database, request)
    finding = (await found(settings))["unit_requests"]
    assert finding.severity is WARNING
    assert "kb-source-sync-1" in finding.what
    async with fleet_of(settings) as fleet:
        await enqueue_units(fleet, [request], priority=Priority.NORMAL)
    assert "unit_requests" not in await found(settings)


async def test_a_paused_organization_s_units_and_outbox_wait_on_purpose(settings: Settings, database: Database) -> None:
    await owe(database, DocumentChunks(organization_id=7, document_id=1))
    await execute(
        database,
        "insert into kbsync.outbox (organization_id, request, created_at) values (7, '{}', now() - interval '6 minutes')",
    )
    assert set(await found(settings)) == {"unit_requests", "outbox"}
    await switch_of(database).pause("me", "quota", 7)
    assert await found(settings) == {}
    await execute(
        database,
        "insert into kbsync.outbox (organization_id, request, created_at) "
        "values (8, '{}', now() - interval '6 minutes'), (9, '{}', now() - interval '4 minutes')",
    )
    outbox = (await found(settings))["outbox"].what
    assert "organization_id 8" in outbox
    assert "organization_id 9" not in outbox
    await switch_of(database).pause("me", "everybody")
    assert await found(settings) == {}


async def test_a_source_that_says_syncing_and_has_no_job(settings: Settings, database: Database) -> None:
    source = await a_source(database, status="syncing", started_s_ago=600)
    assert f"{source} (organization 7)" in (await found(settings))["sources"].what
    async with fleet_of(settings) as fleet:
        request = SyncSource(organization_id=7, source_id=source)
        await enqueue_units(fleet, [request], priority=Priority.NORMAL)
        assert "sources" not in await found(settings)
    another = await a_source(database, status="syncing", started_s_ago=600)
    assert f"{another} (organization 7)" in (await found(settings))["sources"].what
    await switch_of(database).pause("me", "recovery stands down")
    assert "sources" not in await found(settings)


async def test_a_check_that_postgres_does_not_answer_in_time_is_said_and_the_others_are_made(
    settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = await a_crawl(database, status="completed", unfinished=1)
    monkeypatch.setattr("kbsync.library.observations.WITHIN_S", 0.5)
    async with database.direct() as connection:
        await connection.execute("lock table document_chunks in access exclusive mode")
        findings = await found(settings)
    late = {"double_chunks", "chunks_without_document", "documents_missing_chunks"}
    assert set(findings) == {*late, "crawls_ended_unfinished"}
    assert all(findings[name].severity is WARNING and "not looked at" in findings[name].what for name in late)
    assert f"id {task}" in findings["crawls_ended_unfinished"].what


# --- servers -------------------------------------------------------------------------------------------------------


async def test_waiting_jobs_without_a_worker(settings: Settings) -> None:
    async with fleet_of(settings) as fleet:
        await enqueue_units(fleet, [DocumentChunks(organization_id=1, document_id=1)], priority=Priority.NORMAL)
    finding = (await found(settings))["workers"]
    assert finding.severity is ERROR
    assert str(QueueName.CHUNKS) in finding.cure


async def test_a_worker_of_another_version(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    async with deployed(settings) as fleet:
        queue = fleet.runtime.fleet.queue(QueueName.SYNC)

        async def beats() -> bool:
            return bool(await queue.workers())

        await until(beats, "a health record")
        assert await found(settings) == {}
        monkeypatch.setattr("kbsync.__version__", "99.0")
        assert (await found(settings))["versions"].severity is WARNING


async def test_a_kill_switch_past_its_review(settings: Settings, database: Database) -> None:
    await execute(database, "update kbsync.flag_notes set review_by = current_date - 1")
    finding = (await found(settings))["kill switch"]
    assert finding.severity is WARNING
    assert "engineering" in finding.what


async def test_a_redis_that_would_drop_jobs(settings: Settings, redis: Redis) -> None:
    await redis.config_set("maxmemory-policy", "allkeys-lru")
    try:
        assert "allkeys-lru" in (await found(settings))["redis"].what
    finally:
        await redis.config_set("maxmemory-policy", "noeviction")
    notes = [one for one in await examine(lambda: settings) if one.severity is NOTE]
    assert any("written to disk" in one.what for one in notes)


async def test_servers_that_are_away_are_findings(settings: Settings, tmp_path: Path) -> None:
    redis = EmbeddedRedis(tmp_path, keep=False)
    no_redis = load_settings(**settings.model_dump() | {"redis_url": redis.url})
    assert (await found(no_redis))["redis"].severity is ERROR
    no_postgres = load_settings(**settings.model_dump() | {"database_url": "postgresql://nobody@127.0.0.1:1/none"})
    assert set(await found(no_postgres)) == {"postgres"}


async def test_a_schema_that_is_behind(settings: Settings, database: Database) -> None:
    await execute(database, "delete from kbsync.migrations where name like '0040%'")
    finding = (await found(settings))["schema"]
    assert "0040_hourly_counters" in finding.what
    assert "kbsync migrate" in finding.cure


async def test_settings_that_do_not_load_are_the_only_finding() -> None:
    def load() -> Settings:
        raise SettingsError("KBSYNC_LEASE_S: not a number")

    (finding,) = await examine(load)
    assert (finding.check, finding.severity) == ("settings", ERROR)


@pytest.mark.parametrize(
    ("postgres_s", "redis_s", "severities"),
    [(0.5, -0.5, []), (3.0, 0.0, [WARNING, WARNING]), (0.0, -31.0, [ERROR, ERROR]), (1.5, -1.5, [WARNING])],
)
def test_clocks_that_differ(postgres_s: float, redis_s: float, severities: list[Severity]) -> None:
    assert [one.severity for one in clock_findings(postgres_s, redis_s)] == severities


# --- the verbs -----------------------------------------------------------------------------------------------------


@pytest.fixture
def cli(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    monkeypatch.setenv("KBSYNC_DATABASE_URL", settings.database_url or "")
    monkeypatch.setenv("KBSYNC_REDIS_URL", settings.redis_url or "")
    return lambda *words: CliRunner().invoke(app, list(words))


async def in_thread(cli: Callable[..., Result], *words: str) -> Result:
    """A verb has an event loop of its own."""
    import asyncio

    return await asyncio.to_thread(cli, *words)


async def test_doctor_exits_1_for_errors_and_for_warnings_when_strict(
    cli: Callable[..., Result], database: Database
) -> None:
    clean = await in_thread(cli, "doctor", "--strict", "--json")
    assert clean.exit_code == 0, clean.output
    assert {one["severity"] for one in json.loads(clean.stdout)} <= {"note"}
    await execute(database, "update kbsync.flag_notes set review_by = current_date - 1")
    assert (await in_thread(cli, "doctor")).exit_code == 0
    assert (await in_thread(cli, "doctor", "--strict")).exit_code == 1
    await a_document(database, chunked=True)
    broken = await in_thread(cli, "doctor")
    assert broken.exit_code == 1
    assert "cure: ask for their chunks" in broken.stdout


async def test_the_kill_switch_shows_its_owner_purpose_and_review_date(cli: Callable[..., Result]) -> None:
    shown = json.loads((await in_thread(cli, "pause", "--show", "--json")).stdout)
    assert shown["owner"] == "engineering"
    assert "rollback" in shown["purpose"]
    assert shown["review_by"]


async def test_each_look_is_a_verb_that_prints_json_and_exits_by_its_verdict(
    cli: Callable[..., Result], database: Database
) -> None:
    since = ("--since", "2026-09-09T10:00")
    for words in (["throttle-storm"], ["chunk-backlog"], ["stale-sources"], ["legacy-jobs", *since]):
        assert json.loads((await in_thread(cli, "observe", *words, "--json")).stdout) == []
    after = await in_thread(cli, "observe", "after-cutover", *since, "--json")
    assert after.exit_code == 0
    assert len(json.loads(after.stdout)) == 5
    assert len(json.loads((await in_thread(cli, "observe", "bake", "--json")).stdout)) == 8
    await a_document(database)
    backlog = await in_thread(cli, "observe", "chunk-backlog")
    assert backlog.exit_code == 1
    assert "not_asked" in backlog.stdout
    wrong = await in_thread(cli, "observe", "legacy-jobs", "--since", "yesterday")
    assert isinstance(wrong.exception, SettingsError)
