"""How a unit that will not be tried again is written down, in words for an editor (LS-07, LS-12, QU-31)."""

from __future__ import annotations

from typing import assert_never

from kbsync.db.errors import retry_on_conflict
from kbsync.domain.errors import CredentialsRefused, CredentialsWithheld, KbsyncError
from kbsync.domain.requests import CrawlUrl, DocumentChunks, LibraryRequest, StartCrawl, SyncDocument, SyncSource
from kbsync.domain.states import UnitEnd
from kbsync.library import documents, source_runs, sources, unit_requests
from kbsync.sync.context import Run, Units
from kbsync.sync.crawl_start import fail_crawl
from kbsync.sync.crawl_url import fail_url
from kbsync.sync.document import count_change

_ABANDONED = {
    "stalled_too_often": "It was given up because every worker that took it stopped in the middle of it.",
    "payload_refused": "It was given up because its request could not be read.",
    "cancelled": "It was cancelled.",
    "removed": "It was taken out of the queue before it was done.",
    "drained": "It was taken out of the queue before it was done.",
}


async def record_failure(units: Units, request: LibraryRequest, run: Run, error: BaseException) -> None:
    """After: the record says why, and the unit is `failed`. Repeating it is harmless.

    Refused credentials fail the source whichever unit met them. A document that was not asked for because of them stays as
    it is: the source says why, and the next listing finds it due."""
    words, fails_source = words_for(error), isinstance(error, CredentialsRefused)
    if isinstance(error, CredentialsWithheld) and isinstance(request, SyncDocument):
        await _end_only(units, request, run)
        return
    await retry_on_conflict(lambda: _record(units, request, run, words, UnitEnd.FAILED, fails_source))


async def _end_only(units: Units, request: SyncDocument, run: Run) -> None:
    async with units.database.organization(request.organization_id) as connection:
        await unit_requests.end(connection, request.organization_id, run.job_id, run.started_at, UnitEnd.FAILED)


async def record_abandoned(units: Units, request: LibraryRequest, run: Run, reason: str) -> None:
    """The unit's runner did not see it end: a crawl URL is counted as failed, a source is `failed`."""
    words = _ABANDONED.get(reason, f"It was given up ({reason}).")
    await retry_on_conflict(lambda: _record(units, request, run, words, UnitEnd.ABANDONED, False))


def words_for(error: BaseException) -> str:
    """What an editor reads. Our own errors are sentences; anything else is a fault of ours and says no more than that."""
    if isinstance(error, KbsyncError) and str(error).strip():
        return str(error)
    return f"Something went wrong inside kbsync ({type(error).__name__}). It will be tried again with the next sync."


async def _record(
    units: Units, request: LibraryRequest, run: Run, words: str, ended_as: UnitEnd, fails_source: bool
) -> None:
    organization_id = request.organization_id
    if isinstance(request, CrawlUrl):
        await fail_url(units, request, run, words, ended_as)
    async with units.database.organization(organization_id) as connection:
        match request:
            case SyncSource():
                await sources.fail(connection, organization_id, request.source_id, words)
                await source_runs.fail(connection, organization_id, request.source_id, words)
            case SyncDocument():
                document = await documents.get(connection, organization_id, request.document_id)
                if document is not None and ended_as is UnitEnd.FAILED:
                    if fails_source and document.source_id is not None:
                        await sources.fail(connection, organization_id, document.source_id, words)
                    await count_change(connection, document, is_unreadable=True)
                    await documents.mark_unreadable(connection, organization_id, document.id, words)
            case StartCrawl():
                await fail_crawl(connection, organization_id, request.crawl_task_id, words)
            case CrawlUrl() | DocumentChunks():
                pass
            case _:
                assert_never(request)
        await unit_requests.end(connection, organization_id, run.job_id, run.started_at, ended_as)
