"""What a crawl may fetch: scope, traps and robots.txt, asked of links, pages and every redirect (LS-16)."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

from kbsync.domain.errors import ProviderError
from kbsync.domain.url_identity import Found, found_url
from kbsync.domain.url_scope import Scope, TrapGuard, host_and_port, path_of
from kbsync.http.errors import RedirectRefused
from kbsync.providers.website.gateway import WebsiteGateway
from kbsync.providers.website.robots import RobotsCache, RobotsRules


def origin_of(url: str) -> str:
    """Scheme and authority of an absolute URL with a path: robots.txt holds for one origin."""
    return url[: url.find("/", url.find("://") + 3)]


class CrawlRules:
    """The rules of one source. `owner` keeps its robots answers apart from those of other sources in a shared cache."""

    def __init__(self, scope: Scope, gateway: WebsiteGateway, robots: RobotsCache, owner: str) -> None:
        self.scope = scope
        self._traps = TrapGuard()
        self._gateway = gateway
        self._robots = robots
        self._owner = owner

    async def robots_of(self, url: str, *, fresh: bool = False) -> RobotsRules:
        """The robots rules for `url`'s origin. Raises as `WebsiteGateway.robots` does."""
        origin = origin_of(url)
        return await self._robots.rules(
            f"{self._owner}/{origin}", lambda: self._gateway.robots(origin), now=time.monotonic(), fresh=fresh
        )

    async def allow(self, target: Found) -> bool:
        """Whether robots.txt lets `target` be fetched, as far as is known now: a host whose rules can't be read at this
        moment is asked again when the page is due."""
        try:
            return (await self.robots_of(target.fetch_url)).allows(target.fetch_url)
        except ProviderError:
            return True

    async def followable(self, links: Sequence[Found], dropped: Counter[str]) -> list[Found]:
        """The links in scope that are no trap and that robots.txt allows; `dropped` counts the others that an editor
        may ask about."""
        kept: list[Found] = []
        for link in links:
            if not self.scope.contains(link.identity):
                continue
            if reason := self._traps.reason(link.identity):
                dropped[f"trap: {reason}"] += 1
            elif not await self.allow(link):
                dropped["forbidden by robots.txt"] += 1
            else:
                kept.append(link)
        return kept

    async def check_hop(self, url: str, *, any_path: bool = False) -> None:
        """Scope and robots hold on every hop, not on the first URL alone (field case D03): raises RedirectRefused.
        `any_path`: the start page is followed wherever it leads on its hosts, because its links are wanted."""
        target = found_url(url, "")
        if target is None or not self.scope.holds_host(target.identity):
            # The start page can't be anywhere else: say how to go on.
            cure = "; make that the start URL, or add its host" if any_path else ""
            raise RedirectRefused(f"redirected out of scope to {host_and_port(url)[:260]}{cure}")
        if not (any_path or self.scope.holds_path(target.identity)):
            raise RedirectRefused(f"redirected out of scope to {path_of(target.identity)[:253]}")
        if reason := self._traps.reason(target.identity):
            raise RedirectRefused(f"redirected into a trap: {reason}")
        if not (await self.robots_of(url)).allows(url):
            raise RedirectRefused("redirected to a page that robots.txt forbids")
