"""The measurements of crawl, library, recovery and search once, small; and what their speed comes from, counted."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import asyncpg
import pytest

from kbsync.db.pool import Connection, Database
from kbsync.domain.requests import DocumentChunks, SyncDocument, SyncSource
from kbsync.flags.flipper_tables import FlipperTables
from kbsync.flags.kill_switch import KillSwitch
from kbsync.library import due, organizations, sources, statistics
from kbsync.library.crawl_urls import Link, page_context
from kbsync.library.search import search as find
from kbsync.queue.jobs import Enqueued, JobRequest
from kbsync.recovery import kinds
from kbsync.recovery.reconciler import Reconciler
from kbsync.sync.context import Units
from ops.bench import crawl, library, search
from ops.bench import recovery as recovery_bench
from ops.bench.table import Options


def quiet(folder: Path) -> Options:
    folder.chmod(0o755)
    return Options(folder, quick=True, rounds=1, say=lambda text: None)


@pytest.mark.spec("PF-13")
def test_recovery_is_measured(tmp_path: Path) -> None:
    (figure,) = recovery_bench.measure(quiet(tmp_path))
    assert all(check.value is not None for check in figure.checks)


@pytest.mark.spec("PF-15")
async def test_a_search_is_measured_over_the_chunks_that_were_asked_for(database: Database) -> None:
    texts = list(search.real_texts(8))
    tenants, chunks = await search.fill(database, texts, 200)
    assert chunks >= 200
    assert len(tenants) > search.SMALL_TENANTS
    words = search.WORD.findall(texts[0].page.markdown.lower())
    async with database.organization(tenants[-1]) as connection:
        assert await find(connection, tenants[-1], words[0])


@pytest.mark.spec("PF-10")
@pytest.mark.needs("postgresql-doc-15")
def test_a_site_has_so_many_pages_and_its_index(tmp_path: Path) -> None:
    from ops.bench.crawl_site import answers

    pages = [path for path in answers(crawl.MANUAL, 5) if path.endswith(b".html")]
    assert len(pages) == 5
    assert b"/index.html" in pages


# --- counted ------------------------------------------------------------------------------------------------------


async def statements_a_document(
    database: Database, documents: int, monkeypatch: pytest.MonkeyPatch
) -> dict[str, float]:
    """Calls to Postgres per document of a source sync, and of the units of one document."""
    calls: Counter[str] = Counter()
    step = "source"
    for name in ("execute", "fetch", "fetchrow", "fetchval"):
        real = getattr(asyncpg.Connection, name)

        async def counted(self: object, *arguments: object, _real: object = real, **named: object) -> object:
            calls[step] += 1
            return await _real(self, *arguments, **named)  # type: ignore[operator]

        monkeypatch.setattr(asyncpg.Connection, name, counted)
    async with database.fleet() as connection:
        organization_id = await organizations.create(connection, "Acme")
    async with database.organization(organization_id) as connection:
        source_id = await sources.create(connection, organization_id, type="many", config={})
    assert source_id is not None
    units = Units(database, lambda _type, _setup: library.ManyDocuments(documents))
    calls.clear()
    await library.run_unit(units, SyncSource(organization_id=organization_id, source_id=source_id))
    async with database.organization(organization_id) as connection:
        document_id = await connection.fetchval(
            "select max(id) from knowledge_base_documents where source_id = $1", source_id
        )
    step = "document"
    await library.run_unit(units, SyncDocument(organization_id=organization_id, document_id=document_id))
    step = "chunks"
    await library.run_unit(units, DocumentChunks(organization_id=organization_id, document_id=document_id))
    monkeypatch.undo()
    return {"source": calls["source"] / documents, "document": calls["document"], "chunks": calls["chunks"]}


@pytest.mark.spec("PF-11")
async def test_a_document_costs_the_same_calls_in_a_large_library(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = await statements_a_document(database, 10, monkeypatch)
    large = await statements_a_document(database, 1_500, monkeypatch)
    assert large["document"] == small["document"]
    assert large["chunks"] == small["chunks"] <= 10
    assert large["source"] < 0.05, "a listing is written in batches"


async def rows_read(connection: Connection, work: str, *arguments: object) -> int:
    """Index entries and rows that a statement looks at."""
    plan = await connection.fetchval(f"explain (analyze, format json) {work}", *arguments)

    def looked_at(node: dict[str, object]) -> int:
        own = (int(float(str(node["Actual Rows"]))) + int(str(node.get("Rows Removed by Filter", 0)))) * int(
            str(node["Actual Loops"])
        )
        below = node.get("Plans", [])
        assert isinstance(below, list)
        return own + sum(looked_at(one) for one in below)

    return looked_at(json.loads(plan)[0]["Plan"])


@pytest.mark.spec("PF-10", "PF-11")
async def test_statistics_keep_up_with_a_table_that_fills(database: Database) -> None:
    """Without them a look-up of three links would read all URLs of the crawl."""
    async with database.fleet() as connection:
        organization_id = await organizations.create(connection, "Acme")
    async with database.organization(organization_id) as connection:
        source_id = await sources.create(connection, organization_id, type="website", config={})
        task_id = await connection.fetchval(
            "insert into knowledge_base_crawl_tasks (organization_id, source_id, start_url) values ($1, $2, 'x')"
            " returning id",
            organization_id,
            source_id,
        )
        links = [Link.of(f"http://h.test/{number}", f"http://h.test/{number}") for number in range(4_000)]
        await connection.execute(
            "insert into kbsync.crawl_task_urls (organization_id, crawl_task_id, url, url_key, fetch_url, depth)"
            " select $1, $2, url, key, url, 0 from unnest($3::text[], $4::text[]) as link (url, key)",
            organization_id,
            task_id,
            [link.url for link in links],
            [link.url_key for link in links],
        )
    async with database.fleet() as connection:
        await statistics.refresh(connection)
        assert (
            await connection.fetchval("select reltuples from pg_class where oid = 'kbsync.crawl_task_urls'::regclass")
            == 4_000
        )
    keys = [link.url_key for link in links[:3]]
    async with database.organization(organization_id) as connection:
        sql = (
            "select url_key from kbsync.crawl_task_urls"
            " where organization_id = $1 and crawl_task_id = $2 and url_key = any($3::text[])"
        )
        assert await rows_read(connection, sql, organization_id, task_id, keys) <= 30
        context = await page_context(
            connection, organization_id, task_id, url_key=keys[0], text_key=None, link_keys=keys, text_bound=10
        )
    assert context.claimed == set(keys)


def test_statistics_are_refreshed_as_often_as_a_run_doubles() -> None:
    assert [rows for rows in range(1, 1_100) if statistics.is_due(rows)] == [64, 128, 256, 512, 1024]


@pytest.mark.spec("PF-15")
async def test_the_languages_of_a_tenant_are_found_without_reading_its_chunks(database: Database) -> None:
    texts = list(search.real_texts(8))
    tenants, _ = await search.fill(database, texts, 200)
    async with database.direct() as connection:
        sql = "select language from document_chunks where organization_id + 0 = $1 order by language limit 1"
        await connection.execute("set local enable_seqscan = off")
        plan = "\n".join(row[0] for row in await connection.fetch(f"explain {sql}", tenants[0]))
        assert "document_chunks_languages_of_organization" in plan


@pytest.mark.spec("PF-13")
async def test_each_tenant_is_in_the_first_batch_however_many_units_another_owes(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(due, "PAGE", 200)
    monkeypatch.setattr(due.open_past_grace, "__defaults__", ((due.LONG_AGO, ""), 200))
    async with database.fleet() as connection:
        await connection.execute(recovery_bench.OWE_UNITS, 1_000, 50)
    pages = []
    async for page in kinds.OPEN_UNITS.pages(database, 60.0):
        pages.append(page)
    assert {one.organization_id for one in pages[0]} == set(range(1, 51))
    assert len(pages[0]) == 50 * kinds.FIRST_OF_EACH
    given = Counter(one.job_id for page in pages for one in page)
    assert len(given) == 1_000
    assert set(given.values()) == {1}, "nothing twice"


@pytest.mark.spec("PF-13")
async def test_a_pass_asks_the_queue_in_bounded_calls(database: Database) -> None:
    async with database.fleet() as connection:
        await connection.execute(recovery_bench.OWE_UNITS, 1_200, 3)
    asked: list[int] = []

    class Queue(library.CountingQueue):
        async def enqueue(self, queue: str, requests: list[JobRequest]) -> list[Enqueued]:
            asked.append(len(requests))
            return await super().enqueue(queue, requests)

    switch = KillSwitch(FlipperTables(database), database)
    done = await Reconciler(database, Queue(), switch, grace_s=60).once()
    assert done.requeued == 1_200
    assert max(asked) <= 500
