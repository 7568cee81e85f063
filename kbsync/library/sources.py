"""Sources: what is synced, how it stands, and which removal waits for a second look."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import asyncpg

from kbsync.db.pool import Connection
from kbsync.db.statements import Statements
from kbsync.domain.text import storable

_SQL = Statements.beside(__file__)

MAX_ERROR_LENGTH = 2_000


@dataclass(frozen=True)
class SourceRow:
    """`sync_run` numbers the runs of its listing. `held_removal` is {"count", "of", "titles", "since", "run", "why"}."""

    id: int
    organization_id: int
    data_source_id: int | None
    type: str
    name: str
    config: Mapping[str, object]
    sync_status: str
    sync_error: str | None
    last_synced_at: datetime | None
    counts: Mapping[str, object]
    held_removal: Mapping[str, object] | None
    removal_approved_at: datetime | None
    sync_run: int


def _row(record: asyncpg.Record | None) -> SourceRow | None:
    if record is None:
        return None
    values = dict(record)
    for name in ("config", "counts", "held_removal"):
        values[name] = json.loads(values[name]) if values[name] is not None else None
    return SourceRow(**values)


async def create(
    connection: Connection,
    organization_id: int,
    *,
    type: str,
    name: str = "",
    config: Mapping[str, object] | None = None,
    data_source_id: int | None = None,
) -> int | None:
    """The id of a new source, or None when the data source is not this organization's."""
    created: int | None = await connection.fetchval(
        _SQL["insert_source"],
        organization_id,
        data_source_id,
        type,
        storable(name),
        storable_json(config or {}),
    )
    return created


async def get(connection: Connection, organization_id: int, source_id: int) -> SourceRow | None:
    """A kept source of this organization."""
    return _row(await connection.fetchrow(_SQL["source_by_id"], organization_id, source_id))


async def kept(connection: Connection, organization_id: int) -> list[SourceRow]:
    """This organization's sources that were not discarded, oldest first."""
    rows = [_row(record) for record in await connection.fetch(_SQL["kept_sources"], organization_id)]
    return [row for row in rows if row is not None]


async def lock(connection: Connection, organization_id: int, source_id: int) -> SourceRow | None:
    """As `get`, and nobody else ends a run of it before this transaction does."""
    return _row(await connection.fetchrow(_SQL["source_for_update"], organization_id, source_id))


async def begin_run(connection: Connection, organization_id: int, source_id: int) -> SourceRow | None:
    """The source with its new `sync_run`; status is `syncing`. None when there is no such kept source."""
    return _row(await connection.fetchrow(_SQL["begin_run"], organization_id, source_id))


async def finish_run(
    connection: Connection,
    organization_id: int,
    source_id: int,
    *,
    counts: Mapping[str, object],
    held_removal: Mapping[str, object] | None,
) -> None:
    """Before: the row is locked and the run is its newest. After: `synced`, with what it counted and holds back."""
    held = storable_json(held_removal) if held_removal is not None else None
    await connection.execute(_SQL["finish_run"], organization_id, source_id, storable_json(counts), held)


async def forget_held_removal(connection: Connection, organization_id: int, source_id: int) -> None:
    await connection.execute(_SQL["forget_held_removal"], organization_id, source_id)


async def fail(connection: Connection, organization_id: int, source_id: int, error: str) -> bool:
    """`failed` with an error and its time (LS-12). False when there is no such kept source."""
    text = storable(error)[:MAX_ERROR_LENGTH]
    return await connection.fetchval(_SQL["fail_source"], organization_id, source_id, text) is not None


async def fail_ended_run(connection: Connection, source: SourceRow, error: str) -> None:
    """Before: `source` was locked and read before its run was written down as ended. After: it is `failed`, and was last
    synced when it was before: a run that saw nothing is no sync."""
    text = storable(error)[:MAX_ERROR_LENGTH]
    await connection.execute(_SQL["fail_ended_run"], source.organization_id, source.id, text, source.last_synced_at)


async def note_wait(connection: Connection, organization_id: int, source_id: int, reason: str) -> bool:
    """Shows why a run waits, for instance `quota spent until ...` (RL-05). False when there is no such kept source."""
    text = storable(reason)[:MAX_ERROR_LENGTH]
    return await connection.fetchval(_SQL["note_source_wait"], organization_id, source_id, text) is not None


async def count_unreadable(connection: Connection, organization_id: int, source_id: int, change: int) -> None:
    """Keeps "synced, 3 unreadable" true between two listings (LS-12). Before: no row of a document is held yet, because
    whoever holds both takes the source first."""
    await connection.execute(_SQL["count_unreadable"], organization_id, source_id, change)


async def count_gone(connection: Connection, organization_id: int, source_id: int) -> None:
    """Keeps the number of documents true between two listings. Before: as `count_unreadable`."""
    await connection.execute(_SQL["count_gone"], organization_id, source_id)


async def approve_removal(connection: Connection, organization_id: int, source_id: int) -> bool:
    """An operator's click on a held removal (LS-09): the next run carries it out first. False when nothing is held."""
    return await connection.fetchval(_SQL["approve_removal_if_held"], organization_id, source_id) is not None


def storable_json(value: Mapping[str, object]) -> str:
    """JSON that jsonb takes: NUL and lone surrogates inside strings are dropped (LS-13, D07)."""
    return json.dumps(_storable_value(value), ensure_ascii=False, default=str)


def _storable_value(value: object) -> object:
    match value:
        case str():
            return storable(value)
        case Mapping():
            return {storable(str(key)): _storable_value(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_storable_value(inner) for inner in value]
        case _:
            return value
