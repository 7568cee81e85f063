"""The cloud's wire: REST v2 for what is listed and read, v1 for permissions, restrictions and files (LS-07)."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from kbsync.domain.errors import ProviderUnreachable
from kbsync.providers.confluence.both import BothApis
from kbsync.providers.confluence.payloads import (
    BLOG_POST,
    Entry,
    Readers,
    Space,
    address_of,
    entry_of,
    identifier_in,
    links_begin_at,
    mappings,
    readers_in,
    space_key_in,
    value_in,
    within,
)
from kbsync.providers.confluence.wire import (
    MAX_EMPTY_PAGES,
    MAX_PAGES,
    Body,
    ListPage,
    if_allowed,
    results_in,
)
from kbsync.providers.fields import text_in

SIZE = 250
KEYS_AT_ONCE = 50
PEOPLE_AT_ONCE = 100
_RESTRICTIONS = "restrictions.read.restrictions.user,restrictions.read.restrictions.group"
_NEXT = re.compile(r"<([^<>]*)>\s*;[^,]*\brel=\"?next\"?")
_COLLECTIONS = {"page": "pages", BLOG_POST: "blogposts", "folder": "folders", "whiteboard": "whiteboards",
                "database": "databases", "embed": "embeds"}  # fmt: skip


class CloudGateway(BothApis):
    lists_by_offset = False
    lists_readers = False

    async def spaces(self, keys: Sequence[str], *, archived: bool, light: bool = False) -> AsyncIterator[ListPage]:
        wanted: dict[str, str] = {"status": "archived" if archived else "current"}
        for first in range(0, max(len(keys), 1), KEYS_AT_ONCE):
            some = ",".join(keys[first : first + KEYS_AT_ONCE])
            async for page in self._pages("api/v2/spaces", {**wanted, "keys": some} if some else wanted):
                yield page

    def entries(self, space: Space, kind: str, *, light: bool = False) -> AsyncIterator[ListPage]:
        """What is current; without the word archived pages would come as well. In the order of ids, which nothing that
        happens meanwhile can shift."""
        path = f"api/v2/spaces/{quote(space.id, safe='')}/{_COLLECTIONS[kind]}"
        return self._pages(path, {"status": "current", "sort": "id"})

    async def readers(self, space: Space, kind: str) -> dict[str, Readers] | None:
        """The own restrictions of a space's pages, as far as the search knows the pages; None where it may not be asked."""
        key = space.key.replace("\\", "\\\\").replace('"', '\\"')
        found: dict[str, Readers] = {}
        asked = {"cql": f'space="{key}" and type={kind}', "expand": _RESTRICTIONS}

        async def read() -> dict[str, Readers]:
            async for page in self._pages("rest/api/content/search", asked):
                for one in mappings(page.entries):
                    if (identifier := identifier_in(one)) is not None:
                        found[identifier] = readers_in(within(one, "restrictions", "read", "restrictions"))
                if page.loops:
                    break
            return found

        answer: dict[str, Readers] | None = await if_allowed(read())
        return answer

    async def place(self, kind: str, identifier: str) -> Entry | None:
        """What a page stands under, where no list tells of it; None where it can't be read."""
        collection = _COLLECTIONS.get(kind)
        if collection is None:
            return None
        value = await if_allowed(self._wire.get(f"api/v2/{collection}/{quote(identifier, safe='')}"))
        return entry_of(value, kind, self._wire.site) if isinstance(value, Mapping) else None

    async def body(self, kind: str, identifier: str) -> Body:
        """Raises ItemGone (also for what is not current any more), ItemUnreadable and the rest."""
        path = f"api/v2/{_COLLECTIONS[kind]}/{quote(identifier, safe='')}"
        value = await self.current_page(path, {"body-format": "storage"})
        storage, view = within(value, "body", "storage", "value"), None
        if not isinstance(storage, str):
            storage = None
            shown = await self._wire.get(path, {"body-format": "view"})
            view = within(shown, "body", "view", "value")
        url = address_of(value, self._wire.site)
        return Body(text_in(value, "title"), url, space_key_in(url), storage, view if isinstance(view, str) else None)

    async def names(self, people: Sequence[tuple[str, str]]) -> dict[str, str]:
        ids = [identifier for kind, identifier in people if kind == "account-id"][:PEOPLE_AT_ONCE]
        if not ids:
            return {}
        answer = await if_allowed(self._wire.api.post("api/v2/users-bulk", {"accountIds": ids}))
        found: dict[str, str] = {}
        for one in mappings(within(answer.value, "results") if answer is not None else None):
            account, name = text_in(one, "accountId"), text_in(one, "displayName") or text_in(one, "publicName")
            if account and name:
                found[account] = name
        return found

    async def file_address(self, kind: str, identifier: str, is_it: Callable[[str], bool]) -> str | None:
        """Where a file of the page can be had now: the signed address that the API sends to, else the site's own."""
        path = f"api/v2/{_COLLECTIONS[kind]}/{quote(identifier, safe='')}/attachments"
        async for page in self._pages(path, {"status": "current"}):
            for one in mappings(page.entries):
                attachment = identifier_in(one)
                if attachment is None or not is_it(text_in(one, "title") or ""):
                    continue
                content, file = quote(identifier, safe=""), quote(attachment, safe="")
                target = await self._wire.api.redirect(f"rest/api/content/{content}/child/attachment/{file}/download")
                link = text_in(one, "downloadLink") or within(one, "_links", "download")
                return target or (page.base + link if isinstance(link, str) and link.startswith("/") else None)
            if page.loops:
                break
        return None

    async def _pages(self, path: str, parameters: Mapping[str, str | int]) -> AsyncIterator[ListPage]:
        """By cursor, to the provider's own end. Of a next link only the cursor is used: its path leads astray below a
        gateway, and its host may be any."""
        size, cursor, empty = SIZE, None, 0
        read: set[str] = set()
        while True:
            asked = {**parameters, "cursor": cursor} if cursor else parameters
            value, headers, size = await self._wire.page(path, asked, size)
            entries = results_in(value)
            empty = 0 if entries else empty + 1
            cursor = _next_cursor(value, headers)
            loops = cursor is not None and (cursor in read or len(read) >= MAX_PAGES or empty >= MAX_EMPTY_PAGES)
            yield ListPage(entries, links_begin_at(value, self._wire.site), loops)
            if cursor is None or loops:
                return
            read.add(cursor)


def _next_cursor(value: Any, headers: Mapping[str, str]) -> str | None:
    """Raises ProviderUnreachable for more to come that can't be asked for: then nobody knows where the list ends."""
    link = within(value, "_links", "next")
    if not link:
        found = _NEXT.search(headers.get("link", ""))
        link = found[1] if found else None
    if not link:
        return None
    cursor = value_in(link, "cursor")
    if not cursor:
        raise ProviderUnreachable("Confluence says that more follows, and not where")
    return cursor
