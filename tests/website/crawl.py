"""A crawl without a ledger: breadth first over the provider, each identity once."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from kbsync.domain.errors import ProviderError
from kbsync.domain.url_scope import pattern_bound, pattern_of
from kbsync.providers.contract import CrawledPage, CrawlPlan, FoundUrl, PageResult
from kbsync.providers.website.provider import WebsiteProvider


@dataclass
class Crawl:
    """`rows` are the identities in the order of their claim, `results` what each became."""

    plan: CrawlPlan
    rows: list[str] = field(default_factory=list)
    results: dict[str, PageResult | ProviderError] = field(default_factory=dict)
    bounded: set[str] = field(default_factory=set)

    @property
    def stored(self) -> dict[str, CrawledPage]:
        return {
            url: result
            for url, result in self.results.items()
            if isinstance(result, CrawledPage) and result.content is not None
        }

    def paths(self) -> list[str]:
        return ["/" + url.split("/", 3)[3] for url in self.rows]


async def crawl(provider: WebsiteProvider, *, depth: int | None = None) -> Crawl:
    """Crawls to `depth` links from the seeds (the provider's own bound when None)."""
    plan = await provider.crawl_plan()
    done = Crawl(plan)
    waiting: deque[tuple[FoundUrl, int]] = deque()
    patterns: dict[str, int] = {}

    def claim(found: FoundUrl, at: int) -> None:
        if found.url in done.results or found.url in done.rows or len(done.rows) >= provider.max_urls:
            return
        pattern = pattern_of(found.url)
        if patterns.get(pattern, 0) >= pattern_bound(found.url, provider.max_urls_per_pattern):
            done.bounded.add(pattern)
            return
        patterns[pattern] = patterns.get(pattern, 0) + 1
        done.rows.append(found.url)
        waiting.append((found, at))

    for seed in plan.seeds:
        claim(seed, 0)
    while waiting:
        found, at = waiting.popleft()
        try:
            result: PageResult | ProviderError = await provider.crawl_page(found)
        except ProviderError as error:
            result = error
        done.results[found.url] = result
        if isinstance(result, CrawledPage) and at < (provider.max_depth if depth is None else depth):
            for link in result.links:
                claim(link, at + 1)
    return done
