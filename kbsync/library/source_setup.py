"""What people change of a source, and its removal with everything it holds, a batch at a time (LS-26)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from kbsync.db.pool import Connection
from kbsync.db.statements import Statements
from kbsync.domain.text import storable
from kbsync.library.sources import storable_json

_SQL = Statements.beside(__file__)


@dataclass(frozen=True)
class Schedule:
    """`daily_tick` None: as its provider's sources are by default. `sync_every_s`: besides the tick."""

    daily_tick: bool | None
    sync_every_s: int | None
    interval_asked_at: datetime | None
    disabled_at: datetime | None


@dataclass(frozen=True)
class Holdings:
    """What goes with a source."""

    documents: int
    chunks: int
    sections: int
    crawls: int
    crawl_urls: int
    runs: int


async def change(
    connection: Connection,
    organization_id: int,
    source_id: int,
    *,
    name: str,
    config: Mapping[str, object],
    daily_tick: bool | None,
) -> bool:
    """False when there is no such kept source."""
    arguments = (organization_id, source_id, storable(name), storable_json(config), daily_tick)
    return await connection.fetchval(_SQL["update_setup"], *arguments) is not None


async def set_interval(connection: Connection, organization_id: int, source_id: int, seconds: int | None) -> bool:
    """None: only the daily tick. False when there is no such kept source."""
    return await connection.fetchval(_SQL["set_interval"], organization_id, source_id, seconds) is not None


async def disabled_ids(connection: Connection, organization_id: int) -> set[int]:
    """The organization's sources that nobody asks."""
    return {row["id"] for row in await connection.fetch(_SQL["disabled_sources"], organization_id)}


async def set_disabled(connection: Connection, organization_id: int, source_id: int, disabled: bool) -> bool:
    """False when there is no such kept source, or it stood so already."""
    return await connection.fetchval(_SQL["set_disabled"], organization_id, source_id, disabled) is not None


async def schedule(connection: Connection, organization_id: int, source_id: int) -> Schedule | None:
    row = await connection.fetchrow(_SQL["schedule_of"], organization_id, source_id)
    return Schedule(**row) if row else None


async def holdings(connection: Connection, organization_id: int, source_id: int) -> Holdings:
    row = await connection.fetchrow(_SQL["what_it_holds"], organization_id, source_id)
    assert row is not None
    return Holdings(**row)


async def holdings_up_to(connection: Connection, organization_id: int, source_id: int, most: int) -> Holdings:
    """As `holdings`, counted to `most` (chunks to ten times that), and without what a person does not think in."""
    row = await connection.fetchrow(_SQL["holds_up_to"], organization_id, source_id, most)
    assert row is not None
    return Holdings(**row)


async def is_there(connection: Connection, organization_id: int, source_id: int) -> bool:
    """Whether the row is, discarded or not: a removal that stopped half-way goes on."""
    return await connection.fetchval(_SQL["is_there"], organization_id, source_id) is not None


async def discard(connection: Connection, organization_id: int, source_id: int) -> bool:
    """After: no unit of it runs, and no run of it ends. False when that was so already."""
    return await connection.fetchval(_SQL["discard_source"], organization_id, source_id) is not None


async def remove_some(connection: Connection, organization_id: int, source_id: int, limit: int) -> int:
    """One batch of documents with their chunks, and of crawl URLs; how many rows went. 0: none are left."""
    documents: int = await connection.fetchval(_SQL["remove_documents"], organization_id, source_id, limit)
    urls: int = await connection.fetchval(_SQL["remove_crawl_urls"], organization_id, source_id, limit)
    return documents + urls


async def remove_last(connection: Connection, organization_id: int, source_id: int) -> bool:
    """Before: `remove_some` answered 0. After: the source and what only it used is gone; False when a unit that still ran
    wrote a document meanwhile."""
    await connection.execute(_SQL["remove_rest"], organization_id, source_id)
    row = await connection.fetchrow(_SQL["remove_source"], organization_id, source_id)
    if row is None:
        return False
    if row["data_source_id"] is not None:
        await connection.fetchval(_SQL["remove_unused_connection"], organization_id, row["data_source_id"])
    return True
