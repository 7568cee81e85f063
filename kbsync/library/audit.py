"""The audit: who did what to what, and why. Written in the transaction of the change where there is one."""

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


async def write(
    connection: Connection,
    *,
    actor: str,
    action: str,
    target: str,
    organization_id: int | None = None,
    reason: str | None = None,
    detail: Mapping[str, object] | None = None,
) -> None:
    """Adds one entry. `detail` holds ids and counts, never content or secrets."""
    await connection.execute(
        _SQL["insert_entry"],
        storable(actor),
        action,
        storable(target),
        organization_id,
        None if reason is None else storable(reason),
        json.dumps(dict(detail or {})),
    )


@dataclass(frozen=True)
class Entry:
    """One line of the audit. `organization` is the name of `organization_id`, None when it has none (any more)."""

    id: int
    at: datetime
    actor: str
    action: str
    target: str
    organization_id: int | None
    organization: str | None
    reason: str | None
    detail: Mapping[str, object]


@dataclass(frozen=True)
class EntryFilter:
    """Every given part must hold. A `target` that ends in `:` or `*` is the beginning of one. `until` is not included."""

    actor: str | None = None
    action: str | None = None
    target: str | None = None
    organization_id: int | None = None
    since: datetime | None = None
    until: datetime | None = None


async def page(
    connection: Connection, where: EntryFilter, before: tuple[datetime, int] | None = None, limit: int = 50
) -> list[Entry]:
    """Entries newest first, older than `before` (the time and id of the last one seen)."""
    target = where.target or ""
    begins = target.endswith((":", "*"))
    rows = await connection.fetch(
        _SQL["entries_page"],
        where.actor,
        where.action,
        None if begins else where.target,
        target.removesuffix("*") if begins else None,
        where.organization_id,
        where.since,
        where.until,
        *(before or (None, None)),
        limit,
    )
    return [_entry(row) for row in rows]


async def of_target(connection: Connection, target: str, limit: int = 10) -> list[Entry]:
    """The newest entries about one thing, of every organization."""
    return await page(connection, EntryFilter(target=target), limit=limit)


async def actions(connection: Connection, limit: int = 100) -> list[str]:
    """Every action that stands in the audit, by name."""
    return [row["word"] for row in await connection.fetch(_SQL["known_actions"], limit)]


async def actors(connection: Connection, limit: int = 100) -> list[str]:
    return [row["word"] for row in await connection.fetch(_SQL["known_actors"], limit)]


def _entry(row: asyncpg.Record) -> Entry:
    detail = json.loads(row["detail"])
    return Entry(**{**row, "detail": detail if isinstance(detail, dict) else {"detail": detail}})
