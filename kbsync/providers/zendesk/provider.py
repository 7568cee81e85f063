"""The help centers of a Zendesk account. Keeps `contract.Provider` and `Checkable`.

    brands -> per brand: categories, sections, then articles in their source locale -> per further locale: its articles

The source locale's list is the listing: when a page of it fails, the run fails. A further locale's list that fails keeps
what is known of that locale and lets nothing be removed in this run (LS-09).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kbsync.domain.errors import (
    CredentialsRefused,
    ItemGone,
    ItemUnreadable,
    ProviderRefused,
    ProviderUnreachable,
)
from kbsync.http.client import SafeClient
from kbsync.providers.contract import (
    Access,
    Audience,
    Content,
    DocumentRef,
    ListedDocument,
    ListingEnd,
    ListingPart,
    SourceSetup,
    Unchanged,
    UnreadableItem,
)
from kbsync.providers.fields import text_in
from kbsync.providers.zendesk.articles import (
    Brand,
    Segments,
    Tree,
    document_of,
    segment_audience,
)
from kbsync.providers.zendesk.config import authorization_of, zendesk_config
from kbsync.providers.zendesk.gateway import BrandGateway, ListPage

AGENTS = frozenset({"agent", "admin"})
ENDLESS = "Zendesk's list of {} does not come to an end."


@dataclass
class _Listing:
    """What a run has told, and what keeps it from proving anything. `met`: articles in a locale that is wanted;
    `fallbacks`: those that were met in another one only, so far."""

    told: set[str] = field(default_factory=set)
    doubts: list[str] = field(default_factory=list)
    met: set[str] = field(default_factory=set)
    fallbacks: dict[str, ListingPart] = field(default_factory=dict)


class ZendeskProvider:
    name = "zendesk"
    listing_brings_content = True
    crawls = False

    def __init__(self, setup: SourceSetup, client: SafeClient) -> None:
        """Opens nothing. Raises ProviderRefused, CredentialsRefused."""
        self._config = zendesk_config(setup.config)
        self._authorization = authorization_of(setup.credentials)
        self._client = client
        self._gateways: dict[str, BrandGateway] = {}
        self._wanted = {locale.lower() for locale in self._config.locales}

    async def check(self) -> Access:
        account = self._gateway(self._config.subdomain)
        me = await account.me()
        if me.get("id") is None:
            raise CredentialsRefused("Zendesk knows nobody by these credentials: check e-mail address and token.")
        role = str(me.get("role") or "unknown role")
        brands, doubt = await self._brands(account)
        notes = [doubt] if doubt else []
        if role not in AGENTS:
            notes.append("Only what this user may see is listed; an agent sees more.")
        return Access(f"{me.get('name') or 'somebody'} ({role})", tuple(one.name for one in brands), tuple(notes))

    async def list_items(self) -> AsyncIterator[ListingPart]:
        account = self._gateway(self._config.subdomain)
        is_agent = (await account.me()).get("role") in AGENTS
        brands, doubt = await self._brands(account)
        listing = _Listing(doubts=[doubt] if doubt else [])
        segments = await self._segments(account)
        for brand in brands:
            try:
                async for part in self._brand(brand, segments, listing, is_agent=is_agent):
                    yield part
            except ProviderRefused as error:
                if isinstance(error, CredentialsRefused) or len(brands) == 1:
                    raise
                listing.doubts.append(f"{brand.name}: {error}")
        yield ListingEnd(not listing.doubts, " ".join(listing.doubts[:3]) or None)

    async def _brand(
        self, brand: Brand, segments: Segments, listing: _Listing, *, is_agent: bool
    ) -> AsyncIterator[ListingPart]:
        gateway = self._gateway(brand.subdomain)
        default, locales = await gateway.locales()
        # Only agents may list without a locale; without one each article comes once, in its source locale.
        first = None if is_agent else default
        tree = Tree(brand)
        for pages, place in ((gateway.categories(first), tree.category), (gateway.sections(first), tree.section)):
            async for page in pages:
                for entry in page.entries:
                    section = place(entry) if isinstance(entry, Mapping) else None
                    if section is not None:
                        yield section
                _note_loop(page, listing, "sections")
        async for page in gateway.articles(first):
            for part in self._parts(page, first, tree, segments, listing):
                yield part
            _note_loop(page, listing, "articles")
        for locale in locales:
            if locale == first or (self._wanted and locale not in self._wanted):
                continue
            try:
                async for page in gateway.articles(locale):
                    for part in self._parts(page, locale, tree, segments, listing):
                        yield part
                    _note_loop(page, listing, f"articles in {locale}")
            except (ProviderUnreachable, ProviderRefused) as error:
                if isinstance(error, CredentialsRefused):
                    raise
                listing.doubts.append(f"The articles in {locale} could not be read: {error}.")
        for part in listing.fallbacks.values():
            yield part
        listing.fallbacks.clear()

    def _parts(
        self, page: ListPage, locale: str | None, tree: Tree, segments: Segments, listing: _Listing
    ) -> list[ListingPart]:
        parts: list[ListingPart] = []
        for article in page.entries:
            if not isinstance(article, Mapping) or article.get("id") is None:
                listing.doubts.append("Zendesk listed an article without an id.")
                continue
            shown_in = (text_in(article, "locale") or locale or "en-us").lower()
            identifier = str(article["id"])
            document = document_of(article, shown_in, tree, segments)
            if document is None or document.external_id in listing.told:
                continue
            if self._wanted and shown_in not in self._wanted:
                if identifier not in listing.met:
                    listing.fallbacks.setdefault(identifier, document)
                continue
            listing.fallbacks.pop(identifier, None)
            listing.met.add(identifier)
            listing.told.add(document.external_id)
            parts.append(document)
        return parts

    async def _brands(self, account: BrandGateway) -> tuple[list[Brand], str | None]:
        """The brands to read, and why they may not be all. Who may not list brands reads the one that is addressed."""
        own = Brand(self._config.subdomain, self._config.subdomain)
        wanted = set(self._config.brands)
        found: list[Brand] = []
        doubt: str | None = None
        try:
            async for page in account.brands():
                found += [brand for entry in page.entries if (brand := _brand_of(entry)) is not None]
                if page.loops:
                    doubt = ENDLESS.format("brands")
        except CredentialsRefused:
            raise
        except ProviderRefused:
            missing = wanted - {own.subdomain}
            return [own], f"Brands can't be listed by this user: {', '.join(sorted(missing))}" if missing else None
        chosen = [brand for brand in found if not wanted or brand.subdomain in wanted]
        if wanted - {brand.subdomain for brand in chosen}:
            doubt = f"No help center at {', '.join(sorted(wanted - {brand.subdomain for brand in chosen}))}."
        if not chosen:
            raise ProviderRefused("None of the account's brands has a help center that is on.")
        return chosen, doubt

    async def _segments(self, account: BrandGateway) -> Segments:
        audiences: dict[str, Audience] = {}
        try:
            async for page in account.segments():
                for entry in page.entries:
                    if isinstance(entry, Mapping) and (found := segment_audience(entry)) is not None:
                        audiences[found[0]] = found[1]
        except CredentialsRefused:
            raise
        except ProviderRefused:
            return Segments(None)
        return Segments(audiences)

    async def fetch_document(self, ref: DocumentRef) -> Content | Unchanged:
        """One article, wherever it is: its brand is the one that has it."""
        identifier, _, locale = ref.external_id.partition(":")
        account = self._gateway(self._config.subdomain)
        brands, _ = await self._brands(account)
        segments = await self._segments(account)
        for brand in brands:
            try:
                article = await self._gateway(brand.subdomain).article(identifier, locale)
            except ItemGone:
                continue
            if not isinstance(article, Mapping) or article.get("id") is None:
                raise ItemUnreadable("Zendesk sent something that is no article")
            found = document_of(article, locale, Tree(brand), segments)
            match found:
                case ListedDocument(content=Content() as content):
                    return content
                case UnreadableItem(reason=reason):
                    raise ItemUnreadable(reason)
                case _:
                    raise ItemGone("The article is a draft")
        raise ItemGone("Zendesk has no such article")

    async def close(self) -> None:
        return None

    def _gateway(self, subdomain: str) -> BrandGateway:
        if subdomain not in self._gateways:
            self._gateways[subdomain] = BrandGateway(
                self._client,
                self._config.url_of(subdomain),
                self._authorization,
                self._config.requests_per_minute / 60,
            )
        return self._gateways[subdomain]


def _brand_of(entry: Any) -> Brand | None:
    """A brand whose help center is on; None for the others."""
    subdomain = text_in(entry, "subdomain")
    if (
        subdomain is None
        or not entry.get("active", True)
        or entry.get("is_deleted")
        or not entry.get("has_help_center")
    ):
        return None
    state = entry.get("help_center_state")
    if state == "disabled":
        return None
    return Brand(subdomain, text_in(entry, "name") or subdomain, is_restricted=state == "restricted")


def _note_loop(page: ListPage, listing: _Listing, what: str) -> None:
    if page.loops:
        listing.doubts.append(ENDLESS.format(what))
