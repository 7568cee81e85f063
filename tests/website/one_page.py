"""One page of a fake site, read as a crawl reads it."""

from __future__ import annotations

from typing import Any

from kbsync.providers.contract import Content, CrawledPage, PageResult
from tests.website.fake_site import FakeSite


async def fetch(site: FakeSite, path: str = "/p", **config: Any) -> PageResult:
    """What became of the page at `path`, for a source with this config."""
    return await site.provider(use_sitemaps=False, **config).crawl_page(site.found(path))


async def stored(site: FakeSite, path: str = "/p") -> Content:
    """The content of a page that is there and has some."""
    result = await fetch(site, path)
    assert isinstance(result, CrawledPage)
    assert result.content is not None
    return result.content
