"""One door to every unit."""

from __future__ import annotations

from typing import assert_never

from kbsync.domain.outcomes import Outcome
from kbsync.domain.requests import CrawlUrl, DocumentChunks, LibraryRequest, StartCrawl, SyncDocument, SyncSource
from kbsync.sync.chunks import document_chunks
from kbsync.sync.context import Run, Units
from kbsync.sync.crawl_start import start_crawl
from kbsync.sync.crawl_url import crawl_url
from kbsync.sync.document import sync_document
from kbsync.sync.source import sync_source


async def perform(units: Units, request: LibraryRequest, run: Run) -> Outcome:
    """Runs the unit that `request` asks for; its writes are committed when this returns (LS-05)."""
    match request:
        case SyncSource():
            return await sync_source(units, request, run)
        case SyncDocument():
            return await sync_document(units, request, run)
        case DocumentChunks():
            return await document_chunks(units, request, run)
        case StartCrawl():
            return await start_crawl(units, request, run)
        case CrawlUrl():
            return await crawl_url(units, request, run)
        case _:
            assert_never(request)
