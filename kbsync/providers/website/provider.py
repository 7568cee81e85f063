"""A website as a source: where its crawl begins, and what one page of it brings (LS-07, LS-16, LS-17)."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial

from kbsync.domain.errors import (
    AddressRefused,
    ItemGone,
    ItemUnreadable,
    ProviderRefused,
    ProviderUnreachable,
)
from kbsync.domain.url_identity import Found, found_url, judge_link
from kbsync.domain.url_scope import path_of
from kbsync.http.client import Response, SafeClient
from kbsync.http.errors import RedirectRefused
from kbsync.providers.contract import (
    Access,
    Content,
    CrawledPage,
    CrawlPlan,
    DocumentRef,
    FoundUrl,
    ListingEnd,
    ListingPart,
    PageGone,
    PageRefused,
    PageResult,
    PageUnchanged,
    SourceSetup,
    Unchanged,
)
from kbsync.providers.website.config import WebsiteConfig, website_config
from kbsync.providers.website.gateway import WebsiteGateway
from kbsync.providers.website.page import PageReading, read_page
from kbsync.providers.website.robots import RobotsCache, RobotsRules, cache_of, robot_token
from kbsync.providers.website.rules import CrawlRules, origin_of
from kbsync.providers.website.sitemap import SitemapFindings, read_sitemaps
from kbsync.providers.website.sitemap_file import SitemapLimits

_IN_THREAD_FROM = 65_536  # bytes of HTML; below it the hand-over costs more than the reading
_NOINDEX = "asks not to be indexed"
_LOGIN = re.compile(r"/(?:login|log-in|log_in|signin|sign-in|sign_in)(?:[/.]|$)", re.IGNORECASE)
_PERMANENT = frozenset({301, 308})


class WebsiteProvider:
    """Keeps `contract.CrawlingProvider` and `contract.Checkable`. One instance serves one source; it holds no state between
    pages but robots rules, which providers over one client share."""

    name = "website"
    listing_brings_content = False
    crawls = True

    def __init__(
        self,
        setup: SourceSetup,
        client: SafeClient,
        config: WebsiteConfig | None = None,
        *,
        robots: RobotsCache | None = None,
    ) -> None:
        """Raises ProviderRefused when `setup.config` is no website configuration. `client` stays the caller's."""
        self.config = config or website_config(setup.config)
        self._robot = robot_token(client.user_agent)
        self._start = self.config.start
        self._scope = self.config.scope
        self._gateway = WebsiteGateway(client, self._start.fetch_url, setup.credentials, self._robot)
        owner = f"{setup.organization_id}/{setup.source_id}"
        self._rules = CrawlRules(self._scope, self._gateway, robots or cache_of(client), owner)

    @property
    def max_depth(self) -> int:
        return self.config.max_depth

    @property
    def max_urls(self) -> int:
        return self.config.max_urls

    @property
    def max_urls_per_pattern(self) -> int:
        """How many URLs of one `url_scope.pattern_of` a crawl may take (see `url_scope.pattern_bound`)."""
        return self.config.max_urls_per_pattern

    async def crawl_delay_s(self) -> float | None:
        """The start host's Crawl-delay in seconds, at most 30. Raises as `crawl_plan` does."""
        return (await self._rules.robots_of(self._start.fetch_url)).crawl_delay_s

    async def crawl_plan(self) -> CrawlPlan:
        """Reads robots.txt and the sitemaps. Raises ProviderUnreachable and ProviderBusy while robots.txt can't be read,
        AddressRefused and ProviderRefused when the site can't be fetched at all."""
        rules = await self._rules.robots_of(self._start.fetch_url, fresh=True)
        findings = await self._sitemap_findings(rules)
        seeds = [self._start] if rules.allows(self._start.fetch_url) else []
        dropped: Counter[str] = Counter()
        seeds += await self._rules.followable(findings.urls, dropped)
        if not seeds:
            return CrawlPlan((), blocked="blocked by robots: robots.txt forbids the start page")
        reasons = list(findings.incomplete)
        if seeds[0] is not self._start:
            reasons.append("robots.txt forbids the start page")
        unique = {found.identity: found for found in seeds}
        notes = (*findings.notes, *_counts("sitemap", dropped))
        return CrawlPlan(_as_found_urls(tuple(unique.values())), None, tuple(reasons), notes, rules.crawl_delay_s)

    async def crawl_page(
        self, found: FoundUrl, *, etag: str | None = None, last_modified: str | None = None
    ) -> PageResult:
        """One page. Raises ProviderBusy and ProviderUnreachable; all else about the page is in the result."""
        is_start = found.url == self._start.identity
        if not (is_start or self._scope.contains(found.url)) or not self._scope.holds_host(found.fetch_url):
            return PageRefused("out of scope")
        try:
            if not (await self._rules.robots_of(found.fetch_url)).allows(found.fetch_url):
                return PageRefused("robots.txt forbids it")
        except (AddressRefused, ProviderRefused) as error:
            return PageRefused(str(error))
        answer = await self._gateway.page(
            found.fetch_url,
            etag=etag,
            last_modified=last_modified,
            on_hop=partial(self._rules.check_hop, any_path=is_start),
        )
        if not isinstance(answer, Response):
            return answer
        if _leads_to_a_login(answer, found.fetch_url):
            return PageRefused("no access: redirected to a login page")
        if len(answer.body) < _IN_THREAD_FROM:
            reading = read_page(answer, self._robot)
        else:
            reading = await asyncio.to_thread(read_page, answer, self._robot)
        return await self._as_page(found, answer, reading)

    async def fetch_document(self, ref: DocumentRef) -> Content | Unchanged:
        """Fetches one URL again. Raises ItemGone, ItemUnreadable, ProviderBusy, ProviderUnreachable."""
        found = found_url(ref.url or ref.external_id, self._start.fetch_url)
        if found is None:
            raise ItemUnreadable("not a URL that can be fetched")
        result = await self.crawl_page(
            FoundUrl(found.identity, found.fetch_url), etag=ref.etag, last_modified=ref.last_modified
        )
        match result:
            case PageUnchanged():
                return Unchanged()
            case PageGone(status=status):
                raise ItemGone(f"the page is gone (answered {status})")
            case PageRefused(detail=detail):
                raise ItemUnreadable(detail)
            case CrawledPage(content=None, detail=detail):
                raise ItemGone(detail or "no text") if detail == _NOINDEX else ItemUnreadable(detail or "no text")
            case CrawledPage(content=content):
                assert content is not None
                return content

    async def check(self) -> Access:
        """Reads robots.txt, the sitemaps and the start page, as a crawl would begin. Raises ProviderRefused with why it could
        not, and as `crawl_plan` does."""
        plan = await self.crawl_plan()
        if plan.blocked is not None:
            raise ProviderRefused(plan.blocked)
        page = await self.crawl_page(FoundUrl(self._start.identity, self._start.fetch_url))
        if isinstance(page, PageGone | PageRefused):
            why = f"it answered {page.status}" if isinstance(page, PageGone) else page.detail
            raise ProviderRefused(f"The start page can't be read: {why}")
        sees = [f"{len(plan.seeds)} URLs to begin with (start page and sitemaps)"]
        if isinstance(page, CrawledPage):
            sees.append(f"{len(page.links)} links on the start page")
            if page.content is not None:
                sees.insert(0, f"the start page: {page.content.title}")
        return Access(self._start.identity, tuple(sees), (*plan.incomplete_reasons, *plan.notes))

    async def list_items(self) -> AsyncIterator[ListingPart]:
        """A website is listed by its crawl; this listing proves nothing."""
        yield ListingEnd(False, "a website is listed by its crawl")

    async def close(self) -> None:
        """Nothing to close: the client is the caller's."""

    async def _sitemap_findings(self, rules: RobotsRules) -> SitemapFindings:
        if not self.config.use_sitemaps:
            return SitemapFindings()
        limits = SitemapLimits(max_urls=self.config.max_urls)
        return await read_sitemaps(
            self._gateway.sitemap,
            origin_of(self._start.fetch_url),
            rules.sitemaps,
            limits,
            lambda found: self._scope.contains(found.identity),
        )

    # --- one page -----------------------------------------------------------------------------------------------

    async def _as_page(self, found: FoundUrl, answer: Response, reading: PageReading) -> PageResult:
        dropped: Counter[str] = Counter(reading.markup.left_out)
        links = [] if reading.nofollow else await self._rules.followable(reading.markup.links, dropped)
        final = judge_link(answer.url, "")
        assert isinstance(final, Found)  # it was fetched
        content, canonical, detail = await self._content(found, final, reading)
        if content is None and canonical is None and not links and not reading.noindex:
            return PageRefused(detail or "no text")
        details = [text for text in (detail, reading.note) if text]
        details += _counts("links", dropped)
        if len(links) > self.config.max_urls:
            details.append(f"links: only the first {self.config.max_urls} of {len(links)} are followed")
            links = links[: self.config.max_urls]
        return CrawledPage(
            content,
            _as_found_urls(tuple(links)),
            FoundUrl(final.identity, final.fetch_url),
            None if canonical is None else FoundUrl(canonical.identity, canonical.fetch_url),
            "; ".join(details) or None,
        )

    async def _content(
        self, found: FoundUrl, final: Found, reading: PageReading
    ) -> tuple[Content | None, Found | None, str | None]:
        """What is stored of the page, the page it is a copy of, and why it is not stored."""
        if reading.noindex:
            return None, None, _NOINDEX
        if reading.content is None:
            return None, None, reading.detail
        if final.identity != found.url and path_of(found.url) != "/" and self._is_home(final.identity):
            return None, final, "redirected to the home page"
        if not self._scope.holds_path(final.identity):
            return None, None, "the start page is outside the included paths: only its links are followed"
        canonical = await self._believed_canonical(final, reading)
        if canonical is not None:
            return None, canonical, "names another page as its canonical one"
        title = reading.content.title.strip() or path_of(final.identity)
        return replace(reading.content, title=title), None, None

    def _is_home(self, identity: str) -> bool:
        return path_of(identity) == "/" and "?" not in identity

    async def _believed_canonical(self, final: Found, reading: PageReading) -> Found | None:
        """The other page that this one is a copy of, if its canonical link can be believed: one target, in scope, not
        the home page (a common broken template), and a page that answers, is indexed and names no third one."""
        others = [target for target in reading.canonicals if target.identity != final.identity]
        if len(reading.canonicals) != 1 or not others:
            return None
        target = others[0]
        if self._is_home(target.identity):
            return None
        if not await self._rules.followable([target], Counter()):
            return None
        try:
            answer = await self._gateway.page(target.fetch_url, etag=None, last_modified=None, on_hop=_no_hop)
        except ProviderUnreachable:
            return None
        if not isinstance(answer, Response):
            return None
        other = await asyncio.to_thread(read_page, answer, self._robot)
        if other.content is None or other.noindex:
            return None
        return target if all(found.identity == target.identity for found in other.canonicals) else None


def _leads_to_a_login(answer: Response, asked: str) -> bool:
    """A page that moved for good to documentation about logging in is content; one that sends visitors there is not."""
    is_temporary = any(hop.status not in _PERMANENT for hop in answer.hops)
    return is_temporary and bool(_LOGIN.search(path_of(answer.url))) and not _LOGIN.search(path_of(asked))


async def _no_hop(url: str) -> None:
    raise RedirectRefused("a canonical page that redirects")


def _as_found_urls(links: tuple[Found, ...]) -> tuple[FoundUrl, ...]:
    return tuple(FoundUrl(link.identity, link.fetch_url) for link in links)


def _counts(what: str, dropped: Counter[str]) -> list[str]:
    return [f"{what}: {count} left out, {reason}" for reason, count in sorted(dropped.items())]
