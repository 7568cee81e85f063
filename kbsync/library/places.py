"""Where a unit's quota is counted: looked up with its tenant before anything is taken, fetched or written (LS-06, RL-01)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from kbsync.db.pool import Connection
from kbsync.db.statements import Statements
from kbsync.domain.requests import CrawlUrl, DocumentChunks, LibraryRequest, StartCrawl, SyncDocument, SyncSource

_SQL = Statements.beside(__file__)


@dataclass(frozen=True)
class Place:
    """`found` is False for a record that is missing, discarded or of another organization. `provider` is the source's type,
    None for a document without a source. `started_at` is the database's time. `limits` override the throttles' table.
    `disabled`: the source is not to be asked; a crawl that is under way goes on to its end."""

    started_at: datetime
    found: bool
    source_id: int | None
    provider: str | None
    data_source_id: int | None
    limits: Mapping[str, object]
    crawl_delay_s: float | None
    disabled: bool = False


async def place_of(connection: Connection, request: LibraryRequest) -> Place:
    match request:
        case SyncSource():
            statement, row_id = _SQL["place_of_source"], request.source_id
        case SyncDocument() | DocumentChunks():
            statement, row_id = _SQL["place_of_document"], request.document_id
        case StartCrawl() | CrawlUrl():
            statement, row_id = _SQL["place_of_crawl"], request.crawl_task_id
    record = await connection.fetchrow(statement, request.organization_id, row_id)
    assert record is not None
    values = dict(record)
    values["limits"] = json.loads(values["limits"] or "{}")
    delay = values["crawl_delay_s"]
    values["crawl_delay_s"] = float(delay) if delay is not None else None
    return Place(**values)
