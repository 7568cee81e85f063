"""What every unit is given: the library, a way to providers, and the bounds on content. Built once a process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, cast

from kbsync.db.pool import Database
from kbsync.domain.errors import CredentialsRefused, CredentialsWithheld, ProviderRefused
from kbsync.library import data_sources
from kbsync.library.credentials import Vault
from kbsync.library.data_sources import DataSourceRow
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
    async def provider_of(self, source: ReadableSource, *, lists: bool = False) -> AsyncIterator[Provider]:
        """The provider of a source, closed afterwards. Raises UnknownProvider, CredentialsRefused.

        Credentials that the provider refused in the block are noted, and nobody asks it with them again:
        CredentialsWithheld. A unit that `lists` may try them once a day; when it comes through they are taken again."""
        row: DataSourceRow | None = None
        credentials: Mapping[str, str] = {}
        if source.data_source_id is not None:
            async with self.database.organization(source.organization_id) as connection:
                row = await data_sources.get(connection, source.organization_id, source.data_source_id)
            if row is None:
                raise CredentialsRefused("The connection of this source was removed. Connect it again.")
            if row.refused_at is not None and not (lists and row.may_be_tried):
                raise CredentialsWithheld(_withheld(row))
            credentials = self.vault.open(row.sealed_credentials)
        setup = SourceSetup(source.organization_id, source.id, source.config, credentials)
        provider = self.build_provider(source.type, setup)
        try:
            yield provider
        except CredentialsRefused as error:
            if row is not None:
                async with self.database.organization(row.organization_id) as connection:
                    await data_sources.note_refusal(connection, row, str(error))
            raise
        finally:
            await provider.close()
        if row is not None and row.refused_at is not None:
            async with self.database.organization(row.organization_id) as connection:
                await data_sources.forget_refusal(connection, row.organization_id, row.id)

    @asynccontextmanager
    async def crawler_of(self, source: ReadableSource) -> AsyncIterator[CrawlingProvider]:
        """As `provider_of`, for a source that is read by a crawl. Raises ProviderRefused when it is not."""
        async with self.provider_of(source) as provider:
            if not provider.crawls:
                raise ProviderRefused(f"A source of type {source.type} is not read by a crawl.")
            yield cast(CrawlingProvider, provider)


def _withheld(row: DataSourceRow) -> str:
    return (
        f"{row.refused_why or 'The credentials were refused.'} That was {row.refused_at:%Y-%m-%d %H:%M} UTC; the provider is "
        "not asked with them again until new ones are given or a check succeeds. The daily sync tries once."
    )


@dataclass(frozen=True)
class Run:
    """One run of a unit: its job, the database's time when it began, and whether a failure now is the last word."""

    job_id: str
    started_at: datetime
    is_final_attempt: bool = False
    report: Report = _no_report
