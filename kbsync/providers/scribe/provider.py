"""A Scribe account as a source. Keeps `contract.Provider`, `Checkable` and `AssetSource`.

    key ---> listing by type (offsets, newest first) ---> documents one by one, as they changed
    session token alone ---> nothing is read, and the source says so

A list by offsets shifts while documents come and go: it is complete only when as many different documents were seen as
Scribe counts, on every page the same.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from kbsync.domain.errors import ItemGone, ItemUnreadable
from kbsync.http.client import SafeClient
from kbsync.providers.contract import (
    Access,
    Audience,
    AudienceKind,
    Content,
    DocumentRef,
    ListedDocument,
    ListedSection,
    ListingEnd,
    ListingPart,
    SourceSetup,
    Unchanged,
    UnreadableItem,
)
from kbsync.providers.fields import moment, text_in
from kbsync.providers.scribe.config import api_key_in, scribe_config
from kbsync.providers.scribe.gateway import MAX_PAGES, ScribeGateway
from kbsync.providers.scribe.render import assets_of, render

NOTHING_TO_READ_WITH = "There is only a session token: Scribe's public API takes an API key, so nothing is read."
# Whether a document is shared beyond its team is nothing that the API tells.
_TEAM = Audience(AudienceKind.MEMBERS)


class ScribeProvider:
    name = "scribe"
    listing_brings_content = False
    crawls = False

    def __init__(self, setup: SourceSetup, client: SafeClient) -> None:
        """Opens nothing. Raises ProviderRefused, CredentialsRefused."""
        self._config = scribe_config(setup.config)
        key = api_key_in(setup.credentials)
        self._gateway = ScribeGateway(client, self._config, key) if key else None

    async def check(self) -> Access:
        if self._gateway is None:
            return Access("a session token", notes=(NOTHING_TO_READ_WITH,))
        teams = await self._gateway.teams()
        return Access("an API key", sees=tuple(teams), notes=() if teams else ("The key opens no team.",))

    async def list_items(self) -> AsyncIterator[ListingPart]:
        if self._gateway is None:
            yield ListingEnd(False, NOTHING_TO_READ_WITH)
            return
        sections: set[str] = set()
        doubts: list[str] = []
        for kind in self._config.types:
            async for part in self._listed(self._gateway, kind, sections, doubts):
                yield part
        yield ListingEnd(not doubts, " ".join(doubts) or None)

    async def _listed(
        self, gateway: ScribeGateway, kind: str, sections: set[str], doubts: list[str]
    ) -> AsyncIterator[ListingPart]:
        seen: set[str] = set()
        offsets = {0}
        counts: set[int | None] = set()
        async for page in gateway.pages(kind):
            counts.add(page.count)
            for entry in page.results:
                identifier = text_in(entry, "id")
                if identifier is None:
                    doubts.append(f"Scribe listed a {kind} without an id.")
                elif identifier not in seen:
                    seen.add(identifier)
                    for part in _parts(entry, identifier, sections):
                        yield part
            if page.next_offset in offsets or len(offsets) >= MAX_PAGES:
                doubts.append(f"Scribe's list of {kind}s does not come to an end.")
                return
            if page.next_offset is not None:
                offsets.add(page.next_offset)
        if counts != {len(seen)}:
            doubts.append(f"Scribe's list of {kind}s changed while it was read: {len(seen)} were seen.")

    async def fetch_document(self, ref: DocumentRef) -> Content | Unchanged:
        document = await self._document(ref)
        title = text_in(document, "name") or ref.external_id
        return Content(render(document).markdown, title, audience=_TEAM)

    async def asset_url(self, ref: DocumentRef, asset: str) -> str:
        found = assets_of(await self._document(ref)).get(asset)
        if found is None:
            raise ItemGone("Scribe has no such picture any more")
        return found

    async def close(self) -> None:
        return None

    async def _document(self, ref: DocumentRef) -> Mapping[str, Any]:
        if self._gateway is None:
            raise ItemUnreadable(NOTHING_TO_READ_WITH)
        document = await self._gateway.document(ref.external_id)
        if not isinstance(document, Mapping) or not document.get("id"):
            raise ItemUnreadable("Scribe sent something that is no document")
        return document


def _parts(entry: Mapping[str, Any], identifier: str, sections: set[str]) -> list[ListingPart]:
    parts: list[ListingPart] = []
    team = entry.get("team")
    section = text_in(team, "id")
    if section is not None and section not in sections:
        sections.add(section)
        parts.append(ListedSection(section, text_in(team, "name") or section, position=len(sections) - 1))
    title, link = text_in(entry, "name") or identifier, text_in(entry, "link")
    if entry.get("type") not in ("scribe", "page"):
        return [*parts, UnreadableItem(identifier, title, f"Scribe calls it {entry.get('type')!r}: not known", link)]
    changed = text_in(entry, "updated_at")
    sections_of = (section,) if section else ()
    return [*parts, ListedDocument(identifier, title, link, sections_of, moment(changed), changed, audience=_TEAM)]
