"""Providers that are a list or a dict of pages, and tenants to sync them into."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from kbsync.db.pool import Database
from kbsync.domain.errors import ProviderError, UnknownProvider
from kbsync.domain.ids import job_id
from kbsync.domain.outcomes import Done, Outcome
from kbsync.domain.requests import LibraryRequest, UnitRequest
from kbsync.library import organizations, sources
from kbsync.providers.contract import (
    Content,
    CrawledPage,
    CrawlPlan,
    DocumentRef,
    FoundUrl,
    ListingEnd,
    ListingPart,
    PageResult,
    Provider,
    SourceSetup,
    Unchanged,
)
from kbsync.sync.context import Run, Units

EARLY = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class ToyListing:
    """Yields `parts` (an exception among them is raised there) and then a complete end, unless they hold an end."""

    parts: list[ListingPart | ProviderError] = field(default_factory=list)
    contents: dict[str, Content | Unchanged | ProviderError] = field(default_factory=dict)
    listing_brings_content: bool = False
    name: str = "toy"
    crawls: bool = False
    fetched: list[DocumentRef] = field(default_factory=list)
    on_fetch: Callable[[DocumentRef], Awaitable[None]] | None = None
    closed: int = 0

    async def list_items(self) -> AsyncIterator[ListingPart]:
        for part in self.parts:
            if isinstance(part, ProviderError):
                raise part
            yield part
        if not any(isinstance(part, ListingEnd) for part in self.parts):
            yield ListingEnd(True)

    async def fetch_document(self, ref: DocumentRef) -> Content | Unchanged:
        self.fetched.append(ref)
        if self.on_fetch:
            await self.on_fetch(ref)
        found = self.contents[ref.external_id]
        if isinstance(found, ProviderError):
            raise found
        return found

    async def close(self) -> None:
        self.closed += 1


Page = PageResult | ProviderError


@dataclass
class ToySite:
    """A website as a dict from URL to page. A page given as a list of errors and pages is played one fetch at a time, and
    its last entry stays."""

    pages: dict[str, Page | list[Page]]
    seeds: tuple[str, ...] = ("https://toy.test/",)
    plan: CrawlPlan | None = None
    max_depth: int = 10
    max_urls: int = 1_000
    max_urls_per_pattern: int = 1_000
    name: str = "toysite"
    crawls: bool = True
    listing_brings_content: bool = False
    fetched: list[str] = field(default_factory=list)
    validators: list[tuple[str | None, str | None]] = field(default_factory=list)
    on_fetch: Callable[[str], Awaitable[None]] | None = None

    def list_items(self) -> AsyncIterator[ListingPart]:
        raise AssertionError("a site is crawled, not listed")

    async def fetch_document(self, ref: DocumentRef) -> Content | Unchanged:
        page = self._next(ref.external_id)
        assert isinstance(page, CrawledPage)
        assert page.content is not None
        return page.content

    async def crawl_plan(self) -> CrawlPlan:
        return self.plan or CrawlPlan(tuple(at(url) for url in self.seeds))

    async def crawl_page(
        self, found: FoundUrl, *, etag: str | None = None, last_modified: str | None = None
    ) -> PageResult:
        self.fetched.append(found.fetch_url)
        self.validators.append((etag, last_modified))
        if self.on_fetch:
            await self.on_fetch(found.url)
        page = self._next(found.url)
        if isinstance(page, ProviderError):
            raise page
        return page

    def _next(self, url: str) -> Page:
        page = self.pages[url]
        if isinstance(page, list):
            return page.pop(0) if len(page) > 1 else page[0]
        return page

    async def close(self) -> None:
        return None


def at(url: str) -> FoundUrl:
    return FoundUrl(url, url)


def page(url: str, text: str, *links: str, etag: str | None = None) -> CrawledPage:
    return CrawledPage(Content(text, f"Title of {url}", etag=etag), tuple(at(link) for link in links), at(url))


def text(markdown: str, title: str = "A title") -> Content:
    return Content(markdown, title)


@dataclass
class Tenant:
    """An organization with one source of a toy provider."""

    database: Database
    organization_id: int
    source_id: int
    units: Units

    def run(self, request: UnitRequest, *, final: bool = False) -> Run:
        return Run(job_id(request), datetime.now(UTC), is_final_attempt=final)

    async def rows(self, query: str, *arguments: object) -> list[Mapping[str, object]]:
        async with self.database.direct() as connection:
            return [dict(row) for row in await connection.fetch(query, *arguments)]

    async def value(self, query: str, *arguments: object) -> object:
        async with self.database.direct() as connection:
            return await connection.fetchval(query, *arguments)

    async def execute(self, query: str, *arguments: object) -> None:
        async with self.database.direct() as connection:
            await connection.execute(query, *arguments)

    async def document_id(self, external_id: str) -> int:
        found = await self.value(
            "select id from knowledge_base_documents where source_id = $1 and external_id = $2",
            self.source_id,
            external_id,
        )
        assert isinstance(found, int)
        return found

    async def kept(self) -> list[str]:
        rows = await self.rows(
            "select external_id from knowledge_base_documents where source_id = $1 and discarded_at is null order by 1",
            self.source_id,
        )
        return [str(row["external_id"]) for row in rows]

    async def open_requests(self) -> set[str]:
        rows = await self.rows(
            "select job_id from kbsync.unit_requests where organization_id = $1 "
            "and (ended_at is null or ended_at < requested_at)",
            self.organization_id,
        )
        return {str(row["job_id"]) for row in rows}


async def make_tenant(database: Database, provider: Provider, *, config: Mapping[str, object] | None = None) -> Tenant:
    """A new organization whose source is read by `provider`."""
    async with database.fleet() as connection:
        organization_id = await organizations.create(connection, "Toy & Sons")
    async with database.organization(organization_id) as connection:
        source_id = await sources.create(connection, organization_id, type="toy", name="Toys", config=config)
    assert source_id is not None

    def build(type: str, setup: SourceSetup) -> Provider:
        if type != "toy":
            raise UnknownProvider(f"no provider {type}")
        return provider

    return Tenant(database, organization_id, source_id, Units(database, build))


async def follow_ups(outcome: Outcome) -> list[LibraryRequest]:
    """Everything that an outcome asks for."""
    assert isinstance(outcome, Done)
    found = list(outcome.follow_ups)
    if outcome.follow_up_pages is not None:
        async for some in outcome.follow_up_pages():
            found.extend(some)
    return found
