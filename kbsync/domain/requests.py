"""The requests that ask for a unit of library work, as every way in accepts them.

A request is the whole input of its job: who (`organization_id`) and what (`type` and its ids). The job id is a pure
function of it (`kbsync.domain.ids.job_id`). Source: page "Knowledge Library sync", LS-01; QU-21.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from enum import StrEnum
from typing import Annotated, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, field_validator

from kbsync.domain.text import has_unstorable_characters

REQUEST_VERSION: Literal[1] = 1
MAX_ID = 2**63 - 1
MAX_URL_LENGTH = 8_192

RowId = Annotated[int, Field(strict=True, ge=1, le=MAX_ID)]


class Priority(StrEnum):
    """Who waits for it: a person (urgent), a backend (normal), the clock (background). QU-16."""

    URGENT = "urgent"
    NORMAL = "normal"
    BACKGROUND = "background"


class _Request(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = REQUEST_VERSION


class Scan(_Request):
    """The daily scan of a date (the tick's), or one by hand. It belongs to no organization: it asks for all of them."""

    type: Literal["scan"] = "scan"
    date: date
    manual_id: UUID | None = None


class _OrganizationRequest(_Request):
    organization_id: RowId


class SyncSource(_OrganizationRequest):
    type: Literal["sync_source"] = "sync_source"
    source_id: RowId


class SyncDocument(_OrganizationRequest):
    type: Literal["sync_document"] = "sync_document"
    document_id: RowId


class DocumentChunks(_OrganizationRequest):
    type: Literal["document_chunks"] = "document_chunks"
    document_id: RowId


class StartCrawl(_OrganizationRequest):
    type: Literal["start_crawl"] = "start_crawl"
    crawl_task_id: RowId


class CrawlUrl(_OrganizationRequest):
    """`url` is the canonical spelling, which the id hashes; the ledger row keeps the spelling to fetch."""

    type: Literal["crawl_url"] = "crawl_url"
    crawl_task_id: RowId
    url: Annotated[str, Field(min_length=1, max_length=MAX_URL_LENGTH)]

    @field_validator("url")
    @classmethod
    def _storable(cls, url: str) -> str:
        if has_unstorable_characters(url):
            raise ValueError("contains NUL or another character that Postgres cannot store")
        return url


LibraryRequest = SyncSource | SyncDocument | DocumentChunks | StartCrawl | CrawlUrl
UnitRequest = Scan | LibraryRequest

AnyUnitRequest = Annotated[UnitRequest, Field(discriminator="type")]
AnyLibraryRequest = Annotated[LibraryRequest, Field(discriminator="type")]

unit_request_adapter: TypeAdapter[UnitRequest] = TypeAdapter(AnyUnitRequest)
library_request_adapter: TypeAdapter[LibraryRequest] = TypeAdapter(AnyLibraryRequest)

# What a job's payload may carry besides its request: who asked (W3C trace context). It is no part of a request, so it
# changes no id, and a worker that does nothing with it runs the job all the same.
TRACEPARENT = "traceparent"
_ENVELOPE = frozenset({TRACEPARENT})


def without_envelope(payload: Mapping[str, object]) -> dict[str, object]:
    """The request's own fields of a job's payload."""
    return {name: value for name, value in payload.items() if name not in _ENVELOPE}
