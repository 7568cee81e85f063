"""Library rows for tests of the tick and the reconciler: defaults are legal, a test names what it is about."""

from __future__ import annotations

from collections.abc import Sequence

from kbsync.db.pool import Database


async def an_organization(database: Database, organization_id: int = 7) -> int:
    async with database.direct() as connection:
        await connection.execute(
            "insert into organizations (id, name) values ($1, 'o') on conflict do nothing", organization_id
        )
    return organization_id


async def a_source(
    database: Database,
    organization_id: int = 7,
    *,
    type: str = "notion",
    discarded: bool = False,
    daily_tick: bool | None = None,
    status: str = "pending",
    started_s_ago: float | None = None,
) -> int:
    await an_organization(database, organization_id)
    async with database.direct() as connection:
        source_id: int = await connection.fetchval(
            "insert into knowledge_base_sources (organization_id, type, discarded_at, daily_tick, sync_status, "
            "sync_started_at) values ($1, $2, case when $3 then now() end, $4, $5, "
            "now() - make_interval(secs => $6)) returning id",
            organization_id, type, discarded, daily_tick, status, started_s_ago,
        )  # fmt: skip
    return source_id


async def a_document(
    database: Database,
    organization_id: int = 7,
    *,
    source_id: int | None = None,
    source_type: str = "notion",
    content: str | None = "text",
    chunked: bool = False,
    discarded: bool = False,
) -> int:
    await an_organization(database, organization_id)
    async with database.direct() as connection:
        document_id: int = await connection.fetchval(
            "insert into knowledge_base_documents (organization_id, source_id, source_type, external_id, content, "
            "chunks_synced_at, discarded_at) values ($1, $2, $3, gen_random_uuid()::text, $4, "
            "case when $5 then now() end, case when $6 then now() end) returning id",
            organization_id, source_id, source_type, content, chunked, discarded,
        )  # fmt: skip
    return document_id


async def many_sources(database: Database, count: int, organization_ids: Sequence[int] = (7,)) -> None:
    for organization_id in organization_ids:
        await an_organization(database, organization_id)
    async with database.direct() as connection:
        await connection.execute(
            "insert into knowledge_base_sources (organization_id, type) "
            "select ($2::bigint[])[1 + n % cardinality($2::bigint[])], 'notion' from generate_series(1, $1) n",
            count,
            list(organization_ids),
        )


async def owed(database: Database) -> dict[str, bool]:
    """Job id -> whether it is open."""
    async with database.fleet() as connection:
        rows = await connection.fetch(
            "select job_id, ended_at is null or ended_at < requested_at as open from kbsync.unit_requests order by 1"
        )
    return {row["job_id"]: row["open"] for row in rows}
