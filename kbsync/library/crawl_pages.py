"""The documents of crawled pages, by their canonical URLs. A crawl has no second sync: reading the page is the sync."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from kbsync.db.pool import Connection
from kbsync.db.statements import Statements
from kbsync.domain.text import storable
from kbsync.library.crawl_urls import Link
from kbsync.library.documents import StoredText, external_key

_SQL = Statements.beside(__file__)


@dataclass(frozen=True)
class NewPage:
    """`url` is its identity, `shown_url` where a reader goes; `links` are kept for a re-crawl that answers 304."""

    url: str
    shown_url: str
    title: str
    text: StoredText
    etag: str | None
    last_modified: str | None
    links: Sequence[Link]


@dataclass(frozen=True)
class StoredPage:
    id: int
    chunks_due: bool


async def upsert(
    connection: Connection, organization_id: int, source_id: int, source_type: str, crawl_task_id: int, page: NewPage
) -> StoredPage:
    """Stores the page, stamped with the crawl. Changed text leaves it without chunks."""
    row = await connection.fetchrow(
        _SQL["upsert_crawled_document"],
        organization_id,
        source_id,
        source_type,
        page.url,
        external_key(page.url),
        storable(page.title),
        storable(page.shown_url),
        page.text.markdown,
        page.text.hash,
        page.text.truncated,
        page.text.language,
        storable(page.etag) if page.etag is not None else None,
        storable(page.last_modified) if page.last_modified is not None else None,
        json.dumps([(link.url, link.fetch_url) for link in page.links]),
        crawl_task_id,
    )
    assert row is not None
    return StoredPage(**row)


async def confirm(
    connection: Connection, organization_id: int, document_id: int, crawl_task_id: int
) -> StoredPage | None:
    """304: the stored page stands and this crawl has seen it. None when it is gone."""
    row = await connection.fetchrow(_SQL["confirm_crawled_document"], organization_id, document_id, crawl_task_id)
    return StoredPage(**row) if row else None
