"""The chunk rows and the search row of one document (LS-11). No transaction is opened here: the caller's holds."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass

from kbsync.db.pool import Connection
from kbsync.db.statements import Statements
from kbsync.domain.chunking import Chunk
from kbsync.domain.languages import search_configuration
from kbsync.domain.markdown import plain_text
from kbsync.domain.text import searchable_text, storable

_SQL = Statements.beside(__file__)
_TITLE_LIMIT = 2_000  # characters of a title that are searchable; the title itself is kept whole
_HEADINGS_LIMIT = 4_000


@dataclass(frozen=True)
class ChunkDiff:
    """How many rows stayed (with id and embedding), came and went."""

    kept: int
    added: int
    removed: int


@dataclass(frozen=True)
class _Row:
    """A chunk as it is stored and indexed."""

    chunk: Chunk
    headings: str
    words: str
    partly: bool


async def replace_chunks(
    connection: Connection,
    organization_id: int,
    document_id: int,
    chunks: Sequence[Chunk],
    *,
    title: str,
    url: str | None,
    language: str | None,
) -> ChunkDiff:
    """Makes the stored chunks of a document equal to `chunks`, and its search row with them.

    Before: a transaction in `database.organization(organization_id)` that holds the document's row. After: one row a chunk;
    those whose hash was there before keep id and embedding (equal texts in the document's order). Repeating it writes
    nothing. Text that Postgres can't index wholly is stored all the same, `partly_searchable`."""
    title, url = storable(title), storable(url) if url is not None else None
    configuration = search_configuration(language, "".join(chunk.text for chunk in chunks[:20]))
    there = await connection.fetch(_SQL["chunks_of_document"], organization_id, document_id)
    kept, added, removed = _compared([(row["id"], row["content_hash"]) for row in there], chunks)
    if removed:
        await connection.execute(_SQL["remove_chunks"], organization_id, document_id, removed)
    head = (organization_id, document_id, title, url, configuration, searchable_text(title[:_TITLE_LIMIT])[0])
    plain = {chunk.position: storable(plain_text(chunk.text)) for chunk in chunks}
    if kept:
        await _place(connection, head, [(row_id, _row(chunk, plain[chunk.position])) for row_id, chunk in kept])
    if added:
        await _add(connection, head, [_row(chunk, plain[chunk.position]) for chunk in added])
    # pg_search indexes this text with to_tsvector, so it is bounded like one; the chunks hold the rest.
    whole = searchable_text("\n".join([title, *plain.values()]))[0]
    await connection.execute(_SQL["replace_search_row"], organization_id, document_id, whole)
    return ChunkDiff(len(kept), len(added), len(removed))


async def discard_chunks(connection: Connection, organization_id: int, document_id: int) -> None:
    """A document that goes is not found any more: its chunks and its search row are deleted. Repeating it is harmless."""
    await connection.execute(_SQL["discard_chunks_of_document"], organization_id, document_id)
    await connection.execute(_SQL["discard_search_row"], organization_id, document_id)


def _compared(
    there: list[tuple[int, str]], chunks: Sequence[Chunk]
) -> tuple[list[tuple[int, Chunk]], list[Chunk], list[int]]:
    """Which rows stay for which chunk, which chunks are new and which rows go; equal hashes pair up in order."""
    ids: defaultdict[str, deque[int]] = defaultdict(deque)
    for row_id, content_hash in there:
        ids[content_hash].append(row_id)
    kept, added = [], []
    for chunk in chunks:
        if ids[chunk.content_hash]:
            kept.append((ids[chunk.content_hash].popleft(), chunk))
        else:
            added.append(chunk)
    return kept, added, sorted(row_id for rest in ids.values() for row_id in rest)


_Head = tuple[int, int, str, str | None, str, str]


async def _place(connection: Connection, head: _Head, kept: list[tuple[int, _Row]]) -> None:
    rows = [row for _, row in kept]
    await connection.execute(
        _SQL["place_kept_chunks"],
        *head,
        [row_id for row_id, _ in kept],
        [row.chunk.position for row in rows],
        [row.chunk.anchor for row in rows],
        [row.chunk.start for row in rows],
        [row.chunk.end for row in rows],
        [row.headings for row in rows],
        [row.words for row in rows],
        [row.partly for row in rows],
    )


async def _add(connection: Connection, head: _Head, rows: list[_Row]) -> None:
    await connection.execute(
        _SQL["add_chunks"],
        *head,
        [row.chunk.position for row in rows],
        [storable(row.chunk.text) for row in rows],
        [row.chunk.content_hash for row in rows],
        [storable("\x1f".join(heading.replace("\x1f", " ") for heading in row.chunk.heading_path)) for row in rows],
        [row.chunk.anchor for row in rows],
        [row.chunk.start for row in rows],
        [row.chunk.end for row in rows],
        [row.headings for row in rows],
        [row.words for row in rows],
        [row.partly for row in rows],
    )


def _row(chunk: Chunk, plain: str) -> _Row:
    words, partly = searchable_text(plain)
    headings, _ = searchable_text(storable("\n".join(chunk.heading_path))[:_HEADINGS_LIMIT])
    return _Row(chunk, headings, words, partly)
