"""Job ids and queue names: pure functions of a request, and the only place that spells them (QU-01)."""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import assert_never

from kbsync.domain.requests import UnitRequest


class QueueName(StrEnum):
    SYNC = "knowledge-base-sync"
    CHUNKS = "knowledge-base-chunks"


def job_id(request: UnitRequest) -> str:
    """The deterministic id under which a request is a job; equal requests have equal ids.

    Told apart by its tag: asking for its class costs ten times as much, and a batch asks a thousand times."""
    if request.type == "sync_source":
        return f"kb-source-sync-{request.source_id}"
    if request.type == "sync_document":
        return f"kb-document-sync-{request.document_id}"
    if request.type == "document_chunks":
        return f"kb-document-chunks-{request.document_id}"
    if request.type == "crawl_url":
        return f"kb-crawl-url-{request.crawl_task_id}-{url_digest(request.url)[:24]}"
    if request.type == "start_crawl":
        return f"kb-crawl-start-{request.crawl_task_id}"
    if request.type == "scan":
        by_hand = request.manual_id
        return f"kb-scan-{request.date.isoformat()}" if by_hand is None else f"kb-scan-manual-{by_hand}"
    assert_never(request)


def queue_of(request: UnitRequest) -> QueueName:
    """The queue that runs a request."""
    return QueueName.CHUNKS if request.type == "document_chunks" else QueueName.SYNC


def tenant_of(request: UnitRequest) -> str:
    """The fairness key of a request's job (QU-15): its organization, or the fleet itself for a scan."""
    return "fleet" if request.type == "scan" else organization_tenant(request.organization_id)


def organization_tenant(organization_id: int) -> str:
    """The fairness key of an organization's jobs."""
    return f"org-{organization_id}"


def url_digest(url: str) -> str:
    """sha256 of a canonical URL in hex: the ledger's key, and its first 24 digits the job id's tail."""
    return hashlib.sha256(url.encode("utf-8", "surrogatepass")).hexdigest()
