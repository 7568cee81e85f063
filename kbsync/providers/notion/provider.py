"""What a Notion connection sees, as a source. Keeps `contract.Provider`, `Checkable` and `AssetSource`.

    token --> listing (search, rows, walk) --> documents one by one, as they changed
                                           \\-> what the listing misses: asked for by its id, and gone only if that says so

Notion's search is an index that lags and forgets, so that absence from a listing proves nothing, however whole the listing
is. A complete one (every list read to its own end, the configured roots walked, nothing capped) therefore only says whom
to ask for: the library has each missing document fetched, and `fetch_document` answers ItemGone for one that is trashed,
or that Notion does not know while it does know the token. A document that is there stays, listed or not. A sudden drop is
held back before anybody is asked for (LS-09).
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any

import structlog

from kbsync.domain.errors import ItemGone, ItemUnreadable, ProviderRefused, ProviderUnreachable
from kbsync.http.client import SafeClient
from kbsync.providers.contract import (
    Access,
    Content,
    DocumentRef,
    ListingPart,
    SourceSetup,
    Unchanged,
)
from kbsync.providers.fields import text_in
from kbsync.providers.notion.config import notion_config, token_in
from kbsync.providers.notion.gateway import NotionGateway
from kbsync.providers.notion.listing import Listing
from kbsync.providers.notion.payloads import (
    audience_of,
    id_in,
    is_partial,
    is_trashed,
    mapping_in,
    named,
    parent_of,
    title_of,
)
from kbsync.providers.notion.properties import cut_properties, file_addresses, render_properties, with_items
from kbsync.providers.notion.render import address_in, file_asset, is_hosted, render
from kbsync.providers.notion.rich_text import inline
from kbsync.providers.notion.tree import MAX_DEPTH, Block, Budget, TreeReader

ROOTS_CHECKED = 5
_OF_BLOCK = re.compile(r"^([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-[a-z]+$")


class NotionProvider:
    name = "notion"
    listing_brings_content = False
    crawls = False

    def __init__(self, setup: SourceSetup, client: SafeClient) -> None:
        """Opens nothing. Raises ProviderRefused, CredentialsRefused."""
        self._config = notion_config(setup.config)
        self._gateway = NotionGateway(client, self._config, token_in(setup.credentials))

    async def check(self) -> Access:
        me = await self._gateway.me()
        account = (
            text_in(mapping_in(me, "bot"), "workspace_name") or text_in(me, "name") or "a connection without a name"
        )
        async with aclosing(self._gateway.search()) as search:
            page = await anext(search)
        titles = [title_of(entry) for entry in page.entries if isinstance(entry, Mapping) and not is_trashed(entry)]
        notes = [] if titles else ["Nothing is shared with the connection: add it to pages under their Connections."]
        for root in self._config.root_page_ids[:ROOTS_CHECKED]:
            try:
                await self._read_page(root)
            except (ItemGone, ItemUnreadable) as error:
                notes.append(f"The root page {root} can't be read: {error}.")
        return Access(account, tuple(titles[:20]), tuple(notes))

    async def list_items(self) -> AsyncIterator[ListingPart]:
        async for part in Listing(self._gateway, self._config).parts():
            yield part

    async def fetch_document(self, ref: DocumentRef) -> Content | Unchanged:
        page = await self._read_page(ref.external_id)
        blocks = await self._blocks(ref.external_id, page)
        above = inline(page.get("description")) if page.get("object") == "database" else render_properties(page)
        markdown = "\n\n".join(filter(None, (above, render(blocks))))
        if not markdown and page.get("object") == "database":
            raise ItemGone("It is a database now, and its rows are documents of their own")
        return Content(markdown, named(page, ref.external_id), audience=audience_of(page))

    async def asset_url(self, ref: DocumentRef, asset: str) -> str:
        """Only what stands in the document is told: the token sees more than the document's readers may."""
        found: str | None
        if of_block := _OF_BLOCK.match(asset):
            found = await self._address_below(ref.external_id, of_block[1], asset)
        else:
            found = file_addresses(await self._read_page(ref.external_id)).get(asset)
        if found is None:
            raise ItemGone("Notion has no such file any more")
        return found

    async def close(self) -> None:
        return None

    async def _read_page(self, identifier: str) -> Mapping[str, Any]:
        """The page with all of its references, or the database that it became. Raises ItemGone, ItemUnreadable."""
        try:
            page = await self._gateway.page(identifier)
        except (ItemGone, ProviderRefused) as error:
            if isinstance(error, ProviderRefused) and error.status != 400:
                raise
            page = await self._read_database(identifier)
        if not isinstance(page, Mapping) or id_in(page) is None:
            raise ItemUnreadable("Notion sent something that is no page")
        if is_trashed(page):
            raise ItemGone("It is in Notion's trash")
        if is_partial(page):
            raise ItemUnreadable("Notion shows only its id: may the connection read content?")
        cut = cut_properties(page)
        if not cut:
            return page
        properties = dict(mapping_in(page, "properties"))
        for name, prop in cut:
            properties[name] = with_items(properties[name], await self._items(identifier, prop))
        return {**page, "properties": properties}

    async def _read_database(self, identifier: str) -> Any:
        try:
            return await self._gateway.database(identifier)
        except ItemGone:
            pass
        except ProviderRefused as error:
            if error.status != 400:
                raise
        # 404 is also the answer to what is not shared: believed while Notion knows the token.
        await self._gateway.me()
        raise ItemGone("Notion has no such page, or it is no longer shared with the connection")

    async def _items(self, page: str, prop: str) -> list[Any]:
        items: list[Any] = []
        try:
            async for listed in self._gateway.property_items(page, prop):
                if listed.doubt:
                    raise ProviderUnreachable(listed.doubt)
                items += listed.entries
        except (ItemGone, ProviderRefused) as error:
            if isinstance(error, ProviderRefused) and error.status != 400:
                raise
            raise ItemUnreadable(f"Notion shows only a part of a property: {error}") from error
        return items

    async def _blocks(self, identifier: str, page: Mapping[str, Any]) -> tuple[Block, ...]:
        reader = TreeReader(self._gateway, Budget(self._config.page_requests))
        is_database = page.get("object") == "database"
        try:
            blocks = await reader.read(identifier)
        except (ItemGone, ProviderRefused) as error:
            if isinstance(error, ProviderRefused) and error.status != 400:
                raise
            if is_database:
                return ()
            raise ItemUnreadable(f"Notion shows the page and not its blocks: {error}") from error
        if reader.unread:
            structlog.get_logger("kbsync").info("blocks_not_read", document=identifier, blocks=dict(reader.unread))
        return blocks

    async def _address_below(self, page: str, identifier: str, asset: str) -> str | None:
        """Of a block of the page: it is read alone where its parents lead up to the page. A synced copy's stands elsewhere,
        and then the page is read."""
        block = await self._gateway.block(identifier)
        if await self._stands_in(block, page):
            kind = text_in(block, "type") or ""
            data = mapping_in(block, kind)
            return address_in(data) if file_asset(Block(identifier, kind, data)) == asset else None
        blocks = await self._blocks(page, await self._read_page(page))
        for one in (found for top in blocks for found in top.and_below()):
            if file_asset(one) == asset and is_hosted(one.data):
                return address_in(one.data)
        return None

    async def _stands_in(self, block: Any, page: str) -> bool:
        for _ in range(MAX_DEPTH):
            parent = parent_of(block)
            if parent.page is not None or parent.block is None:
                return parent.page == page
            if parent.block == page:
                return True
            try:
                block = await self._gateway.block(parent.block)
            except (ItemGone, ItemUnreadable):
                break
        return False
