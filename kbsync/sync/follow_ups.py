"""Follow-ups are always read back from the ledger, never from what a provider said, so a retry derives the same (LS-05)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

from kbsync.db.pool import Connection, Database
from kbsync.domain.requests import DocumentChunks, LibraryRequest, SyncDocument

PAGE = 1_000

# The ids of a keyset page after an id.
ReadPage = Callable[[Connection, int], Awaitable[list[int]]]
Pages = AsyncIterator[tuple[LibraryRequest, ...]]


async def pages_of(
    database: Database, organization_id: int, read: ReadPage, request_of: Callable[[int], LibraryRequest]
) -> Pages:
    """The follow-ups of a ledger, a page at a time: memory is one page, and no transaction outlives a page."""
    after_id = 0
    while True:
        async with database.organization(organization_id) as connection:
            ids = await read(connection, after_id)
        if not ids:
            return
        yield tuple(request_of(row_id) for row_id in ids)
        after_id = ids[-1]


def sync_of(organization_id: int, document_id: int) -> SyncDocument:
    return SyncDocument(organization_id=organization_id, document_id=document_id)


def chunks_of(organization_id: int, document_id: int) -> DocumentChunks:
    return DocumentChunks(organization_id=organization_id, document_id=document_id)
