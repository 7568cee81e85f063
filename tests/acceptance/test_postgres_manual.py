"""A real documentation site, complete: the PostgreSQL manual from a loopback server, crawled, chunked and searched."""

from __future__ import annotations

import asyncio
import posixpath
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

import pytest
from selectolax.lexbor import LexborHTMLParser

from kbsync.domain.requests import SyncSource
from kbsync.library.search import search
from kbsync.settings import Settings
from tests.acceptance.deployment import deployed, until
from tests.conftest import POSTGRES_MANUAL

pytestmark = pytest.mark.needs("postgresql-doc-15")


def walk_links() -> set[str]:
    """Every page that links reach from index.html, by reading the installed folder: no code of ours."""
    seen, waiting = {"index.html"}, ["index.html"]
    while waiting:
        name = waiting.pop()
        for link in LexborHTMLParser((POSTGRES_MANUAL / name).read_bytes()).css("a[href]"):
            target = urlsplit(urldefrag(urljoin(f"http://manual/{name}", link.attributes["href"] or ""))[0])
            path = posixpath.normpath(unquote(target.path).lstrip("/"))
            if target.netloc == "manual" and path not in seen and (POSTGRES_MANUAL / path).is_file():
                seen.add(path)
                waiting.append(path)
    return {name for name in seen if name.endswith(".html")}


@pytest.mark.spec("LS-14", "LS-16", "LS-21")
async def test_the_manual_is_crawled_completely_chunked_and_found(settings: Settings, manual: str) -> None:
    expected = await asyncio.to_thread(walk_links)
    async with deployed(settings) as fleet:
        organization = await fleet.organization()
        source = await fleet.source(organization, "website", {"start_url": f"{manual}/index.html"})
        await fleet.ask(SyncSource(organization_id=organization, source_id=source))

        async def finished() -> bool:
            status = await fleet.fetchval("select sync_status from knowledge_base_sources")
            unchunked = await fleet.fetchval(
                "select count(*) from knowledge_base_documents where chunks_synced_at is null"
            )
            return status in ("synced", "failed") and unchunked == 0

        await until(finished, "the whole manual crawled and chunked", 240)
        assert await fleet.fetchval("select sync_error from knowledge_base_sources") is None
        async with fleet.runtime.database.organization(organization) as connection:
            rows = await connection.fetch("select url from knowledge_base_documents where discarded_at is null")
            stored = {urlsplit(row["url"]).path.lstrip("/") for row in rows}
            assert stored == expected
            assert await connection.fetchval("select urls_pending from knowledge_base_crawl_tasks") == 0
            hits = await search(connection, organization, "vacuum freeze", limit=3)
        pages = [posixpath.basename(urlsplit(hit.url or "").path) for hit in hits]
        assert {"sql-vacuum.html", "routine-vacuuming.html"} <= set(pages)
        assert all(hit.highlights for hit in hits)
