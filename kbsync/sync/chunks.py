"""The unit that chunks a document: cut its text outside any transaction, replace its chunks inside one (LS-11)."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import replace

from kbsync.db.errors import retry_on_conflict
from kbsync.domain.chunking import Chunk, chunk
from kbsync.domain.outcomes import Done, Outcome, RecordMissing
from kbsync.domain.requests import DocumentChunks
from kbsync.library import documents, sections
from kbsync.library.chunks import replace_chunks
from kbsync.library.documents import ContentRow
from kbsync.sync.context import Run, Units

# A text that changes under every reading is somebody's endless edit: the job's own retry comes back to it later.
READINGS = 5
INLINE_CHARACTERS = 20_000


class ContentKeepsChanging(Exception):
    """The text was another one after each reading; trying again later is all that helps."""


async def document_chunks(units: Units, request: DocumentChunks, run: Run) -> Outcome:
    """Before: the document may have chunks of any text. After: its chunks and its search row are those of its text now,
    `chunks_synced_at` says so and the unit is ended, in one transaction.

    Raises ContentKeepsChanging when the text never held still."""
    organization_id = request.organization_id
    for _ in range(READINGS):
        async with units.database.organization(organization_id) as connection:
            row = await documents.content(connection, organization_id, request.document_id)
            if row is None:
                return RecordMissing("document")
            # Most documents are in no section, and the way through nested ones is the dearest look of all.
            paths = await sections.paths_of_document(connection, organization_id, row.id) if row.in_sections else []
        chunks = _below(paths[0] if paths else (), await _cut(units, row.content or ""))
        outcome = await retry_on_conflict(lambda row=row, chunks=chunks: _replace(units, request, row, chunks, run))  # type: ignore[misc]
        if outcome is not None:
            return outcome
    raise ContentKeepsChanging(f"the text of document {request.document_id} changed {READINGS} times while it was cut")


async def _cut(units: Units, content: str) -> list[Chunk]:
    size, overlap = units.bounds.chunk_characters, units.bounds.chunk_overlap
    if len(content) <= INLINE_CHARACTERS:
        return chunk(content, size=size, overlap=overlap)
    # Long texts take long enough to hold up the other jobs of this process.
    return await asyncio.to_thread(chunk, content, size=size, overlap=overlap)


async def _replace(
    units: Units, request: DocumentChunks, row: ContentRow, chunks: Sequence[Chunk], run: Run
) -> Outcome | None:
    """None when the text is not the one that was read any more: nothing was written. The unit ends with its chunks."""
    organization_id = request.organization_id
    async with units.database.organization(organization_id) as connection:
        fingerprint = await documents.lock_fingerprint(connection, organization_id, row.id)
        if fingerprint is None:
            return RecordMissing("document")
        if fingerprint != row.fingerprint:
            return None
        diff = await replace_chunks(
            connection, organization_id, row.id, chunks, title=row.title, url=row.url, language=row.language
        )
        await documents.settle_chunks(connection, organization_id, row.id, unit=run.job_id, started_at=run.started_at)
    return Done(summary={"kept": diff.kept, "added": diff.added, "removed": diff.removed})


def _below(section_path: tuple[str, ...], chunks: list[Chunk]) -> list[Chunk]:
    """Each chunk's headings begin with the sections of its document; a chunk that moved to other sections is another."""
    if not section_path:
        return chunks
    return [
        replace(
            one,
            heading_path=(*section_path, *one.heading_path),
            content_hash=hashlib.sha256("\x1f".join((one.content_hash, *section_path)).encode()).hexdigest(),
        )
        for one in chunks
    ]
