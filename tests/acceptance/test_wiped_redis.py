"""FLUSHALL in mid-flight: Postgres gives back what Redis lost, nothing is lost or doubled (QR-03)."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from redis.asyncio import Redis

from kbsync.domain.requests import SyncSource
from kbsync.providers.contract import Content, DocumentRef, ListedDocument, Provider, SourceSetup
from kbsync.settings import Settings
from tests.acceptance.deployment import deployed, recovering, until
from tests.sync.toy import ToyListing
from tests.website.fake_site import FakeSite

PAGES, DOCUMENTS = 120, 2_000


def _page(number: int) -> str:
    children = [child for child in (2 * number + 1, 2 * number + 2) if child < PAGES]
    links = "".join(f'<a href="/p{child}.html">{child}</a> ' for child in children)
    body = f"<h1>Page {number}</h1><p>Text {number}.</p>{links}"
    return f"<html><head><title>Page {number}</title></head><body>{body}</body></html>"


@pytest.mark.spec("QR-03", "QU-20")
async def test_a_crawl_survives_a_wiped_redis(settings: Settings, redis: Redis) -> None:
    async with FakeSite() as site:
        for number in range(PAGES):
            site.page("/" if number == 0 else f"/p{number}.html", _page(number))
        async with deployed(settings) as fleet, recovering(fleet, grace_s=0.5, interval_s=0.3):
            organization = await fleet.organization()
            source = await fleet.source(organization, "website", {"start_url": site.url, "use_sitemaps": False})
            await fleet.ask(SyncSource(organization_id=organization, source_id=source))

            async def half_way() -> bool:
                done = await fleet.fetchval("select count(*) from kbsync.crawl_task_urls where finished_at is not null")
                return isinstance(done, int) and done >= PAGES // 3

            await until(half_way, "a third of the crawl")
            await redis.flushall()

            async def chunked() -> bool:
                status = await fleet.fetchval("select sync_status from knowledge_base_sources where id = $1", source)
                missing = "select count(*) from knowledge_base_documents where chunks_synced_at is null"
                return status == "synced" and await fleet.fetchval(missing) == 0

            await until(chunked, "the crawl's end and its chunks")
            assert await fleet.fetchval("select urls_pending from knowledge_base_crawl_tasks") == 0
            assert await fleet.fetchval("select status from knowledge_base_crawl_tasks") == "completed"
            assert await fleet.fetchval("select count(*) from knowledge_base_documents") == PAGES
            chunks = "select count(*) - count(distinct (source_id, position)) from document_chunks"
            assert await fleet.fetchval(chunks) == 0
        asked = Counter(one.target for one in site.requests if one.target.startswith("/p"))
    assert len(asked) == PAGES - 1
    assert max(asked.values()) <= 2


@pytest.mark.spec("QR-03", "QR-08")
async def test_a_sync_of_2000_documents_survives_a_wiped_redis(settings: Settings, redis: Redis) -> None:
    fetched: Counter[str] = Counter()
    a_third = asyncio.Event()

    async def note(ref: DocumentRef) -> None:
        fetched[ref.external_id] += 1
        if len(fetched) == DOCUMENTS // 3:
            a_third.set()

    ids = [f"doc-{number:04}" for number in range(DOCUMENTS)]
    provider = ToyListing(
        parts=[ListedDocument(one, title=one) for one in ids],
        contents={one: Content(f"Text of {one}.", title=one) for one in ids},
        on_fetch=note,
    )

    def build(source_type: str, setup: SourceSetup) -> Provider:
        return provider

    async with deployed(settings, build_provider=build) as fleet, recovering(fleet, grace_s=0.5, interval_s=0.3):
        organization = await fleet.organization()
        source = await fleet.source(organization, "files", {})
        await fleet.ask(SyncSource(organization_id=organization, source_id=source))
        await asyncio.wait_for(a_third.wait(), 60)
        await redis.flushall()

        async def all_there() -> bool:
            count = "select count(chunks_synced_at) from knowledge_base_documents where last_synced_at is not null"
            return await fleet.fetchval(count) == DOCUMENTS

        await until(all_there, "2,000 documents synced and chunked", 90)
        assert await fleet.fetchval("select count(distinct source_id) from document_chunks") == DOCUMENTS
        assert await fleet.fetchval("select count(*) from document_chunks") == DOCUMENTS
    assert max(fetched.values()) <= 2
