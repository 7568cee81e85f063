"""An organization's rows, erased a batch at a time and counted afterwards (LS-26)."""

from __future__ import annotations

from collections.abc import Sequence

from kbsync.db.pool import Connection
from kbsync.db.statements import Statements

_SQL = Statements.beside(__file__)

# In this order no row points to one that is gone.
TABLES = (
    "erase_document_chunks",
    "erase_pg_search_documents",
    "erase_knowledge_base_document_sections",
    "erase_knowledge_base_documents",
    "erase_crawl_task_urls",
    "erase_knowledge_base_crawl_tasks",
    "erase_knowledge_base_sections",
    "erase_source_runs",
    "erase_knowledge_base_sources",
    "erase_data_sources",
    "erase_outbox",
    "erase_unit_requests",
)


async def discard_sources(connection: Connection, organization_id: int) -> None:
    """After: every unit of the organization that begins ends as `record-missing`."""
    await connection.execute(_SQL["discard_sources"], organization_id)
    await connection.execute(_SQL["orphan_sections"], organization_id)


async def erase_some(connection: Connection, organization_id: int, table: str, limit: int) -> int:
    """A batch of one of TABLES; how many rows went."""
    tag = await connection.execute(_SQL[table], organization_id, limit)
    return int(tag.split()[-1])


async def erase_rest(connection: Connection, organization_id: int, limit: int) -> tuple[int, bool]:
    """Before: TABLES are empty. How many rows went, and whether that was the last call needed. Transactions: `fleet()`."""
    row = await connection.fetchrow(_SQL["erase_rest"], organization_id, limit)
    assert row is not None
    return row["went"], row["is_done"]


async def rows_left(connection: Connection, organization_id: int) -> dict[str, int]:
    """By table. Transactions: `fleet()`."""
    return {row["place"]: row["rows"] for row in await connection.fetch(_SQL["rows_left"], organization_id)}


async def jobs_among(connection: Connection, organization_id: int, job_ids: Sequence[str]) -> set[str]:
    """Those of `job_ids` that the ledger knows as the organization's."""
    rows = await connection.fetch(_SQL["jobs_of_organization"], organization_id, list(job_ids))
    return {row["job_id"] for row in rows}


async def job_ids_after(connection: Connection, organization_id: int, after: str, limit: int) -> list[str]:
    return [row["job_id"] for row in await connection.fetch(_SQL["job_ids_after"], organization_id, after, limit)]
