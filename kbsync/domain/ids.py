"""Job ids and queue names: pure functions of a request, and the only place that spells them (QU-01)."""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import assert_never

from kbsync.domain.requests import (
    CrawlUrl,
    DocumentChunks,
    Scan,
    StartCrawl,
    SyncDocument,
    SyncSource,
    UnitRequest,
)


class QueueName(StrEnum):
    SYNC = "knowledge-base-sync"
    CHUNKS = "knowledge-base-chunks"


def job_id(request: UnitRequest) -> str:
    """The deterministic id under which a request is a job; equal requests have equal ids."""
    match request:
        case Scan(manual_id=None):
            return f"kb-scan-{request.date.isoformat()}"
        case Scan():
            return f"kb-scan-manual-{request.manual_id}"
        case SyncSource():
            return f"kb-source-sync-{request.source_id}"
        case SyncDocument():
            return f"kb-document-sync-{request.document_id}"
        case DocumentChunks():
            return f"kb-document-chunks-{request.document_id}"
        case StartCrawl():
            return f"kb-crawl-start-{request.crawl_task_id}"
        case CrawlUrl():
            return f"kb-crawl-url-{request.crawl_task_id}-{url_digest(request.url)[:24]}"
        case _:
            assert_never(request)


def queue_of(request: UnitRequest) -> QueueName:
    """The queue that runs a request."""
    return QueueName.CHUNKS if isinstance(request, DocumentChunks) else QueueName.SYNC


def tenant_of(request: UnitRequest) -> str:
    """The fairness key of a request's job (QU-15): its organization, or the fleet itself for a scan."""
    return "fleet" if isinstance(request, Scan) else f"org-{request.organization_id}"


def url_digest(url: str) -> str:
    """sha256 of a canonical URL in hex: the ledger's key, and its first 24 digits the job id's tail."""
    return hashlib.sha256(url.encode("utf-8", "surrogatepass")).hexdigest()
