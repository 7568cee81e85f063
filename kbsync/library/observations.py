"""Fleet-wide reads for people: what production looks like, and what must hold in the ledgers (OP-09, OP-16).

Statements only, run in `fleet()` transactions; nothing here writes. Each takes at most WITHIN_S seconds, then raises
TimeoutError. The checks answer the first `limit` rows that break what must hold: an empty list means that it holds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum

import asyncpg

from kbsync.db.pool import Connection
from kbsync.db.statements import Statements
from kbsync.domain.ids import job_id
from kbsync.domain.requests import DocumentChunks

_SQL = Statements.beside(__file__)

WITHIN_S = 30.0
STALE_DAYS = 2
ROWS = 50
_CHUNKS_ID = job_id(DocumentChunks(organization_id=1, document_id=1)).removesuffix("1")

Row = Mapping[str, object]


@dataclass(frozen=True)
class ChunkBacklog:
    """`not_asked`: without anybody who owes them chunks; `first_not_asked` is such a document's id."""

    organization_id: int
    documents: int
    not_asked: int
    first_not_asked: int | None


@dataclass(frozen=True)
class StaleSource:
    id: int
    organization_id: int
    type: str
    sync_status: str
    last_synced_at: datetime | None
    discarded_at: datetime | None


@dataclass(frozen=True)
class LegacyJobs:
    """`old_unfinished`: from before the time that was asked about, not finished yet."""

    job_class: str
    jobs: int
    first_seen: datetime | None
    last_seen: datetime | None
    old_unfinished: int


@dataclass(frozen=True)
class Tick:
    date: date
    claimed_at: datetime
    finished_at: datetime | None
    skipped: bool
    counts: Mapping[str, int]


class Broken(StrEnum):
    """Checks without arguments, by the name of their statement."""

    CRAWLS_MISCOUNTED = "crawls_miscounted"
    CRAWLS_ENDED_UNFINISHED = "crawls_ended_unfinished"
    DOUBLE_CHUNKS = "double_chunks"
    CHUNKS_WITHOUT_DOCUMENT = "chunks_without_document"
    DOCUMENTS_MISSING_CHUNKS = "documents_missing_chunks"
    SEARCH_ROWS_WITHOUT_DOCUMENT = "search_rows_without_document"


async def unique_jobs(connection: Connection, since: datetime) -> Mapping[str, int]:
    """By kind, how many different jobs were asked for or ended since."""
    rows = await _fetch(connection, "unique_jobs_since", since)
    found: dict[str, int] = {}
    for row in rows:
        found[row["kind"]] = found.get(row["kind"], 0) + row["jobs"]
    return found


async def chunk_backlog(connection: Connection, limit: int = ROWS) -> list[ChunkBacklog]:
    return [ChunkBacklog(**row) for row in await _fetch(connection, "chunk_backlog", _CHUNKS_ID, limit)]


async def stale_sources(connection: Connection, days: int = STALE_DAYS, limit: int = ROWS) -> list[StaleSource]:
    return [StaleSource(**row) for row in await _fetch(connection, "stale_sources", days, limit)]


async def legacy_jobs(connection: Connection, since: datetime) -> list[LegacyJobs] | None:
    """None: the producer app's job table is not in this database, or may not be read."""
    rows = await _fetch(connection, "legacy_jobs", since)
    return [LegacyJobs(**row) for row in rows] or None


async def newest_tick(connection: Connection, since: datetime) -> Tick | None:
    return _tick(await _fetch(connection, "newest_tick", since))


async def tick_of(connection: Connection, day: date) -> Tick | None:
    return _tick(await _fetch(connection, "tick_of", day))


async def sources_moving(connection: Connection, since: datetime) -> tuple[int, int]:
    """How many sources the daily scan asks for, and how many of them were synced since."""
    (row,) = await _fetch(connection, "sources_moving", since)
    return row["sources"], row["moved"]


async def broken(connection: Connection, check: Broken, limit: int) -> list[Row]:
    return [dict(row) for row in await _fetch(connection, check.value, limit)]


async def outbox_waiting(connection: Connection, age_s: float, paused: Sequence[int], limit: int) -> list[Row]:
    """Rows older than `age_s` of organizations that are not `paused`."""
    return [dict(row) for row in await _fetch(connection, "outbox_waiting", age_s, list(paused), limit)]


async def _fetch(connection: Connection, name: str, *arguments: object) -> list[asyncpg.Record]:
    rows: list[asyncpg.Record] = await connection.fetch(_SQL[name], *arguments, timeout=WITHIN_S)
    return rows


def _tick(rows: Sequence[asyncpg.Record]) -> Tick | None:
    if not rows:
        return None
    values = dict(rows[0])
    return Tick(**values | {"counts": json.loads(values["counts"])})
