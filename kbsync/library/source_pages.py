"""Sources as people look at them: lists over one or all organizations, and one source with what its ledgers know of it.

Every statement is one bounded read. A list looks at LOOKED_AT rows at most and says where it stopped."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import asyncpg

from kbsync.db.pool import Connection
from kbsync.db.statements import Statements
from kbsync.domain.audience import Audience
from kbsync.library.audiences import with_audience

_SQL = Statements.beside(__file__)

LOOKED_AT = 20_000
UNREAD_LOOKED_AT = 5_000
COUNTED_TO = 1_000
SECTIONS = 100
ENTRIES = 10


@dataclass(frozen=True)
class SourceFilter:
    """Every given part must hold. `status` is a stored one, or `held` for a removal that waits for a person."""

    organization_id: int | None = None
    type: str | None = None
    status: str | None = None
    text: str | None = None


@dataclass(frozen=True)
class SourceLine:
    """A source in a list. `held` counts documents whose removal waits for a person; `crawl_*` are of its live crawl."""

    id: int
    organization_id: int
    organization: str
    type: str
    name: str
    config: Mapping[str, object]
    sync_status: str
    sync_error: str | None
    sync_error_at: datetime | None
    sync_started_at: datetime | None
    last_synced_at: datetime | None
    daily_tick: bool | None
    counts: Mapping[str, object]
    held: int | None
    crawl_id: int | None
    crawl_found: int | None
    crawl_pending: int | None
    disabled_at: datetime | None = field(default=None, kw_only=True)
    sync_every_s: int | None = field(default=None, kw_only=True)
    interval_asked_at: datetime | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class SourceLines:
    """`after` continues; None at the end. It may come with few rows: then that many were looked at."""

    lines: list[SourceLine]
    after: tuple[int, int] | None


@dataclass(frozen=True)
class SourceCounts:
    """Each counted to COUNTED_TO and one more. `held`: removals that wait for a person."""

    total: int
    failed: int
    syncing: int
    pending: int
    held: int


@dataclass(frozen=True)
class SourcePage(SourceLine):
    """One source. `requested_at` and `ended_*` are of its newest request to sync."""

    created_at: datetime
    sync_run: int
    held_removal: Mapping[str, Any] | None
    removal_approved_at: datetime | None
    data_source_id: int | None
    data_source: str | None
    limits: Mapping[str, object]
    has_credentials: bool
    requested_at: datetime | None
    ended_at: datetime | None
    ended_as: str | None

    @property
    def is_owed(self) -> bool:
        """A sync was asked for and has not ended since."""
        return self.requested_at is not None and (self.ended_at is None or self.ended_at < self.requested_at)


@dataclass(frozen=True)
class DocumentLine:
    id: int
    title: str
    url: str | None
    last_synced_at: datetime | None
    chunks_synced_at: datetime | None
    unreadable_reason: str | None
    has_content: bool
    truncated: bool
    audience: Audience


@dataclass(frozen=True)
class DocumentLines:
    lines: list[DocumentLine]
    after: int | None


@dataclass(frozen=True)
class AuditLine:
    at: datetime
    actor: str
    action: str
    reason: str | None
    detail: Mapping[str, object]


_JSON = ("config", "counts", "held_removal", "limits", "detail")


def _values(record: asyncpg.Record) -> dict[str, Any]:
    return {name: json.loads(value) if name in _JSON and value is not None else value for name, value in record.items()}


async def source_list(
    connection: Connection,
    organization_id: int | None,
    where: SourceFilter,
    *,
    after: tuple[int, int] = (0, 0),
    limit: int = 50,
) -> SourceLines:
    """A keyset page by organization and id. `organization_id` None: of every organization, in a `fleet()` transaction."""
    arguments = (organization_id, *after, where.organization_id, where.type, where.status, _pattern(where.text))
    rows = await connection.fetch(_SQL["source_list"], *arguments, LOOKED_AT, limit + 1)
    lines = [SourceLine(**_values(row)) for row in rows]
    if len(lines) > limit:
        last = lines[limit - 1]
        return SourceLines(lines[:limit], (last.organization_id, last.id))
    reach = await connection.fetchrow(
        _SQL["source_list_reach"], organization_id, *after, where.organization_id, LOOKED_AT
    )
    return SourceLines(lines, (reach["organization_id"], reach["id"]) if reach else None)


async def source_counts(connection: Connection, organization_id: int | None) -> SourceCounts:
    """`organization_id` None: of every organization, in a `fleet()` transaction."""
    row = await connection.fetchrow(_SQL["source_counts"], organization_id, COUNTED_TO + 1)
    assert row is not None
    return SourceCounts(**row)


async def source_page(connection: Connection, organization_id: int, source_id: int, job_id: str) -> SourcePage | None:
    """A kept source; `job_id` is the one of its sync."""
    row = await connection.fetchrow(_SQL["source_page"], organization_id, source_id, job_id)
    return SourcePage(**_values(row)) if row else None


async def source_documents(
    connection: Connection,
    organization_id: int,
    source_id: int,
    *,
    text: str | None = None,
    state: str | None = None,
    after_id: int = 0,
    limit: int = 50,
) -> DocumentLines:
    """Kept documents in the order of their ids. `state`: `unreadable`, `unread` (no text yet), `unchunked`, `searchable`."""
    arguments = (organization_id, source_id, after_id, _pattern(text), state, LOOKED_AT, limit + 1)
    rows = await connection.fetch(_SQL["source_documents"], *arguments)
    lines = [DocumentLine(**with_audience(row)) for row in rows]
    if len(lines) > limit:
        return DocumentLines(lines[:limit], lines[limit - 1].id)
    reach = await connection.fetchval(_SQL["source_documents_reach"], organization_id, source_id, after_id, LOOKED_AT)
    return DocumentLines(lines, reach)


async def source_unread(connection: Connection, organization_id: int, source_id: int) -> int:
    """Documents that were listed and wait for their first reading, as far as UNREAD_LOOKED_AT of the newest tell."""
    arguments = (organization_id, source_id, UNREAD_LOOKED_AT)
    return int(await connection.fetchval(_SQL["source_unread"], *arguments))


async def source_sections(connection: Connection, organization_id: int, source_id: int) -> list[tuple[str, str | None]]:
    """The first SECTIONS kept sections: title, and the title of the one around it."""
    rows = await connection.fetch(_SQL["source_sections"], organization_id, source_id, SECTIONS + 1)
    return [(row["title"], row["parent"]) for row in rows]


async def source_entries(connection: Connection, organization_id: int, target: str) -> list[AuditLine]:
    """The newest audit entries of a target of this organization."""
    return [
        AuditLine(**_values(row))
        for row in await connection.fetch(_SQL["source_entries"], organization_id, target, ENTRIES)
    ]


async def source_names(
    connection: Connection, organization_id: int, limit: int = 200
) -> Sequence[tuple[int, str, str]]:
    """id, type and name of the first sources, for a choice."""
    rows = await connection.fetch(_SQL["source_names"], organization_id, limit)
    return [(row["id"], row["type"], row["name"]) for row in rows]


def _pattern(text: str | None) -> str | None:
    """What people type, as an ilike pattern that means just that."""
    if not text:
        return None
    for character in "\\%_":
        text = text.replace(character, "\\" + character)
    return f"%{text}%"
