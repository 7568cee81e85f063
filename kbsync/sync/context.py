"""What every unit is given: the library, a way to providers, and the bounds on content. Built once a process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, cast

from kbsync.db.pool import Database
from kbsync.domain.errors import CredentialsRefused, ProviderRefused
from kbsync.library import data_sources
from kbsync.library.credentials import Vault
from kbsync.providers.contract import CrawlingProvider, Provider, SourceSetup

# A source's type and its setup in, its provider out; raises UnknownProvider.
BuildProvider = Callable[[str, SourceSetup], Provider]
Report = Callable[[int, int | None, str], None]


class ReadableSource(Protocol):
    """What a provider is built from."""

    @property
    def organization_id(self) -> int: ...
    @property
    def id(self) -> int: ...
    @property
    def type(self) -> str: ...
    @property
    def config(self) -> Mapping[str, object]: ...
    @property
    def data_source_id(self) -> int | None: ...


def _no_report(done: int, total: int | None, note: str) -> None:
    return None


@dataclass(frozen=True)
class ContentBounds:
    content_cap: int = 5_000_000
    chunk_characters: int = 1_600
    chunk_overlap: int = 160


@dataclass(frozen=True)
class CrawlBounds:
    """A bound on traps (D09): so many pages of one text have their links followed."""

    pages_per_text: int = 10


@dataclass(frozen=True)
class Units:
    """The room's dependencies."""

    database: Database
    build_provider: BuildProvider
    vault: Vault = field(default_factory=lambda: Vault(None))
    bounds: ContentBounds = ContentBounds()
    crawl_bounds: CrawlBounds = CrawlBounds()

    @asynccontextmanager
    async def provider_of(self, source: ReadableSource) -> AsyncIterator[Provider]:
        """The provider of a source, closed afterwards. Raises UnknownProvider, CredentialsRefused."""
        credentials: Mapping[str, str] = {}
        if source.data_source_id is not None:
            async with self.database.organization(source.organization_id) as connection:
                row = await data_sources.get(connection, source.organization_id, source.data_source_id)
            if row is None:
                raise CredentialsRefused("The connection of this source was removed. Connect it again.")
            credentials = self.vault.open(row.sealed_credentials)
        setup = SourceSetup(source.organization_id, source.id, source.config, credentials)
        provider = self.build_provider(source.type, setup)
        try:
            yield provider
        finally:
            await provider.close()

    @asynccontextmanager
    async def crawler_of(self, source: ReadableSource) -> AsyncIterator[CrawlingProvider]:
        """As `provider_of`, for a source that is read by a crawl. Raises ProviderRefused when it is not."""
        async with self.provider_of(source) as provider:
            if not provider.crawls:
                raise ProviderRefused(f"A source of type {source.type} is not read by a crawl.")
            yield cast(CrawlingProvider, provider)


@dataclass(frozen=True)
class Run:
    """One run of a unit: its job, the database's time when it began, and whether a failure now is the last word."""

    job_id: str
    started_at: datetime
    is_final_attempt: bool = False
    report: Report = _no_report
