"""`/crawls` and `/crawls/{id}`: how far, how fast, until when; which URLs failed and why, and where they sit in the site."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kbsync.dashboard import knowledge_words as words
from kbsync.dashboard.ask import Access, Ask, NotHere
from kbsync.dashboard.knowledge import (
    address,
    all_that_may_be_seen,
    id_or_none,
    is_stream,
    organization_of,
    place_of,
)
from kbsync.dashboard.page import Page
from kbsync.db.pool import Connection
from kbsync.domain.states import CrawlStatus, CrawlUrlOutcome
from kbsync.library import crawl_views, owners
from kbsync.library.crawl_views import CrawlPage, UrlNode
from kbsync.library.source_pages import COUNTED_TO

STATUSES = tuple((str(status), str(status).capitalize()) for status in CrawlStatus)
MISSING = "There is no such crawl, or it is another organization’s."
NODES = 40  # of one node, on its own page
PEEK = 5  # of each of them, folded
PEEK_COUNTED = 100


async def crawls(ask: Ask) -> Mapping[str, Any]:
    chosen, source_id = id_or_none(ask.query("organization")), id_or_none(ask.query("source"))
    status = ask.query("status") if ask.query("status") in dict(STATUSES) else ""
    before = (place_of(ask.query("before"), 1) or (crawl_views.HIGHEST,))[0]
    async with all_that_may_be_seen(ask) as connection:
        live = await crawl_views.live_crawls(connection, ask.organization_id, COUNTED_TO + 1)
        lines, more = await crawl_views.crawl_list(
            connection,
            ask.organization_id,
            chosen=chosen,
            source_id=source_id,
            status=status or None,
            before_id=before,
        )
    filters = {"status": status, "organization": chosen or "", "source": source_id or ""}
    return {
        "lines": [(line, words.pace_of(line, ask.now)) for line in lines],
        "verdict": words.crawls_verdict(live),
        "filters": filters,
        "used": sum(1 for value in filters.values() if value),
        "statuses": STATUSES,
        "more": address("/crawls", **filters, before=more) if more else None,
        "first": address("/crawls", **filters) if before != crawl_views.HIGHEST else None,
        "words": words,
    }


@dataclass(frozen=True)
class Branch:
    """A node of the tree and the first of what it led to; `more` leads to all of it."""

    node: UrlNode
    children: list[UrlNode]
    more: int


@dataclass(frozen=True)
class Tree:
    """The nodes at one place of the site. `way`: (url, url_key) from a seed to the place, empty at the top."""

    at: UrlNode | None
    way: list[tuple[str, str]]
    branches: list[Branch]
    after: int | None


async def crawl(ask: Ask) -> Mapping[str, Any]:
    task_id = ask.number("id")
    organization_id = await organization_of(ask, owners.owner_of_crawl, task_id, MISSING)
    outcome = ask.query("outcome")
    outcome = outcome if outcome in set(CrawlUrlOutcome) - {CrawlUrlOutcome.STORED} else ""
    key, after = ask.query("at", 64), (place_of(ask.query("after"), 1) or (0,))[0]
    context: dict[str, Any] = {}
    here = f"/crawls/{task_id}"
    async with ask.services.database.organization(organization_id) as connection:
        page = await crawl_views.crawl_page(connection, organization_id, task_id)
        if page is None:
            raise NotHere(MISSING)
        reasons = (
            await crawl_views.failure_reasons(connection, organization_id, task_id)
            if page.outcomes.get("failed")
            else []
        )
        if outcome and not is_stream(ask):
            urls, more = await crawl_views.urls_by_outcome(
                connection, organization_id, task_id, outcome, after_id=after
            )
            context = {"urls": urls, "more": address(here, outcome=outcome, after=more) if more else None}
        elif not is_stream(ask):
            tree = await _tree(connection, page, key, after)
            context = {"tree": tree, "more": address(here, at=key, after=tree.after) if tree.after else None}
    pace = words.pace_of(page, ask.now)
    return {
        "urls": None,
        "tree": None,
        "more": None,
        **context,
        "page": page,
        "pace": pace,
        "estimate": words.estimate_text(pace, ask.now),
        "verdict": words.crawl_verdict(page, ask.now),
        "reasons": reasons,
        "parts_of_bar": bar_of(page),
        "limit": page.source_config.get("max_urls", 5_000),
        "host": words.host_of(page.start_url),
        "outcome": outcome,
        "key": key,
        "first": address(here, outcome=outcome, at=key) if after else None,
        "words": words,
        "counted": crawl_views.CHILDREN_COUNTED,
    }


async def _tree(connection: Connection, page: CrawlPage, key: str, after: int) -> Tree:
    """Three bounded reads: the way, the nodes of this place, and a peek below each. A crawl whose only seed is its start
    page is shown from there."""
    organization_id, task_id = page.organization_id, page.id
    at, way, onwards = None, [], None
    if key:
        at = await crawl_views.node(connection, organization_id, task_id, key)
        if at is None:
            raise NotHere("This crawl has no such URL.")
        way = await crawl_views.way_to(connection, organization_id, task_id, key)
    else:
        nodes, onwards = await crawl_views.seeds(connection, organization_id, task_id, after, NODES)
        if len(nodes) == 1 and not after:
            at = nodes[0]
    if at is not None:
        below = await crawl_views.children(connection, organization_id, task_id, [at.url], after, NODES + 1)
        nodes = below.get(at.url, [])
        onwards = nodes[NODES - 1].id if len(nodes) > NODES else None
        nodes = nodes[:NODES]
    open_ones = [node.url for node in nodes if node.children]
    below = (
        await crawl_views.children(connection, organization_id, task_id, open_ones, 0, PEEK, PEEK_COUNTED)
        if open_ones
        else {}
    )
    branches = [Branch(node, shown := below.get(node.url, []), max(0, node.children - len(shown))) for node in nodes]
    return Tree(at, way, branches, onwards)


def bar_of(page: CrawlPage) -> list[tuple[str, float, float]]:
    """(class, x, width) in percent of what was found: stored, the harmless rest, failed."""
    if not page.urls_found:
        return []
    stored, failed = page.outcomes.get("stored", 0), page.outcomes.get("failed", 0)
    rest = sum(page.outcomes.values()) - stored - failed
    parts, x = [], 0.0
    for look, amount in (("f-done", stored), ("f-waiting", rest), ("f-failed", failed)):
        width = min(100 - x, 100 * amount / page.urls_found)
        parts.append((look, round(x, 2), round(width, 2)))
        x += width
    return parts


PAGES = (
    Page("/crawls", "crawls.html", crawls, Access.KNOWLEDGE, live=("verdict", "rows")),
    Page("/crawls/{id}", "crawl.html", crawl, Access.KNOWLEDGE, live=("standing", "progress", "failures")),
)
