"""The walk through a site's sitemaps: those that robots.txt lists, else the usual places, and their indexes' children,
breadth first, within bounds (field case D05)."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from kbsync.domain.url_identity import Found, found_url
from kbsync.domain.url_scope import host_and_port
from kbsync.providers.website.gateway import SitemapAnswer
from kbsync.providers.website.sitemap_file import SitemapFile, SitemapLimits, parse_sitemap

_DEFAULTS = ("/sitemap.xml", "/sitemap_index.xml")


@dataclass(frozen=True)
class SitemapFindings:
    """All files together: URLs once each, in order; why they may not be all; what else is worth showing."""

    urls: tuple[Found, ...] = ()
    incomplete: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


async def read_sitemaps(
    fetch: Callable[[str], Awaitable[SitemapAnswer]],
    origin: str,
    listed: Sequence[str],
    limits: SitemapLimits,
    wanted: Callable[[Found], bool],
) -> SitemapFindings:
    """Reads the sitemaps that robots.txt lists, else those at the usual places, and their indexes' children.

    `wanted` filters URLs before they count. A file that is gone for good is a note; one that fails, is malformed or
    meets a bound makes the findings incomplete."""
    walk = _Walk(fetch, limits, wanted)
    roots = [found for entry in listed if (found := found_url(entry, origin + "/")) is not None]
    if roots:
        await walk.read(roots, are_listed=True)
    else:
        for path in _DEFAULTS:
            found = found_url(origin + path, "")
            if found is not None and await walk.read([found], are_listed=False):
                break
    return SitemapFindings(tuple(walk.urls.values()), tuple(dict.fromkeys(walk.incomplete)), tuple(walk.notes))


@dataclass
class _Walk:
    fetch: Callable[[str], Awaitable[SitemapAnswer]]
    limits: SitemapLimits
    wanted: Callable[[Found], bool]
    urls: dict[str, Found] = field(default_factory=dict)
    incomplete: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)

    async def read(self, roots: Sequence[Found], *, are_listed: bool) -> bool:
        """Walks from `roots`; answers whether any of them was a sitemap."""
        waiting = deque((root, 0) for root in roots)
        found_any = False
        while waiting:
            target, depth = waiting.popleft()
            if target.identity in self.seen:
                continue
            if len(self.seen) >= self.limits.max_files:
                self.incomplete.append(f"sitemap too large: more than {self.limits.max_files} files")
                break
            self.seen.add(target.identity)
            file = await self._file(target, is_expected=are_listed or depth > 0)
            if file is None:
                continue
            found_any = True
            if not self._keep(file):
                break
            if file.children and depth >= self.limits.max_depth:
                self.incomplete.append(f"sitemap too deep: more than {self.limits.max_depth} levels")
                continue
            for child in file.children:
                # A child elsewhere needs that host's consent, which robots.txt gives and an index can't.
                if host_and_port(child.identity) == host_and_port(target.identity):
                    waiting.append((child, depth + 1))
        return found_any

    async def _file(self, target: Found, *, is_expected: bool) -> SitemapFile | None:
        answer = await self.fetch(target.fetch_url)
        name = target.identity[:300]
        if answer.failure is not None:
            if not answer.gone:
                self.incomplete.append(f"sitemap {name}: {answer.failure}")
            elif is_expected:
                self.notes.append(f"sitemap {name}: {answer.failure}")
            return None
        file = parse_sitemap(answer.body, answer.url, self.limits)
        if file.fault is not None:
            self.incomplete.append(f"sitemap {name}: {file.fault}")
        elif answer.cut:
            self.incomplete.append(f"sitemap {name}: sitemap too large, only its beginning was read")
        if not file.is_sitemap:
            if is_expected:
                self.notes.append(f"sitemap {name}: not a sitemap")
            return None
        return file

    def _keep(self, file: SitemapFile) -> bool:
        for found in file.urls:
            if found.identity in self.urls or not self.wanted(found):
                continue
            if len(self.urls) >= self.limits.max_urls:
                self.incomplete.append(f"sitemap too large: more than {self.limits.max_urls} URLs of this site")
                return False
            self.urls[found.identity] = found
        return True
