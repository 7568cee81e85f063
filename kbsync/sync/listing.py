"""A provider's listing, streamed into the library in bounded batches: memory is one batch, a transaction is one batch."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from kbsync.db.errors import retry_on_conflict
from kbsync.domain.requests import LibraryRequest
from kbsync.library import documents, sections, statistics, unit_requests
from kbsync.library.documents import NewDocument, NewUnreadable
from kbsync.library.sections import NewSection
from kbsync.library.sources import SourceRow
from kbsync.providers.contract import (
    ListedDocument,
    ListedSection,
    ListingEnd,
    ListingPart,
    UnreadableItem,
)
from kbsync.sync.context import Run, Units
from kbsync.sync.follow_ups import chunks_of, sync_of
from kbsync.sync.stored_text import stored_text

BATCH_ROWS = 500
BATCH_CHARACTERS = 4_000_000


@dataclass
class _Batch:
    sections: list[NewSection] = field(default_factory=list)
    documents: list[NewDocument] = field(default_factory=list)
    links: dict[str, tuple[str, ...]] = field(default_factory=dict)
    unreadable: list[NewUnreadable] = field(default_factory=list)
    characters: int = 0

    @property
    def rows(self) -> int:
        return len(self.sections) + len(self.documents) + len(self.unreadable)

    @property
    def is_full(self) -> bool:
        return self.rows >= BATCH_ROWS or self.characters >= BATCH_CHARACTERS


async def store_listing(
    units: Units, source: SourceRow, listing: AsyncIterator[ListingPart], run: Run, *, brings_content: bool
) -> ListingEnd:
    """Before: `source.sync_run` is this run's. After: everything listed is stored, stamped with the run, and what became
    due is registered in the same transactions. A listing that stops without an end is not complete.

    Raises ProviderError when a page fails; the batches before it stay, and nothing is removed."""
    batch, seen, batches = _Batch(), 0, 0
    async for part in listing:
        match part:
            case ListingEnd():
                await _write(units, source, batch, brings_content)
                return part
            case ListedSection():
                batch.sections.append(NewSection(part.external_id, part.title, part.parent_external_id, part.position))
            case ListedDocument():
                _add_document(batch, part, units.bounds.content_cap)
                seen += 1
            case UnreadableItem():
                batch.unreadable.append(NewUnreadable(part.external_id, part.title, part.reason, part.url))
                seen += 1
        if batch.is_full:
            await _write(units, source, batch, brings_content)
            batch, batches = _Batch(), batches + 1
            if batches & (batches - 1) == 0:
                async with units.database.fleet() as connection:
                    await statistics.refresh(connection)
            run.report(seen, None, "listed")
    await _write(units, source, batch, brings_content)
    return ListingEnd(False, "the listing stopped without saying that it was complete")


def _add_document(batch: _Batch, listed: ListedDocument, cap: int) -> None:
    text = stored_text(listed.content, cap) if listed.content is not None else None
    audience = listed.content.audience if listed.content is not None else None
    batch.documents.append(
        NewDocument(
            listed.external_id,
            listed.title,
            listed.url,
            listed.changed_at,
            listed.version,
            text,
            audience or listed.audience,
        )
    )
    batch.links[documents.external_key(listed.external_id)] = listed.section_external_ids
    batch.characters += len(text.markdown) if text else 0


async def _write(units: Units, source: SourceRow, batch: _Batch, brings_content: bool) -> None:
    if batch.rows == 0:
        return
    await retry_on_conflict(lambda: _write_once(units, source, batch, brings_content))


async def _write_once(units: Units, source: SourceRow, batch: _Batch, brings_content: bool) -> None:
    organization_id, run = source.organization_id, source.sync_run
    async with units.database.organization(organization_id) as connection:
        if batch.sections:
            await sections.upsert_listed(connection, organization_id, source.id, run, batch.sections)
        if batch.unreadable:
            await documents.upsert_unreadable(
                connection, organization_id, source.id, source.type, run, batch.unreadable
            )
        if batch.documents:
            listed = await documents.upsert_listed(
                connection, organization_id, source.id, source.type, run, batch.documents
            )
            links = [(row.id, batch.links[row.external_key]) for row in listed]
            await sections.replace_links(connection, organization_id, source.id, links)
            due: list[LibraryRequest] = [
                chunks_of(organization_id, row.id) if brings_content else sync_of(organization_id, row.id)
                for row in listed
                if (row.chunks_due if brings_content else row.due)
            ]
            await unit_requests.register(connection, organization_id, due)
