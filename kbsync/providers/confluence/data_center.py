"""Data Center's wire: REST v1, lists by offset (LS-07)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from urllib.parse import quote

from kbsync.providers.confluence.both import BothApis
from kbsync.providers.confluence.payloads import (
    Entry,
    Readers,
    Space,
    address_of,
    entry_of,
    links_begin_at,
    mappings,
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

SIZE = 200
MAX_PEOPLE = 20  # of one page; they are asked for one by one
_LISTED = "version,ancestors,restrictions.read.restrictions.user,restrictions.read.restrictions.group"


class DataCenterGateway(BothApis):
    lists_by_offset = True
    lists_readers = True

    async def spaces(self, keys: Sequence[str], *, archived: bool, light: bool = False) -> AsyncIterator[ListPage]:
        """`keys` are chosen from the whole list by the caller: not every version takes several."""
        wanted: dict[str, str | int] = {"status": "archived" if archived else "current"}
        async for page in self._pages("rest/api/space", wanted if light else {**wanted, "expand": "homepage"}):
            yield page

    def entries(self, space: Space, kind: str, *, light: bool = False) -> AsyncIterator[ListPage]:
        wanted: dict[str, str | int] = {"spaceKey": space.key, "type": kind, "status": "current"}
        return self._pages("rest/api/content", wanted if light else {**wanted, "expand": _LISTED})

    async def readers(self, space: Space, kind: str) -> dict[str, Readers] | None:
        return None  # the list of pages has them

    async def place(self, kind: str, identifier: str) -> Entry | None:
        path = f"rest/api/content/{quote(identifier, safe='')}"
        value = await if_allowed(self._wire.get(path, {"expand": "ancestors"}))
        return entry_of(value, kind, self._wire.site) if isinstance(value, Mapping) else None

    async def body(self, kind: str, identifier: str) -> Body:
        """Raises ItemGone (also for what is not current any more), ItemUnreadable and the rest."""
        path = f"rest/api/content/{quote(identifier, safe='')}"
        value = await self.current_page(path, {"expand": "body.storage,space"})
        storage, view = within(value, "body", "storage", "value"), None
        if not isinstance(storage, str):
            storage = None
            view = within(await self._wire.get(path, {"expand": "body.view"}), "body", "view", "value")
        url = address_of(value, self._wire.site)
        key = text_in(value.get("space"), "key")
        return Body(text_in(value, "title"), url, key, storage, view if isinstance(view, str) else None)

    async def names(self, people: Sequence[tuple[str, str]]) -> dict[str, str]:
        found: dict[str, str] = {}
        for key in [identifier for kind, identifier in people if kind == "userkey"][:MAX_PEOPLE]:
            name = text_in(await if_allowed(self._wire.get("rest/api/user", {"key": key})), "displayName")
            if name:
                found[key] = name
        return found

    async def file_address(self, kind: str, identifier: str, is_it: Callable[[str], bool]) -> str | None:
        """The site's own address of a file of the page; reading it takes the credentials."""
        path = f"rest/api/content/{quote(identifier, safe='')}/child/attachment"
        async for page in self._pages(path, {}):
            for one in mappings(page.entries):
                link = within(one, "_links", "download")
                if is_it(text_in(one, "title") or "") and isinstance(link, str) and link.startswith("/"):
                    return page.base.rstrip("/") + link
            if page.loops:
                break
        return None

    async def _pages(self, path: str, parameters: Mapping[str, str | int]) -> AsyncIterator[ListPage]:
        """To the server's own end, which is a page without a next link, however few it sends at once (C02). The next offset
        is the smaller of the link's and what was received: links were seen to skip, and to repeat."""
        size, start, empty = SIZE, 0, 0
        for number in range(1, MAX_PAGES + 1):
            value, _, size = await self._wire.page(path, {**parameters, "start": start}, size)
            entries = results_in(value)
            empty = 0 if entries else empty + 1
            link = within(value, "_links", "next")
            following = _next_start(link, start, len(entries)) if link else None
            loops = following is not None and (following <= start or empty >= MAX_EMPTY_PAGES or number == MAX_PAGES)
            yield ListPage(entries, links_begin_at(value, self._wire.site), loops)
            if following is None or loops:
                return
            start = following


def _next_start(link: object, start: int, received: int) -> int:
    said = value_in(link, "start")
    stated = int(said) if said and said.isascii() and said.isdecimal() and len(said) < 12 else None
    counted = start + received
    if stated is None:
        return counted
    return min(stated, counted) if received else stated
