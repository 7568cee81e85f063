"""What a fetched page means for the ledger: pure, so that every answer of a website has one row in a table of tests."""

from __future__ import annotations

from dataclasses import dataclass

from kbsync.domain.states import CrawlUrlOutcome
from kbsync.library.crawl_urls import Link
from kbsync.providers.contract import Content, CrawledPage, PageGone, PageRefused, PageResult, PageUnchanged
from kbsync.sync.crawl_claim import as_links


@dataclass(frozen=True)
class PageVerdict:
    """`content` is to be stored. `same_page` are other names of this page, crawled in its place at its own depth; `links`
    lead one deeper."""

    outcome: CrawlUrlOutcome
    detail: str | None = None
    content: Content | None = None
    same_page: tuple[Link, ...] = ()
    links: tuple[Link, ...] = ()


def judge_page(url: str, page: PageResult, known_links: tuple[Link, ...]) -> PageVerdict:
    """`url` is the identity that was asked for, `known_links` those of the stored page, which a 304 stands for."""
    match page:
        case PageGone(status):
            return PageVerdict(CrawlUrlOutcome.GONE, f"answered {status}")
        case PageRefused(detail):
            return PageVerdict(CrawlUrlOutcome.REFUSED, detail)
        case PageUnchanged():
            return PageVerdict(CrawlUrlOutcome.UNCHANGED, links=known_links)
        case CrawledPage(final=final) if final.url != url:
            # The page belongs to the row of its final address, whoever links to it.
            return PageVerdict(CrawlUrlOutcome.DUPLICATE, f"redirects to {final.url}", same_page=as_links([final]))
        case CrawledPage(content=None, canonical=canonical) if canonical is not None and canonical.url != url:
            return PageVerdict(
                CrawlUrlOutcome.DUPLICATE,
                f"is the page {canonical.url}",
                same_page=as_links([canonical]),
                links=as_links(page.links),
            )
        case CrawledPage(content=None):
            return PageVerdict(
                CrawlUrlOutcome.REFUSED, page.detail or "asks not to be stored", links=as_links(page.links)
            )
        case CrawledPage():
            return PageVerdict(CrawlUrlOutcome.STORED, page.detail, content=page.content, links=as_links(page.links))
