"""How the library stands, for the first page a person opens: a fixed number of statements, each with a bounded answer.

Transactions: `fleet()`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime

from kbsync.db.pool import Connection
from kbsync.db.statements import Statements
from kbsync.library.gauges import STALE_DAYS

_SQL = Statements.beside(__file__)


@dataclass(frozen=True)
class SourcesStanding:
    """Of the kept sources that the daily scan asks for. `oldest`: when the one furthest behind was synced, or made."""

    sources: int
    failed: int
    behind: int
    oldest: datetime | None
    held: int


@dataclass(frozen=True)
class SourceBehind:
    """A source that failed, or that nobody synced for long. `last_synced_at` None: never."""

    id: int
    name: str
    type: str
    organization: str
    status: str
    error: str | None
    error_at: datetime | None
    last_synced_at: datetime | None


@dataclass(frozen=True)
class HeldRemoval:
    """A listing would remove `count` of `of` documents, and waits for a second look (LS-09)."""

    id: int
    name: str
    type: str
    organization: str
    count: int | None
    of: int | None
    since: datetime | None


@dataclass(frozen=True)
class CrawlUnderWay:
    id: int
    start_url: str
    organization: str
    status: str
    found: int
    pending: int
    began_at: datetime


@dataclass(frozen=True)
class LastTick:
    date: date
    claimed_at: datetime
    finished_at: datetime | None
    skipped: bool
    counts: Mapping[str, int]


async def sources_standing(connection: Connection) -> SourcesStanding:
    row = await connection.fetchrow(_SQL["sources_standing"], STALE_DAYS)
    assert row is not None
    return SourcesStanding(**row)


async def sources_behind(connection: Connection, limit: int) -> list[SourceBehind]:
    """Failed ones first, newest failure first; then those furthest behind."""
    rows = await connection.fetch(_SQL["sources_behind"], STALE_DAYS, limit)
    return [SourceBehind(**row) for row in rows]


async def held_removals(connection: Connection, limit: int) -> list[HeldRemoval]:
    """Those that nobody has approved yet, oldest source first."""
    rows = await connection.fetch(_SQL["held_removals"], limit)
    return [
        HeldRemoval(
            row["id"],
            row["name"],
            row["type"],
            row["organization"],
            _number(row["count"]),
            _number(row["of"]),
            _moment(row["since"]),
        )
        for row in rows
    ]


async def crawls_under_way(connection: Connection, limit: int) -> list[CrawlUnderWay]:
    return [CrawlUnderWay(**row) for row in await connection.fetch(_SQL["crawls_under_way"], limit)]


async def last_tick(connection: Connection) -> LastTick | None:
    row = await connection.fetchrow(_SQL["last_tick"])
    return LastTick(**{**row, "counts": json.loads(row["counts"])}) if row else None


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None


def _moment(text: str | None) -> datetime | None:
    try:
        found = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return found if found.tzinfo else None
