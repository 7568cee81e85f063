"""Documents as people look at them: one document, its chunks and its text, each a bounded read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from kbsync.db.pool import Connection
from kbsync.db.statements import Statements
from kbsync.domain.audience import Asker, Audience
from kbsync.library.audiences import with_audience

_SQL = Statements.beside(__file__)

CHUNKS = 20


@dataclass(frozen=True)
class DocumentPage:
    """`crawl_id` the newest crawl that met its URL, and
    `found_on` the page that led there. `discarded_at`: it went, its text is not shown."""

    id: int
    organization_id: int
    organization: str
    source_id: int | None
    source: str | None
    source_type: str
    source_status: str | None
    external_id: str
    title: str
    url: str | None
    language: str | None
    bytes: int | None
    content_hash: str | None
    truncated: bool
    unreadable_reason: str | None
    created_at: datetime
    last_synced_at: datetime | None
    chunks_synced_at: datetime | None
    discarded_at: datetime | None
    source_changed_at: datetime | None
    source_version: str | None
    audience: Audience
    chunks: int
    crawl_id: int | None
    crawl_outcome: str | None
    found_on: str | None


@dataclass(frozen=True)
class ChunkLine:
    id: int
    position: int
    heading_path: tuple[str, ...]
    anchor: str | None
    content: str
    language: str
    partly_searchable: bool
    has_embedding: bool


@dataclass(frozen=True)
class Origin:
    """Where a document that was found comes from."""

    source_id: int | None
    source: str | None
    source_type: str
    source_status: str | None
    last_synced_at: datetime | None


async def document_page(connection: Connection, organization_id: int, document_id: int) -> DocumentPage | None:
    """A document of this organization, kept or discarded, of a kept source or of none."""
    row = await connection.fetchrow(_SQL["document_page"], organization_id, document_id)
    return DocumentPage(**with_audience(row)) if row else None


async def document_text(
    connection: Connection, organization_id: int, document_id: int, most: int, asker: Asker
) -> tuple[str, int]:
    """The first `most` characters of a kept document's text, and how many it has. Nothing for who may not find it (LS-27)."""
    row = await connection.fetchrow(
        _SQL["document_text"], organization_id, document_id, most, asker.is_member, list(asker.groups)
    )
    return (row["text"], row["characters"]) if row else ("", 0)


async def document_chunks(
    connection: Connection, organization_id: int, document_id: int, asker: Asker, after: int = -1, limit: int = CHUNKS
) -> tuple[list[ChunkLine], int | None]:
    """Chunks of a kept document by position, and where the next page begins. None for who may not find it (LS-27)."""
    rows = await connection.fetch(
        _SQL["document_chunk_page"],
        organization_id,
        document_id,
        after,
        limit + 1,
        asker.is_member,
        list(asker.groups),
    )
    lines = [ChunkLine(**{**row, "heading_path": tuple(row["heading_path"])}) for row in rows]
    return lines[:limit], lines[limit - 1].position if len(lines) > limit else None


async def origins(connection: Connection, organization_id: int, document_ids: Sequence[int]) -> Mapping[int, Origin]:
    rows = await connection.fetch(_SQL["origins"], organization_id, list(document_ids))
    return {row["id"]: Origin(**{name: value for name, value in row.items() if name != "id"}) for row in rows}
