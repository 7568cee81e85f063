"""The spaces of a Confluence site. Keeps `contract.Provider`, `Checkable` and `AssetSource`.

    who am I ---> spaces ---> per space: pages (version, parent), its permissions, the pages' restrictions
    changed pages one by one ---> storage format ---> Markdown

Confluence answers a stranger with fewer things, not with an error: before anything is listed, and before a page counts as
gone, it has to say whose the credentials are.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from kbsync.domain.errors import CredentialsRefused, ItemGone, ItemUnreadable, ProviderRefused
from kbsync.http.client import SafeClient
from kbsync.providers.confluence.config import authorization_of, confluence_config
from kbsync.providers.confluence.gateway import gateway_of
from kbsync.providers.confluence.listing import Listing, unknown_note
from kbsync.providers.confluence.macros import PageContext, attachment_name
from kbsync.providers.confluence.payloads import kind_and_id, site_in, space_key_in
from kbsync.providers.confluence.render import files_of_view, mentioned, render, render_view
from kbsync.providers.confluence.wire import Body
from kbsync.providers.contract import (
    Access,
    Content,
    DocumentRef,
    ListingEnd,
    ListingPart,
    SourceSetup,
    Unchanged,
)
from kbsync.providers.fields import text_in

MAX_NAMED_SPACES = 50
NO_SPACE = "These credentials see no space to read. Check the user's permissions, the token's scopes and space_keys."


class ConfluenceProvider:
    name = "confluence"
    listing_brings_content = False
    crawls = False

    def __init__(self, setup: SourceSetup, client: SafeClient) -> None:
        """Opens nothing. Raises ProviderRefused, CredentialsRefused."""
        self._config = confluence_config(setup.config)
        self._gateway = gateway_of(client, self._config, authorization_of(self._config, setup.credentials))
        self._names: dict[str, str] = {}

    async def check(self) -> Access:
        account = await self._identify()
        listing = self._listing()
        spaces = await listing.spaces()
        notes = list(listing.doubts)
        if not spaces:
            notes.append(NO_SPACE)
        elif note := unknown_note(await listing.audience_of(spaces[0])):
            notes.append(note)
        if len(spaces) > MAX_NAMED_SPACES:
            notes.append(f"{len(spaces)} spaces in all.")
        return Access(account, tuple(one.name for one in spaces[:MAX_NAMED_SPACES]), tuple(notes))

    async def list_items(self) -> AsyncIterator[ListingPart]:
        await self._identify()
        listing = self._listing()
        spaces = await listing.spaces()
        if not spaces:
            raise ProviderRefused(NO_SPACE)
        for space in spaces:
            async for part in listing.space(space):
                yield part
        doubts = list(dict.fromkeys(listing.doubts))
        yield ListingEnd(not doubts, " ".join(doubts[:3]) or None)

    async def fetch_document(self, ref: DocumentRef) -> Content | Unchanged:
        body = await self._body(ref)
        title = body.title or ref.external_id
        url = body.url or ref.url or self._config.site + "/"
        if body.storage is not None:
            people = mentioned(body.storage)
            unknown = [one for one in people if one[1] not in self._names]
            if unknown:
                self._names.update(await self._gateway.names(unknown))
            page = PageContext(
                site_in(body.url) or self._config.site, body.space_key or space_key_in(ref.url), self._names
            )
            return Content(await asyncio.to_thread(render, body.storage, page, url=url), title)
        if body.view is not None:
            return Content(await asyncio.to_thread(render_view, body.view, url=url), title)
        raise ItemUnreadable("Confluence sent no text for it")

    async def asset_url(self, ref: DocumentRef, asset: str) -> str:
        kind, identifier = kind_and_id(ref.external_id)
        found = await self._gateway.file_address(kind, identifier, lambda title: attachment_name(title) == asset)
        if found is None:
            body = await self._body(ref)
            url = body.url or ref.url or self._config.site + "/"
            found = files_of_view(body.view, url=url).get(asset) if body.view is not None else None
        if found is None:
            raise ItemGone("Confluence has no such file any more")
        return found

    async def close(self) -> None:
        return None

    def _listing(self) -> Listing:
        return Listing(self._gateway, self._config, self._config.single_calls)

    async def _body(self, ref: DocumentRef) -> Body:
        try:
            return await self._gateway.body(*kind_and_id(ref.external_id))
        except ItemGone:
            # A stranger is told of every page that is not public that there is none.
            await self._identify()
            raise

    async def _identify(self) -> str:
        """Whose the credentials are. Raises CredentialsRefused where Confluence takes them for nobody's."""
        try:
            me = await self._gateway.me()
        except ProviderRefused as error:
            if not isinstance(error, CredentialsRefused) and error.status == 401:
                return "a token that may not say whose it is"  # it lacks a scope, so it is known
            raise
        name = text_in(me, "displayName") or text_in(me, "publicName") or text_in(me, "username")
        known = name or text_in(me, "accountId") or text_in(me, "userKey")
        if me.get("type") == "anonymous" or known is None:
            raise CredentialsRefused("Confluence knows nobody by these credentials: give the source new ones.")
        return known
