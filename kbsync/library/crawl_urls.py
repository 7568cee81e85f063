"""The crawl ledger (LS-14): each URL of a crawl is claimed once, finished once and counted once."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from kbsync.db.pool import Connection
from kbsync.db.statements import Statements
from kbsync.domain.ids import url_digest
from kbsync.domain.requests import LibraryRequest
from kbsync.domain.states import CrawlStatus, CrawlUrlOutcome, UnitEnd
from kbsync.domain.text import storable
from kbsync.library.crawl_tasks import distinct_texts
from kbsync.library.unit_requests import registered

_SQL = Statements.beside(__file__)

MAX_DETAIL_LENGTH = 1_000


@dataclass(frozen=True, slots=True)
class Link:
    """One URL to claim: `url` its identity and `url_key` the ledger's key of it, `fetch_url` the spelling to fetch."""

    url: str
    fetch_url: str
    url_key: str

    @classmethod
    def of(cls, url: str, fetch_url: str) -> Link:
        return cls(url, fetch_url, url_digest(url))


@dataclass(frozen=True)
class StartPage:
    was_read: bool
    detail: str | None


@dataclass(frozen=True)
class CrawledSource:
    """The source that a crawl reads, as far as its provider needs it."""

    organization_id: int
    id: int
    type: str
    config: Mapping[str, object]
    data_source_id: int | None


@dataclass(frozen=True)
class ClaimedUrl:
    """`document_id`, `etag`, `last_modified` and `links` are of the page that the library keeps, if any. `may_be_unchanged`:
    a 304 can stand for it, because both its text and its links are known.
    `finished_document_id` is what the URL was finished with, `read_at` the database's time of all this."""

    read_at: datetime
    id: int
    url: str
    url_key: str
    fetch_url: str
    depth: int
    is_finished: bool
    finished_document_id: int | None
    task_status: CrawlStatus
    source: CrawledSource
    document_id: int | None
    etag: str | None
    last_modified: str | None
    links: tuple[Link, ...]
    may_be_unchanged: bool


@dataclass(frozen=True)
class PageContext:
    """`same_text`: other pages of the crawl with this text, counted to a bound. `claimed`: keys that are in the ledger."""

    same_text: int
    claimed: frozenset[str]


@dataclass(frozen=True)
class ClaimContext:
    claimed: frozenset[str]
    urls_of_pattern: dict[str, int]


@dataclass(frozen=True)
class Finish:
    """How a URL ends, what its transaction claimed on the way, and what the crawl should say about it."""

    outcome: CrawlUrlOutcome
    detail: str | None = None
    document_id: int | None = None
    text_key: str | None = None
    claimed: int = 0
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Counted:
    """A crawl's counts after one more of its URLs was finished."""

    pending: int
    found: int

    @property
    def is_last(self) -> bool:
        """Nothing is pending now; whether that is the end, `crawl_tasks.complete` decides."""
        return self.pending == 0

    @property
    def finished(self) -> int:
        return self.found - self.pending


async def get(connection: Connection, organization_id: int, task_id: int, url: str) -> ClaimedUrl | None:
    """A claimed URL of a crawl of a kept source; `url` is its identity."""
    row = await connection.fetchrow(_SQL["claimed_url"], organization_id, task_id, url_digest(url))
    if row is None:
        return None
    values = dict(row)
    values["task_status"] = CrawlStatus(values["task_status"])
    values["may_be_unchanged"] = bool(values["may_be_unchanged"])
    values["links"] = tuple(Link.of(found[0], found[1]) for found in json.loads(values["links"] or "[]"))
    values["source"] = CrawledSource(
        organization_id,
        values.pop("source_id"),
        values.pop("source_type"),
        json.loads(values.pop("source_config")),
        values.pop("data_source_id"),
    )
    return ClaimedUrl(**values)


async def page_context(
    connection: Connection,
    organization_id: int,
    task_id: int,
    *,
    url_key: str,
    text_key: str | None,
    link_keys: Sequence[str],
    text_bound: int,
) -> PageContext:
    arguments = (organization_id, task_id, text_key, url_key, list(link_keys), text_bound)
    row = await connection.fetchrow(_SQL["page_context"], *arguments)
    assert row is not None
    return PageContext(row["same_text"], frozenset(row["claimed"]))


async def claim_context(
    connection: Connection,
    organization_id: int,
    task_id: int,
    links: Sequence[Link],
    patterns: Sequence[str],
    pattern_bound: int,
) -> ClaimContext:
    """`patterns` are keys, each once. Before: the crawl's row is locked, so nobody else claims until the transaction ends."""
    arguments = (organization_id, task_id, [link.url_key for link in links], list(patterns), pattern_bound)
    row = await connection.fetchrow(_SQL["claim_context"], *arguments)
    assert row is not None
    return ClaimContext(frozenset(row["claimed"]), dict(zip(patterns, row["counts"], strict=True)))


async def claim(
    connection: Connection,
    organization_id: int,
    task_id: int,
    links: Sequence[Link],
    *,
    parent_url: str | None,
    depth: int,
    patterns: Mapping[str, str],
) -> list[Link]:
    """The links that this call claimed, in their order. Before: the crawl's row is locked; the caller counts them.
    `patterns`: the key of the shape that a URL shares, by URL key."""
    by_key = {link.url_key: link for link in links}
    keys = sorted(by_key)
    rows = await connection.fetch(
        _SQL["claim_many"],
        organization_id,
        task_id,
        parent_url,
        depth,
        [by_key[key].url for key in keys],
        keys,
        [by_key[key].fetch_url for key in keys],
        [patterns.get(key) for key in keys],
    )
    claimed = {row["url_key"] for row in rows}
    return [link for key, link in by_key.items() if key in claimed]


async def finish(
    connection: Connection,
    organization_id: int,
    task_id: int,
    url_key: str,
    finish: Finish,
    *,
    unit: str,
    started_at: datetime,
    ended_as: UnitEnd,
    follow_ups: Sequence[LibraryRequest] = (),
) -> Counted | None:
    """Finishes a claimed URL, ends its unit, registers its follow-ups and counts it, in one statement (LS-14).

    None when it was finished before: then nothing was written, and the caller must give its transaction up."""
    row = await connection.fetchrow(
        _SQL["finish_if_unfinished"],
        organization_id,
        task_id,
        url_key,
        str(finish.outcome),
        storable(finish.detail)[:MAX_DETAIL_LENGTH] if finish.detail is not None else None,
        finish.document_id,
        finish.text_key,
        finish.claimed,
        distinct_texts(finish.reasons),
        distinct_texts(finish.notes),
        unit,
        started_at,
        str(ended_as),
        *registered(follow_ups),
    )
    if row is None:
        return None
    return Counted(row["urls_pending"], row["urls_found"])


@dataclass(frozen=True)
class UrlPage:
    """A keyset page of URLs; `last_id` is where the next one begins, None after the last."""

    urls: tuple[str, ...]
    last_id: int | None


async def children_after(
    connection: Connection, organization_id: int, task_id: int, parent_url: str, after_id: int, limit: int
) -> UrlPage:
    """Exactly what a URL claimed (LS-15)."""
    rows = await connection.fetch(_SQL["children_after"], organization_id, task_id, parent_url, after_id, limit)
    return UrlPage(tuple(row["url"] for row in rows), rows[-1]["id"] if rows else None)


async def seeds_after(connection: Connection, organization_id: int, task_id: int, after_id: int, limit: int) -> UrlPage:
    """Exactly what the crawl's start claimed."""
    rows = await connection.fetch(_SQL["seeds_after"], organization_id, task_id, after_id, limit)
    return UrlPage(tuple(row["url"] for row in rows), rows[-1]["id"] if rows else None)


async def start_page(connection: Connection, organization_id: int, task_id: int) -> StartPage:
    """How the first seed ended; a crawl without seeds has read none."""
    row = await connection.fetchrow(_SQL["start_page"], organization_id, task_id)
    return StartPage(bool(row["was_read"]), row["detail"]) if row is not None else StartPage(False, None)
