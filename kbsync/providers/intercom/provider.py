"""The articles of an Intercom workspace. Keeps `contract.Provider`, `Checkable` and `AssetSource`.

The list is alive: an article that is edited while pages are read moves to the front and pushes another one over a page's
edge. A pass counts only if it met as many different articles as Intercom says there are; one that did not is followed by a
second one, and after two doubtful passes the listing proves nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kbsync.domain.errors import ItemGone, ItemUnreadable
from kbsync.http.client import SafeClient
from kbsync.providers.assets import addresses_by_name
from kbsync.providers.contract import (
    Access,
    Content,
    DocumentRef,
    ListedDocument,
    ListedSection,
    ListingEnd,
    ListingPart,
    SourceSetup,
    Unchanged,
)
from kbsync.providers.fields import text_in
from kbsync.providers.intercom.articles import Collections, documents_of, expires, raw_markdown
from kbsync.providers.intercom.config import intercom_config, token_in
from kbsync.providers.intercom.gateway import IntercomGateway

PASSES = 2


@dataclass
class _Pass:
    """What one pass over the list met. `with_translations` has both answers when some articles came without them: then
    nobody knows whether the translations are gone or were only not sent."""

    seen: set[str] = field(default_factory=set)
    totals: set[int | None] = field(default_factory=set)
    with_translations: set[bool] = field(default_factory=set)
    fault: str | None = None

    def note(self, identifier: str, article: Mapping[str, Any]) -> None:
        self.seen.add(identifier)
        if article.get("parent_ids") or article.get("parent_id"):
            self.with_translations.add(isinstance(article.get("translated_content"), Mapping))

    def is_proof(self, before: set[str] | None) -> bool:
        """As many as counted; where nothing is counted, the same as in the pass before."""
        counted = self.totals == {len(self.seen)} or (self.totals == {None} and self.seen == before)
        return counted and len(self.with_translations) < 2


class IntercomProvider:
    name = "intercom"
    listing_brings_content = True
    crawls = False

    def __init__(self, setup: SourceSetup, client: SafeClient) -> None:
        """Opens nothing. Raises ProviderRefused, CredentialsRefused."""
        self._config = intercom_config(setup.config)
        self._gateway = IntercomGateway(client, self._config, token_in(setup.credentials))

    async def check(self) -> Access:
        name, region = await self._gateway.me()
        centers = await self._gateway.help_centers()
        sees = tuple(text_in(one, "display_name") or text_in(one, "identifier") or "a help center" for one in centers)
        notes = () if centers else ("The workspace has no help center that this token can see.",)
        return Access(f"{name} ({region})" if region else name, sees, notes)

    async def list_items(self) -> AsyncIterator[ListingPart]:
        parents: dict[str, str | None] = {}
        centers: dict[str, str | None] = {}
        async for section in self._sections(parents, centers):
            if section is None:
                yield ListingEnd(False, "Intercom's list of collections does not come to an end.")
                return
            yield section
        collections = Collections(parents, centers)
        told: set[str] = set()
        before: set[str] | None = None
        for _ in range(PASSES):
            one = _Pass()
            async for document in self._pass(one, collections, told):
                yield document
            if one.fault is not None:
                yield ListingEnd(False, one.fault)
                return
            if one.is_proof(before):
                yield ListingEnd(True)
                return
            before = one.seen
        yield ListingEnd(
            False, f"Intercom's list of articles changed while it was read: {len(before or ())} were seen."
        )

    async def _pass(self, one: _Pass, collections: Collections, told: set[str]) -> AsyncIterator[ListingPart]:
        """All pages once; what was told in a pass before is not told again."""
        async for page in self._gateway.articles():
            one.totals.add(page.total)
            for article in page.entries:
                identifier = str(article.get("id") or "") if isinstance(article, Mapping) else ""
                if not identifier:
                    one.fault = "Intercom listed an article without an id."
                    return
                one.note(identifier, article)
                for document in documents_of(article, self._config, collections):
                    if document.external_id not in told:
                        told.add(document.external_id)
                        yield document
            if page.loops:
                one.fault = "Intercom's list of articles does not come to an end."
                return

    async def _sections(
        self, parents: dict[str, str | None], centers: dict[str, str | None]
    ) -> AsyncIterator[ListedSection | None]:
        """Collections are sections. None: the list loops."""
        async for page in self._gateway.collections():
            for entry in page.entries:
                identifier = str(entry.get("id") or "") if isinstance(entry, Mapping) else ""
                if not identifier or identifier in parents:
                    continue
                parent, center = entry.get("parent_id"), entry.get("help_center_id")
                parents[identifier] = str(parent) if parent is not None else None
                centers[identifier] = str(center) if center is not None else None
                order = entry.get("order")
                yield ListedSection(
                    identifier,
                    text_in(entry, "name") or identifier,
                    parents[identifier],
                    order if isinstance(order, int) else len(parents) - 1,
                )
            if page.loops:
                yield None
                return

    async def fetch_document(self, ref: DocumentRef) -> Content | Unchanged:
        identifier, _, locale = ref.external_id.partition(":")
        article = await self._article(identifier)
        for document in documents_of(article, self._whatever_is_wanted(), Collections({}, {})):
            if isinstance(document, ListedDocument) and document.external_id == ref.external_id and document.content:
                return document.content
        raise ItemGone(f"Intercom has no published article for it{' in ' + locale if locale else ''}")

    async def asset_url(self, ref: DocumentRef, asset: str) -> str:
        identifier, _, locale = ref.external_id.partition(":")
        article = await self._article(identifier)
        translated = article.get("translated_content")
        shown = translated.get(locale) if locale and isinstance(translated, Mapping) else article
        found = addresses_by_name(raw_markdown(text_in(shown, "body") or ""), expires).get(asset)
        if found is None:
            raise ItemGone("Intercom has no such file any more")
        return found

    async def close(self) -> None:
        return None

    async def _article(self, identifier: str) -> Mapping[str, Any]:
        article = await self._gateway.article(identifier)
        if not isinstance(article, Mapping) or not article.get("id"):
            raise ItemUnreadable("Intercom sent something that is no article")
        return article

    def _whatever_is_wanted(self) -> Any:
        """What is fetched by its id was wanted when it was listed."""
        return self._config.model_copy(update={"locales": (), "help_center_ids": (), "include_loose_articles": True})
