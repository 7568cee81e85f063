"""Every statement of every .sql file: it prepares, somebody uses it, and it stays inside its organization (LS-06, SE-02)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
import pytest

import kbsync
from kbsync.db.pool import Connection, Database
from kbsync.db.statements import Statements, all_statement_files

ROOT = Path(kbsync.__file__).parent
FILES = all_statement_files(ROOT) + all_statement_files(ROOT.parent / "ops")
LIBRARY = ROOT / "library" / "sql"
# Fleet-wide on purpose, run in `fleet()`: who asks is not one organization.
FLEET_FILES = {
    "audit", "bulk_actions", "counters", "dashboard_sessions", "due", "finding", "gauges", "intervals", "key_rotation",
    "known_requests", "observations", "organizations", "outbox", "overview", "owners", "paused_work", "principals",
    "queue_pauses", "quotas", "recoveries", "statistics", "ticks",
}  # fmt: skip
# Headlines are a function of their arguments; tests/search proves the search's tenant.
# So do tests/ops/test_erasure.py for what is run as the fleet, or as its function.
OTHER_STATEMENTS = {"headlines", "search", "rows_left", "erase_rest"}
TENANT_TABLES = (
    "data_sources",
    "knowledge_base_sources",
    "knowledge_base_sections",
    "knowledge_base_documents",
    "knowledge_base_document_sections",
    "knowledge_base_crawl_tasks",
    "document_chunks",
    "pg_search_documents",
    "kbsync.crawl_task_urls",
    "kbsync.unit_requests",
    "kbsync.source_runs",
    "kbsync.outbox",
)

ROW = 7  # every row of the first organization has this id, whatever its table is
KEY = "ab" * 32  # and this for every name, key and URL
LATER = datetime(2100, 1, 1, tzinfo=UTC)


def statements() -> list[tuple[Path, str, str]]:
    return [(path, name, sql) for path in FILES for name, sql in Statements(path).items()]


def tenant_statements() -> list[tuple[str, str]]:
    return [
        (name, sql)
        for path, name, sql in statements()
        if path.parent == LIBRARY and path.stem not in FLEET_FILES and name not in OTHER_STATEMENTS
    ]


def is_used(path: Path, name: str) -> bool:
    module = path.parent.parent / f"{path.stem}.py"
    return module.exists() and re.search(rf"[\"']{name}[\"']", module.read_text(encoding="utf-8")) is not None


def filters_by_organization(sql: str) -> bool:
    return re.search(r"organization_id = \$1\b|\(\s*\$1\b|select \$1\b", sql) is not None


@pytest.mark.spec("LS-06")
async def test_every_statement_prepares(database_url: str) -> None:
    faults = []
    connection = await asyncpg.connect(database_url)
    for path, name, sql in statements():
        try:
            await connection.prepare(sql)
        except asyncpg.PostgresError as error:
            faults.append(f"{path.name}: {name}: {error}")
    await connection.close()
    assert faults == []
    assert len(statements()) > 60


def test_every_statement_is_used() -> None:
    assert [f"{path.name}: {name}" for path, name, _ in statements() if not is_used(path, name)] == []


def test_that_guard_bites() -> None:
    assert not is_used(LIBRARY / "sources.sql", "nobody_uses_this")


@pytest.mark.spec("LS-06", "SE-02")
def test_every_tenant_statement_names_its_organization_first() -> None:
    assert [name for name, sql in tenant_statements() if not filters_by_organization(sql)] == []


def test_that_guard_bites_as_well() -> None:
    assert not filters_by_organization("update knowledge_base_sources set name = $2 where id = $1")


# --- swapped ids, without row security -----------------------------------------------------------------------------

# Arguments that a type alone does not say, by their number. Keyset pages begin at 0.
ARGUMENTS: dict[str, dict[int, object]] = {
    "due_after": {3: 0},
    "without_chunks_after": {3: 0},
    "unlisted_due_after": {3: 0},
    "chunks_outdated_after": {3: 0},
    "children_after": {4: 0},
    "seeds_after": {3: 0},
    "finish_if_unfinished": {4: "failed", 13: "failed", 14: ["kb-other"]},
    "end_run": {4: "failed"},
    "end_now": {3: "failed"},
    "mark_unreadable": {3: "because"},
    "discard_unseen_sections": {4: False},
    "replace_document_sections": {4: ["other"], 5: ["cd" * 32]},
    "claim_many": {6: ["cd" * 32]},
    "place_kept_chunks": {5: "simple"},
    "add_chunks": {5: "simple"},
    "register_many": {2: [KEY], 4: ['{"type": "sync_source"}']},
    "source_list": {2: 0, 3: 0, 4: None, 5: None, 6: None, 7: None},
    "source_list_reach": {2: 0, 3: 0, 4: None, 5: 1},
    "source_documents": {3: 0, 4: None, 5: None},
    "source_documents_reach": {3: 0, 4: 1},
    "document_chunk_page": {3: -1},
    "place_of_asset": {3: "text"},
    "upsert_listed_documents": {15: ["members"]},
    "store_content": {12: "members"},
    "crawl_list": {2: 100, 3: None, 4: None, 5: None},
    "crawl_list_reach": {2: 100, 3: None, 4: None, 5: 1},
    "urls_by_outcome": {3: "gone", 4: 0},
    "note_refusal": {4: None},
    "set_interval": {3: 600},
    "job_ids_after": {2: ""},
    "forget_older_runs": {3: 0},
    "kept_keys_after": {3: 0},
    "seed_ids": {3: 0},
    "child_ids": {4: 0},
}
NOTHING_BELOW = (
    "delete from knowledge_base_document_sections; delete from kbsync.crawl_task_urls; "
    "delete from knowledge_base_crawl_tasks; delete from knowledge_base_sections; delete from knowledge_base_documents"
)
# What the first organization's rows must look like for the statement to do something to them.
BEFORE = {
    "complete_task": "update knowledge_base_crawl_tasks set urls_pending = 0",
    "run_task_if_pending": "update knowledge_base_crawl_tasks set status = 'pending'",
    "fail_task_if_pending": "update knowledge_base_crawl_tasks set status = 'pending'",
    "insert_task_if_none_live": "update knowledge_base_crawl_tasks set status = 'completed'",
    "update_limits": "update data_sources set limits = '{\"a\": 1}'",
    "fail_source_run": "update kbsync.source_runs set ended_at = null, outcome = null",
    "correct_ended_run": "update kbsync.source_runs set ended_at = now(), outcome = 'synced'",
    "source_unread": "update knowledge_base_documents set last_synced_at = null, content_hash = null",
    "chunks_outdated_after": "update knowledge_base_documents set chunks_synced_at = null, last_synced_at = now(), "
    "synced_version = source_version, synced_changed_at = source_changed_at",
    "disabled_sources": "update knowledge_base_sources set disabled_at = now()",
    "schedule_of": "update knowledge_base_sources set sync_every_s = 600",
    "remove_source": NOTHING_BELOW,
    "erase_knowledge_base_sources": NOTHING_BELOW,
    "erase_data_sources": "update knowledge_base_sources set data_source_id = null",
    "orphan_sections": "update knowledge_base_sections set parent_id = 7 where id = 8",
    "remove_unused_connection": "update knowledge_base_sources set data_source_id = null",
    "forget_refusal": "update data_sources set refused_at = now()",
    "place_kept_chunks": "update document_chunks set title = 'another'",
    "replace_search_row": "update pg_search_documents set content = 'another'",
    "end_run": "update kbsync.unit_requests set ended_at = null, ended_as = null",
}


async def fill(connection: Connection) -> tuple[int, int]:
    """Two organizations, the first with one row of everything."""
    ours, theirs = [
        await connection.fetchval("insert into organizations (name) values ($1) returning id", name) for name in "ab"
    ]
    for sql in (
        "insert into data_sources (id, organization_id, provider) values ($2, $1, 'toy')",
        "insert into knowledge_base_sources (id, organization_id, data_source_id, type, held_removal) "
        """values ($2, $1, $2, 'toy', '{"run": 1}')""",
        "insert into knowledge_base_sections (id, organization_id, source_id, external_id, external_key, title) "
        "values ($2, $1, $2, $3, $3, 'A section')",
        "insert into knowledge_base_sections (id, organization_id, source_id, external_id, external_key, "
        "parent_external_key, seen_in_run) values ($2 + 1, $1, $2, 'child', 'ee' || $3, $3, $2)",
        "insert into knowledge_base_documents (id, organization_id, source_id, external_id, external_key, content, "
        "content_hash, seen_in_run, title) values ($2, $1, $2, $3, $3, 'text', 'hash', 3, 'A document')",
        "insert into knowledge_base_document_sections (id, organization_id, document_id, section_id) "
        "values ($2, $1, $2, $2)",
        "insert into knowledge_base_crawl_tasks (id, organization_id, source_id, start_url, status, urls_pending) "
        "values ($2, $1, $2, $3, 'running', 2)",
        "insert into kbsync.crawl_task_urls (id, organization_id, crawl_task_id, url, url_key, fetch_url, parent_url, "
        "depth, pattern_key) values ($2, $1, $2, $3, $3, $3, $3, 0, $3)",
        "insert into kbsync.crawl_task_urls (id, organization_id, crawl_task_id, url, url_key, fetch_url, depth, text_key, "
        "finished_at, outcome) values ($2 + 1, $1, $2, 'seed', repeat('c', 64), 'seed', 0, $3, now(), 'stored')",
        "insert into kbsync.crawl_task_urls (id, organization_id, crawl_task_id, url, url_key, fetch_url, depth, "
        "finished_at, outcome) select $2 + at, $1, $2, outcome, repeat(at::text, 64), outcome, 0, now(), outcome "
        "from (values (2, 'failed'), (3, 'gone')) as ended (at, outcome)",
        "insert into kbsync.audit_entries (actor, action, target, organization_id) values ('a', 'b', $3, $1)",
        "insert into kbsync.unit_requests (job_id, organization_id, kind, request) "
        "values ($3, $1, 'sync_source', jsonb_build_object('id', $2::bigint))",
        "insert into kbsync.source_runs (id, organization_id, source_id) values ($2, $1, $2)",
        "insert into kbsync.outbox (organization_id, request) values ($1, '{}')",
        "insert into document_chunks (id, organization_id, source_type, source_id, content, content_hash) "
        "values ($2, $1, 'KnowledgeBaseDocument', $2, 'text', $3)",
        "insert into pg_search_documents (id, organization_id, searchable_type, searchable_id, content) "
        "values ($2, $1, 'KnowledgeBaseDocument', $2, $3)",
    ):
        literal = sql.replace("$1", str(ours)).replace("$2", str(ROW)).replace("$3", f"'{KEY}'")
        await connection.execute(literal)
    return ours, theirs


def argument(type_name: str) -> object:
    base, is_array = type_name.removesuffix("[]"), type_name.endswith("[]")
    value: object
    match base:
        case "int8" | "int4" | "int2":
            value = ROW
        case "text" | "varchar" | "name":
            value = KEY
        case "timestamptz":
            value = LATER
        case "bool":
            value = True
        case "jsonb":
            value = "{}"
        case "float8":
            value = 1.0
        case _:
            raise AssertionError(f"no argument for {type_name}")
    return [value] if is_array else value


async def run(connection: Connection, name: str, sql: str, organization_id: int) -> list[asyncpg.Record]:
    prepared = await connection.prepare(sql)
    given = ARGUMENTS.get(name, {})
    arguments = [
        given.get(number, argument(parameter.name)) for number, parameter in enumerate(prepared.get_parameters(), 1)
    ]
    return await prepared.fetch(organization_id, *arguments[1:])


async def rows_of(connection: Connection, organization_id: int) -> list[str]:
    found: list[str] = []
    for table in TENANT_TABLES:
        rows = await connection.fetch(f"select t::text from {table} t where organization_id = $1", organization_id)
        found += sorted(f"{table}: {row[0]}" for row in rows)
    return found


def says_something(records: Sequence[asyncpg.Record]) -> bool:
    """Whether an answer holds anything but nulls, zeros, falsehoods, empty arrays and the database's clock."""
    return any(
        bool(any(value) if isinstance(value, list) else value) and not isinstance(value, datetime)
        for record in records
        for key, value in record.items()
        if key != "started_at"
    )


class _Undo(Exception):
    pass


async def effect(
    connection: asyncpg.Connection[asyncpg.Record], name: str, sql: str, runs_as: int, owner: int
) -> tuple[bool, bool]:
    """Whether a statement run for `runs_as` with the ids of `owner` answers anything, and whether it changes `owner`."""
    try:
        async with connection.transaction():
            if name in BEFORE:
                await connection.execute(BEFORE[name])
            before = await rows_of(connection, owner)
            answer = await run(connection, name, sql, runs_as)
            answered, changed = says_something(answer), await rows_of(connection, owner) != before
            raise _Undo
    except _Undo:
        return answered, changed


@pytest.mark.spec("LS-06", "SE-02")
async def test_swapped_ids_find_and_change_nothing(database_url: str) -> None:
    """Run as the owner of the tables, so that row security is no help: each statement's own filter is what holds."""
    leaks, blind = [], []
    connection = await asyncpg.connect(database_url)
    ours, theirs = await fill(connection)
    for name, sql in tenant_statements():
        answered, changed = await effect(connection, name, sql, ours, ours)
        if not (answered or changed):
            blind.append(name)
        answered, changed = await effect(connection, name, sql, theirs, ours)
        # What an insert answers is a row of the asker's own.
        if changed or (answered and "insert into" not in sql):
            leaks.append(name)
    await connection.close()
    assert leaks == []
    assert blind == [], "with their own ids these did nothing, so they prove nothing"


async def test_that_proof_bites(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    ours, theirs = await fill(connection)
    forgetful = "update knowledge_base_sources set name = 'x' where id = $2 and $1::bigint is not null"
    assert await effect(connection, "forgetful", forgetful, theirs, ours) == (False, True)
    await connection.close()


@pytest.mark.spec("SE-02")
async def test_row_security_holds_where_a_statement_forgets_its_filter(database: Database) -> None:
    async with database.direct() as connection:
        ours, theirs = await fill(connection)
    for table in TENANT_TABLES:
        async with database.organization(theirs) as connection:
            assert await connection.fetchval(f"select count(*) from {table}") == 0, table
            assert await connection.execute(f"delete from {table}") == "DELETE 0", table
        async with database.organization(ours) as connection:
            assert await connection.fetchval(f"select count(*) from {table}") > 0, table
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        async with database.organization(theirs) as connection:
            await connection.execute(
                "insert into knowledge_base_sources (organization_id, type) values ($1, 'toy')", ours
            )
    async with database.organization(theirs) as connection:
        assert await connection.fetchval("select count(*) from organizations") == 1


@pytest.mark.spec("LS-24")
@pytest.mark.parametrize("table", ["kbsync.principals", "kbsync.tokens", "kbsync.ticks", "kbsync.migrations"])
async def test_the_library_role_writes_the_library_and_nothing_else(database: Database, table: str) -> None:
    async with database.direct() as connection:
        organization_id = await connection.fetchval("insert into organizations (name) values ('a') returning id")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        async with database.organization(organization_id) as connection:
            await connection.execute(f"delete from {table}")
