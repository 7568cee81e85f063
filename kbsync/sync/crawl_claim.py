"""Claiming the links of a page, or the seeds of a crawl, under the crawl's lock and its bounds (LS-14, LS-16, D09)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kbsync.db.pool import Connection
from kbsync.domain.ids import url_digest
from kbsync.domain.requests import MAX_URL_LENGTH, CrawlUrl
from kbsync.domain.text import has_unstorable_characters
from kbsync.domain.url_scope import pattern_bound, pattern_of
from kbsync.library import crawl_urls
from kbsync.library.crawl_tasks import CrawlTaskRow
from kbsync.library.crawl_urls import Link
from kbsync.providers.contract import FoundUrl

LEAST_PER_PATTERN = 10
MAX_NOTES = 50


@dataclass(frozen=True)
class Caps:
    """A crawl's bounds: URLs in all, the depth of a link, and URLs of one pattern where the query varies or the path."""

    max_urls: int
    max_depth: int
    urls_per_pattern: int

    def of_pattern(self, url: str) -> int:
        """Queries are what traps grow on, so one may not take more than a quarter of the crawl; numbers in paths are mostly
        real pages."""
        most = min(self.urls_per_pattern, self.max_urls // 4) if "?" in url else self.urls_per_pattern
        return pattern_bound(url, max(LEAST_PER_PATTERN, most))


@dataclass(frozen=True)
class Claims:
    """What was claimed, why the crawl is no complete listing any more, and what is worth a note."""

    links: tuple[Link, ...] = ()
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def as_links(found: Iterable[FoundUrl]) -> tuple[Link, ...]:
    """Links that the ledger can hold, each identity once, in the page's order. Longer ones than its limit are left out."""
    kept: dict[str, Link] = {}
    for link in found:
        if len(link.url) > MAX_URL_LENGTH or len(link.fetch_url) > MAX_URL_LENGTH or not link.url:
            continue
        if has_unstorable_characters(link.url) or has_unstorable_characters(link.fetch_url):
            continue
        kept.setdefault(link.url, Link.of(link.url, link.fetch_url))
    return tuple(kept.values())


async def claim_links(
    connection: Connection,
    task: CrawlTaskRow,
    links: Sequence[Link],
    caps: Caps,
    *,
    parent_url: str | None,
    depth: int,
) -> Claims:
    """Before: `task` was read under its lock in this transaction. After: the links that are new and within the caps are
    claimed at `depth`; the caller adds their number to the crawl's counts in this transaction."""
    patterns = {link.url_key: _pattern_key(link.url) for link in links}
    context = await crawl_urls.claim_context(
        connection,
        task.organization_id,
        task.id,
        links,
        sorted(set(patterns.values())),
        max(caps.urls_per_pattern, LEAST_PER_PATTERN),
    )
    room = caps.max_urls - task.urls_found
    of_pattern = dict(context.urls_of_pattern)
    accepted: list[Link] = []
    reasons: list[str] = []
    notes: list[str] = []
    for link in links:
        if link.url_key in context.claimed:
            continue
        pattern = patterns[link.url_key]
        if of_pattern.get(pattern, 0) >= caps.of_pattern(link.url):
            reasons.append("URLs of one pattern seem to have no end")
            notes.append(f"left out URLs like {pattern_of(link.url)[:200]}")
        elif len(accepted) >= room:
            reasons.append(f"the limit of {caps.max_urls} URLs was reached")
        else:
            of_pattern[pattern] = of_pattern.get(pattern, 0) + 1
            accepted.append(link)
    claimed: list[Link] = []
    if accepted:
        claimed = await crawl_urls.claim(
            connection, task.organization_id, task.id, accepted, parent_url=parent_url, depth=depth, patterns=patterns
        )
    fresh = [note for note in dict.fromkeys(notes) if note not in task.notes]
    return Claims(tuple(claimed), tuple(dict.fromkeys(reasons)), tuple(fresh[: MAX_NOTES - len(task.notes)]))


def requests_of(organization_id: int, task_id: int, urls: Iterable[str]) -> tuple[CrawlUrl, ...]:
    return tuple(CrawlUrl(organization_id=organization_id, crawl_task_id=task_id, url=url) for url in urls)


def _pattern_key(url: str) -> str:
    return url_digest(pattern_of(url))[:32]
