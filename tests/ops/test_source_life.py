"""A source is edited, disabled, enabled and removed, each audited (LS-26)."""

from __future__ import annotations

import pytest

from kbsync.db.pool import Database
from kbsync.recovery import source_removal
from kbsync.recovery.source_removal import remove_source
from tests.looking.rows import execute
from tests.ops.source_verbs import Verbs, kbsync
from tests.producers.library_rows import a_document, a_source

__all__ = ["kbsync"]


async def actions(database: Database) -> list[str]:
    async with database.fleet() as connection:
        rows = await connection.fetch("select action from kbsync.audit_entries order by id")
    return [row[0] for row in rows]


async def a_full_source(database: Database, documents: int = 5, organization: int = 7) -> int:
    """With a connection of its own, chunks, search rows, sections, a crawl and runs."""
    source = await a_source(database, organization, type="website")
    ids = [await a_document(database, organization, source_id=source) for _ in range(documents)]
    for sql in (
        "with made as (insert into data_sources (organization_id, provider) values ($1, 'website') returning id) "
        "update knowledge_base_sources set data_source_id = (select id from made) where id = $2",
        "insert into document_chunks (organization_id, source_type, source_id, content) "
        "select $1, 'KnowledgeBaseDocument', id, 'text' from knowledge_base_documents where source_id = $2",
        "insert into pg_search_documents (organization_id, searchable_type, searchable_id, content) "
        "select $1, 'KnowledgeBaseDocument', id, 'text' from knowledge_base_documents where source_id = $2",
        "insert into knowledge_base_sections (organization_id, source_id, external_id) values ($1, $2, 'parent')",
        "insert into knowledge_base_sections (organization_id, source_id, external_id, parent_id) "
        "select $1, $2, 'child', max(id) from knowledge_base_sections where source_id = $2",
        "insert into knowledge_base_document_sections (organization_id, document_id, section_id) "
        "select $1, (select max(id) from knowledge_base_documents where source_id = $2), max(id) "
        "from knowledge_base_sections where source_id = $2",
        "insert into knowledge_base_crawl_tasks (organization_id, source_id, start_url, status) "
        "values ($1, $2, 'https://x.test/', 'completed')",
        "insert into kbsync.crawl_task_urls (organization_id, crawl_task_id, url, url_key, fetch_url, depth) "
        "select $1, max(id), 'https://x.test/', repeat('a', 64), '', 0 from knowledge_base_crawl_tasks where source_id = $2",
        "insert into kbsync.source_runs (organization_id, source_id) values ($1, $2)",
    ):
        await execute(database, sql, organization, source)
    assert len(ids) == documents
    return source


async def rows_left(database: Database, organization: int = 7) -> dict[str, int]:
    tables = (
        "knowledge_base_sources", "data_sources", "knowledge_base_documents", "document_chunks", "pg_search_documents",
        "knowledge_base_sections", "knowledge_base_document_sections", "knowledge_base_crawl_tasks",
        "kbsync.crawl_task_urls", "kbsync.source_runs",
    )  # fmt: skip
    async with database.fleet() as connection:
        counted = {
            table: await connection.fetchval(f"select count(*) from {table} where organization_id = $1", organization)
            for table in tables
        }
    return {table: count for table, count in counted.items() if count}


@pytest.mark.spec("LS-26", "OP-03")
async def test_an_edit_changes_what_it_names_and_is_checked_like_a_new_source(
    kbsync: Verbs, database: Database
) -> None:
    added = await kbsync(
        "source", "add", "website", "https://x.test/", "--new-organization", "A", "--no-check", "--no-sync", "--json"
    )
    of = (str(added.json["source_id"]), "--organization", str(added.json["organization_id"]))
    settings = ("--config", "max_urls=50", "--config", "hosts=y.test,z.test")
    done = await kbsync("source", "edit", *of, "--name", "Docs", "--every", "6h", "--daily", "no", *settings, "--json")
    assert done.json["config"] == {"start_url": "https://x.test/", "max_urls": 50, "hosts": ["y.test", "z.test"]}
    shown = (await kbsync("source", "show", *of, "--json")).json
    assert (shown["name"], shown["every"], shown["daily_tick"]) == ("Docs", "6h", False)
    assert "max_urls" not in (await kbsync("source", "edit", *of, "--unset", "max_urls", "--json")).json["config"]
    for wrong, words in (
        (("--config", "max_urls=many"), "max_urls"),
        (("--config", "colour=red"), "no setting 'colour'"),
        (("--unset", "start_url"), "start_url: is needed"),
        (("--every", "1m"), "no interval"),
        ((), "say what changes"),
    ):
        refused = await kbsync("source", "edit", *of, *wrong)
        assert (refused.code, words in refused.error) == (1, True), refused
    after = (await kbsync("source", "show", *of, "--json")).json
    assert after["config"] == {"start_url": "https://x.test/", "hosts": ["y.test", "z.test"]}
    await kbsync("source", "edit", *of, "--every", "never")
    assert (await kbsync("source", "show", *of, "--json")).json["every"] is None
    assert await actions(database) == ["source.add", "source.edit", "source.edit", "source.edit"]


@pytest.mark.spec("LS-26", "OP-03")
async def test_a_disabled_source_is_not_synced_until_it_is_enabled(kbsync: Verbs, database: Database) -> None:
    source = str(await a_source(database))
    of = (source, "--organization", "7")
    assert "disabled" in (await kbsync("source", "disable", *of, "--reason", "they complain")).out
    assert "already" in (await kbsync("source", "disable", *of)).out
    assert "is disabled" in (await kbsync("source", "sync", *of)).error
    assert f"kbsync source enable {source} --organization 7" in (await kbsync("source", "sync", *of)).error
    assert " disabled " in (await kbsync("source", "list", "--organization", "7")).out
    assert (await kbsync("source", "enable", *of)).code == 0
    assert " disabled " not in (await kbsync("source", "list", "--organization", "7")).out
    asked = await kbsync("source", "sync", *of)
    assert f"sync requested\nnext: kbsync source runs {source} --organization 7" in asked.out
    assert (await kbsync("source", "disable", source, "--organization", "8")).code == 1
    assert await actions(database) == ["source.disable", "source.enable"]


@pytest.mark.spec("LS-26", "OP-03")
async def test_an_edit_says_what_it_changed_and_a_source_is_shown_in_words(kbsync: Verbs, database: Database) -> None:
    held = '{"count": 12, "of": 30, "titles": ["Old", "Older"], "why": "12 of 30 documents would go at once", "run": 4}'
    source = str(await a_source(database, type="zendesk"))
    await execute(
        database,
        "update knowledge_base_sources set held_removal = $3::jsonb, config = $4::jsonb"
        " where organization_id = $1 and id = $2",
        7, int(source), held, '{"base_url": "https://acme.zendesk.com", "locales": ["fr", "de"]}',
    )  # fmt: skip
    of = (source, "--organization", "7")
    said = await kbsync("source", "edit", *of, "--name", "Help", "--every", "6h", "--daily", "no", "--unset", "locales")
    assert said.out == f"source {source}: locales, name, every, daily changed; the next sync uses it\n"
    assert "it was so already" in (await kbsync("source", "edit", *of, "--name", "Help", "--every", "6h")).out
    shown = (await kbsync("source", "show", *of)).out
    assert "base_url: https://acme.zendesk.com\n" in shown
    assert "titles: Old, Older\n" in shown
    assert f"next: kbsync source approve-removal {source} --organization 7" in shown
    assert not any(word in shown for word in ("{", "None", "False"))


@pytest.mark.spec("LS-26", "OP-03")
async def test_a_removal_shows_what_goes_and_takes_nothing_else(kbsync: Verbs, database: Database) -> None:
    gone, stays = await a_full_source(database), await a_full_source(database)
    before = await rows_left(database)
    of = (str(gone), "--organization", "7")
    shown = (await kbsync("source", "remove", *of, "--json")).json
    assert shown == {
        "source_id": gone, "removed": False, "documents": 5, "chunks": 5, "sections": 2, "crawls": 1, "crawl_urls": 1,
        "runs": 1,
    }  # fmt: skip
    counted = "update knowledge_base_sources set counts = '{\"documents\": 3}' where organization_id = $1 and id = $2"
    await execute(database, counted, 7, gone)
    assert "5 documents (2 of them removed before), 5 chunks" in (await kbsync("source", "remove", *of)).out
    assert await rows_left(database) == before
    assert (await kbsync("source", "remove", str(gone), "--organization", "8", "--yes")).code == 1
    done = await kbsync("source", "remove", *of, "--yes")
    assert "removed with 5 documents, 5 chunks, 2 sections" in done.out
    assert await rows_left(database) == {table: count // 2 for table, count in before.items()}
    assert (await kbsync("source", "remove", *of, "--yes")).code == 1
    assert (await kbsync("source", "show", str(stays), "--organization", "7")).code == 0
    assert await actions(database) == ["source.remove"]


@pytest.mark.spec("LS-26")
async def test_a_removal_that_stopped_goes_on(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    source = await a_full_source(database, documents=7)
    monkeypatch.setattr(source_removal, "BATCH", 2)

    def stop(done: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await remove_source(database, 7, source, actor="ada", progress=stop)
    assert (await rows_left(database))["knowledge_base_documents"] == 5
    held = await remove_source(database, 7, source, actor="ada")
    assert held is not None
    assert held.documents == 5
    assert await rows_left(database) == {}
    assert await remove_source(database, 7, source, actor="ada") is None
