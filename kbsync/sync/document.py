"""The unit that syncs one document: fetch it, store its text if it changed, ask for chunks while they are due (LS-10)."""

from __future__ import annotations

from dataclasses import dataclass

from kbsync.db.errors import retry_on_conflict
from kbsync.db.pool import Connection
from kbsync.domain.errors import ItemGone, ItemUnreadable
from kbsync.domain.outcomes import Done, Outcome, RecordMissing
from kbsync.domain.requests import SyncDocument
from kbsync.library import documents, source_runs, sources, unit_requests
from kbsync.library.documents import DocumentRow, ListedState
from kbsync.library.sources import SourceRow
from kbsync.providers.contract import Content, DocumentRef, Unchanged
from kbsync.sync.context import Run, Units
from kbsync.sync.follow_ups import chunks_of
from kbsync.sync.stored_text import stored_text


@dataclass(frozen=True)
class _Gone:
    reason: str


@dataclass(frozen=True)
class _Unreadable:
    reason: str


_Answer = Content | Unchanged | _Gone | _Unreadable | None


async def sync_document(units: Units, request: SyncDocument, run: Run) -> Outcome:
    """Before: nothing is known of the document. After: its text is the provider's, or it says why it is not.

    404 and 410 discard it, softly; 403 or a malformed item keeps it with the reason (LS-07). A document without a source
    has nobody to ask and still gets its chunks. Raises the provider's other errors."""
    organization_id = request.organization_id
    async with units.database.organization(organization_id) as connection:
        document = await documents.get(connection, organization_id, request.document_id)
        if document is None:
            return RecordMissing("document")
        source = None
        if document.source_id is not None:
            source = await sources.get(connection, organization_id, document.source_id)
    answer = await _fetch(units, source, document) if source is not None else None
    return await retry_on_conflict(lambda: _record(units, document, answer))


async def _fetch(units: Units, source: SourceRow, document: DocumentRow) -> _Answer:
    known = document.has_content
    ref = DocumentRef(
        document.external_id,
        document.url,
        document.etag if known else None,
        document.last_modified if known else None,
    )
    async with units.provider_of(source) as provider:
        try:
            return await provider.fetch_document(ref)
        except ItemGone as error:
            return _Gone(str(error))
        except ItemUnreadable as error:
            return _Unreadable(str(error))


async def _record(units: Units, document: DocumentRow, answer: _Answer) -> Outcome:
    """One transaction: what the provider answered, and the request for chunks that the row then stands for."""
    organization_id = document.organization_id
    async with units.database.organization(organization_id) as connection:
        status = await _write(units, connection, document, answer)
        # The row as it is now decides, not what this run changed: a follow-up that was lost before is asked for again.
        row = await documents.get(connection, organization_id, document.id)
        if row is None:
            return Done(summary={"status": status}) if status == "discarded" else RecordMissing("document")
        if not await documents.chunks_are_due(connection, organization_id, document.id):
            return Done(summary={"status": status})
        chunks = chunks_of(organization_id, document.id)
        await unit_requests.register(connection, organization_id, [chunks])
        return Done((chunks,), summary={"status": status})


async def count_change(
    connection: Connection, document: DocumentRow, *, is_unreadable: bool, is_gone: bool = False
) -> None:
    """Before: `document` was read, nothing of it is written in this transaction. After: its source and the source's newest
    run count it right."""
    change = int(is_unreadable) - int(document.unreadable_reason is not None)
    if document.source_id is None or not (change or is_gone):
        return
    organization_id, source_id = document.organization_id, document.source_id
    if change:
        await sources.count_unreadable(connection, organization_id, source_id, change)
    if is_gone:
        await sources.count_gone(connection, organization_id, source_id)
    await source_runs.move(
        connection, organization_id, source_id, document.id, is_unreadable=is_unreadable, is_gone=is_gone
    )


async def _write(units: Units, connection: Connection, document: DocumentRow, answer: _Answer) -> str:
    if answer is not None:
        await count_change(
            connection, document, is_unreadable=isinstance(answer, _Unreadable), is_gone=isinstance(answer, _Gone)
        )
    organization_id = document.organization_id
    listed = ListedState(document.source_version, document.source_changed_at, document.listed_audience)
    match answer:
        case None:
            return "no source"
        case _Gone():
            await documents.discard(connection, organization_id, document.id)
            return "discarded"
        case _Unreadable(reason):
            await documents.mark_unreadable(connection, organization_id, document.id, reason)
            return "unreadable"
        case Unchanged():
            await documents.confirm_unchanged(connection, organization_id, document.id, listed)
            return "unchanged"
        case Content():
            text = stored_text(answer, units.bounds.content_cap)
            await documents.store_content(
                connection,
                organization_id,
                document.id,
                title=answer.title,
                text=text,
                etag=answer.etag,
                last_modified=answer.last_modified,
                listed=listed,
                audience=answer.audience,
            )
            return "unchanged" if text.hash == document.content_hash else "stored"
