"""The unit that syncs a source: list everything, store it, remove only what is proven gone, ask for what is due (LS-08)."""

from __future__ import annotations

from kbsync.db.errors import retry_on_conflict
from kbsync.db.pool import Connection
from kbsync.domain.errors import LeaseLost
from kbsync.domain.outcomes import Done, Outcome, RecordMissing
from kbsync.domain.requests import LibraryRequest, SyncSource
from kbsync.library import documents, sections, source_runs, sources, unit_requests
from kbsync.library.sources import SourceRow
from kbsync.providers.contract import ListingEnd
from kbsync.sync.context import Run, Units
from kbsync.sync.crawl_begin import begin_crawl
from kbsync.sync.follow_ups import PAGE, Pages, chunks_of, pages_of, sync_of
from kbsync.sync.listing import store_listing
from kbsync.sync.removal import apply_approved_removal, settle_listing


async def sync_source(units: Units, request: SyncSource, run: Run) -> Outcome:
    """Before: the source may be in any status. After: it is `synced`, or `syncing` with a crawl on its way.

    Raises ProviderError: the caller records what that means for the source. What was listed so far is stored, and nothing
    is removed."""
    source = await _begin(units, request)
    if source is None:
        return RecordMissing("source")
    async with units.provider_of(source, lists=True) as provider:
        if provider.crawls:
            return await begin_crawl(units, source)
        brings_content = provider.listing_brings_content
        end = await store_listing(units, source, provider.list_items(), run, brings_content=brings_content)
    counts = await retry_on_conflict(lambda: _finish(units, source, end, run, reads_later=not brings_content))
    await _register_unlisted(units, source, brings_content=brings_content)
    if not brings_content:
        await _register_outdated(units, source)
    return Done(
        summary={"status": "synced", **counts},
        follow_up_pages=lambda: _due(units, source, brings_content=brings_content),
    )


async def _begin(units: Units, request: SyncSource) -> SourceRow | None:
    async with units.database.organization(request.organization_id) as connection:
        source = await sources.begin_run(connection, request.organization_id, request.source_id)
        if source is not None:
            removed = await apply_approved_removal(connection, source)
            await source_runs.begin(connection, request.organization_id, request.source_id, removed=removed)
            source = await sources.get(connection, request.organization_id, request.source_id)
        return source


async def _finish(
    units: Units, source: SourceRow, end: ListingEnd, run: Run, *, reads_later: bool
) -> dict[str, object]:
    async with units.database.organization(source.organization_id) as connection:
        current = await sources.lock(connection, source.organization_id, source.id)
        if current is None or current.sync_run != source.sync_run:
            raise LeaseLost("another run of this source began: this one may not end it")
        await sections.link_parents(connection, source.organization_id, source.id, source.sync_run)
        return await settle_listing(
            connection,
            current,
            run=source.sync_run,
            began_at=run.started_at,
            incomplete=None if end.complete else end.reason or "the listing could not be proven complete",
            ask=end.ask_for_missing,
            reads_later=reads_later,
        )


def _due(units: Units, source: SourceRow, *, brings_content: bool) -> Pages:
    """What is due now, read from the ledger: every kept document of the source, listed in this run or not."""
    organization_id = source.organization_id

    async def due(connection: Connection, after_id: int) -> list[int]:
        return await documents.due_after(connection, organization_id, source.id, source.sync_run, after_id, PAGE)

    async def without_chunks(connection: Connection, after_id: int) -> list[int]:
        return await documents.without_chunks_after(connection, organization_id, source.id, after_id, PAGE)

    if brings_content:
        return pages_of(units.database, organization_id, without_chunks, lambda row: chunks_of(organization_id, row))

    async def both() -> Pages:
        async for page in pages_of(units.database, organization_id, due, lambda row: sync_of(organization_id, row)):
            yield page
        async for page in _outdated(units, source):
            yield page

    return both()


def _outdated(units: Units, source: SourceRow) -> Pages:
    """A document in another section than before, or below one of another name, keeps its text: only its chunks are due."""
    organization_id = source.organization_id

    async def outdated(connection: Connection, after_id: int) -> list[int]:
        return await documents.chunks_outdated_after(connection, organization_id, source.id, after_id, PAGE)

    return pages_of(units.database, organization_id, outdated, lambda row: chunks_of(organization_id, row))


async def _register_outdated(units: Units, source: SourceRow) -> None:
    async for page in _outdated(units, source):
        async with units.database.organization(source.organization_id) as connection:
            await unit_requests.register(connection, source.organization_id, page)


async def _register_unlisted(units: Units, source: SourceRow, *, brings_content: bool) -> None:
    """Documents that this run listed were registered with their rows; the few others that are due are registered here."""
    after_id = 0
    while True:
        async with units.database.organization(source.organization_id) as connection:
            ids = await documents.unlisted_due_after(
                connection,
                source.organization_id,
                source.id,
                source.sync_run,
                after_id,
                PAGE,
                brings_content=brings_content,
            )
            if not ids:
                return
            due: list[LibraryRequest] = [
                (chunks_of if brings_content else sync_of)(source.organization_id, row) for row in ids
            ]
            await unit_requests.register(connection, source.organization_id, due)
        after_id = ids[-1]
