"""The one protocol of every provider (LS-18).

A provider is built for one source from `SourceSetup`; it holds no database and makes no decision about the library.
Errors leave it as `kbsync.domain.errors.ProviderError`s, mapped in one place of its package.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, runtime_checkable

from kbsync.domain.audience import PUBLIC as PUBLIC
from kbsync.domain.audience import Audience as Audience
from kbsync.domain.audience import AudienceKind as AudienceKind


@dataclass(frozen=True)
class SourceSetup:
    """What a provider may know of its source. `credentials` are decrypted and must reach no log, error or payload."""

    organization_id: int
    source_id: int
    config: Mapping[str, object]
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)


# A link to something that expires (a signed file address) stands in the Markdown as this and the provider's own lasting
# name of it; `AssetSource.asset_url` turns the name into an address that works now (LS-25).
ASSET_SCHEME = "kbsync-asset:"


@dataclass(frozen=True)
class Content:
    """A document's text as Markdown, before `domain.text` makes it storable and caps it. `audience` None: as listed."""

    markdown: str
    title: str
    language: str | None = None
    etag: str | None = None
    last_modified: str | None = None
    audience: Audience | None = None


@dataclass(frozen=True)
class ListedSection:
    external_id: str
    title: str
    parent_external_id: str | None = None
    position: int = 0


@dataclass(frozen=True)
class ListedDocument:
    """`changed_at` is the provider's own time or None when it has none; `version` anything that changes with content.

    `content` is set by providers whose listing brings it (`listing_brings_content`). `audience` is as far as the listing
    knows it: what the document's own fetch says of it stays until a listing says something new."""

    external_id: str
    title: str
    url: str | None = None
    section_external_ids: tuple[str, ...] = ()
    changed_at: datetime | None = None
    version: str | None = None
    content: Content | None = None
    audience: Audience = PUBLIC


@dataclass(frozen=True)
class UnreadableItem:
    """A listed item that can't be read: it is kept with its reason and counts as seen."""

    external_id: str
    title: str
    reason: str
    url: str | None = None


@dataclass(frozen=True)
class ListingEnd:
    """The last thing a listing yields. `complete` is proven, not assumed; else `reason` says why not (LS-09).

    `ask_for_missing`: even a complete listing may lack what is there (a search index), so that a document it misses is
    fetched, and goes only when `fetch_document` raises ItemGone."""

    complete: bool
    reason: str | None = None
    ask_for_missing: bool = field(default=False, compare=False)


ListingPart = ListedSection | ListedDocument | UnreadableItem | ListingEnd


@dataclass(frozen=True)
class DocumentRef:
    """The library's view of the document to fetch."""

    external_id: str
    url: str | None
    etag: str | None = None
    last_modified: str | None = None


@dataclass(frozen=True)
class Unchanged:
    """The provider says that nothing changed since the ref's etag or last_modified."""


class Provider(Protocol):
    """`list_items` raises ProviderError when a page fails: the run is aborted and nothing is removed.
    `fetch_document` raises ItemGone (discard), ItemUnreadable (keep with reason), ProviderBusy, ProviderUnreachable."""

    @property
    def name(self) -> str: ...

    @property
    def listing_brings_content(self) -> bool: ...

    @property
    def crawls(self) -> bool:
        """Whether the source is read by a crawl (website) instead of by `list_items`."""
        ...

    def list_items(self) -> AsyncIterator[ListingPart]: ...

    async def fetch_document(self, ref: DocumentRef) -> Content | Unchanged: ...

    async def close(self) -> None: ...


@dataclass(frozen=True)
class Access:
    """What a source's credentials open, in an editor's words: `account` is whose they are, `sees` what can be listed."""

    account: str
    sees: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@runtime_checkable
class Checkable(Protocol):
    """A provider whose credentials and configuration can be tried before the first sync."""

    async def check(self) -> Access:
        """A few cheap calls. Raises ProviderRefused or CredentialsRefused saying what is wrong and what helps, ProviderBusy,
        ProviderUnreachable."""
        ...


@runtime_checkable
class AssetSource(Protocol):
    """A provider whose files have addresses that expire."""

    async def asset_url(self, ref: DocumentRef, asset: str) -> str:
        """An address of the asset that works now: whole, http(s), and with none of the source's credentials, for readers are
        led to it. `asset` is what stood behind ASSET_SCHEME. Raises ItemGone."""
        ...


# --- providers that are read by a crawl ---------------------------------------------------------------------------


@dataclass(frozen=True)
class FoundUrl:
    """One URL as the ledger knows it: `url` is its identity (canonical), `fetch_url` the spelling found on the page."""

    url: str
    fetch_url: str


@dataclass(frozen=True)
class CrawlPlan:
    """Where a crawl begins. `blocked` ends it before it starts (robots forbid everything ...), in an editor's words.
    `incomplete_reasons` say why the crawl can't prove its listing complete whatever it finds (robots unread, a sitemap
    too large ...); `notes` are worth showing and prove nothing. `crawl_delay_s` is what robots.txt asks for."""

    seeds: tuple[FoundUrl, ...]
    blocked: str | None = None
    incomplete_reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    crawl_delay_s: float | None = None


@dataclass(frozen=True)
class CrawledPage:
    """A page that was fetched. `content` is None when the page is not to be stored (noindex, or it names another page as
    its canonical one: `canonical`); its links are followed all the same unless it says nofollow (then `links` is empty).
    `links` are in scope, deduped by identity, in the page's order."""

    content: Content | None
    links: tuple[FoundUrl, ...]
    final: FoundUrl
    canonical: FoundUrl | None = None
    detail: str | None = None


@dataclass(frozen=True)
class PageUnchanged:
    """304 for the etag or last_modified that was sent."""


@dataclass(frozen=True)
class PageGone:
    """404 or 410."""

    status: int


@dataclass(frozen=True)
class PageRefused:
    """Permanently not to be stored: another 4xx, not text, out of scope after a redirect, robots, address not allowed."""

    detail: str


PageResult = CrawledPage | PageUnchanged | PageGone | PageRefused


class CrawlingProvider(Provider, Protocol):
    """`crawl_page` raises ProviderBusy (429, 503) and ProviderUnreachable (retryable) and nothing else of the wire."""

    @property
    def max_depth(self) -> int: ...

    @property
    def max_urls(self) -> int: ...

    @property
    def max_urls_per_pattern(self) -> int:
        """The bound on URLs of one `url_scope.pattern_of` (D09); the ledger lowers it where `max_urls` is small."""
        ...

    async def crawl_plan(self) -> CrawlPlan: ...

    async def crawl_page(
        self, found: FoundUrl, *, etag: str | None = None, last_modified: str | None = None
    ) -> PageResult: ...
