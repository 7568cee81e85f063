"""One space, read whole before a part of it is told: who may read a page hangs on everything above it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from kbsync.providers.confluence.audience import MEMBERS, UNKNOWN, audience_of, space_audience
from kbsync.providers.confluence.config import ConfluenceConfig
from kbsync.providers.confluence.gateway import Gateway
from kbsync.providers.confluence.payloads import (
    BLOG_POST,
    PAGE,
    Entry,
    Readers,
    Space,
    entry_of,
    identifier_in,
    space_of,
)
from kbsync.providers.confluence.tree import Tree
from kbsync.providers.confluence.wire import ListPage
from kbsync.providers.contract import PUBLIC, Audience, AudienceKind, ListedDocument, ListingPart

MAX_REFUSED = 3  # single questions that are refused one after the other: further ones are not asked


@dataclass
class Listing:
    """One run. `doubts` are what keeps it from proving anything; `calls_left` bounds what is asked for one by one."""

    gateway: Gateway
    config: ConfluenceConfig
    calls_left: int
    doubts: list[str] = field(default_factory=list)

    async def spaces(self) -> list[Space]:
        """The spaces to read. A key that is asked for and found nowhere is a doubt: its pages are not known to be gone."""
        keys, config = self.config.space_keys, self.config
        found = await self._spaces(archived=False)
        missing = set(keys) - set(found)
        if config.include_archived_spaces or missing:
            archived = await self._spaces(archived=True)
            missing -= set(archived)
            if config.include_archived_spaces:
                found = {**archived, **found}
        if missing:
            self.doubts.append(f"These credentials see no space {', '.join(sorted(missing))}.")
        chosen = [one for one in found.values() if not keys or one.key in keys]
        return [one for one in chosen if not one.is_personal or config.include_personal_spaces or one.key in keys]

    async def _spaces(self, *, archived: bool) -> dict[str, Space]:
        found: dict[str, Space] = {}

        def take(entry: Any, base: str) -> None:
            space = space_of(entry)
            if space is None:
                self.doubts.append("Confluence listed a space without an id or a key.")
            else:
                found.setdefault(space.key, space)

        keys = self.config.space_keys
        await self._read(
            lambda light: self.gateway.spaces(keys, archived=archived, light=light), take, "its list of spaces"
        )
        return found

    async def space(self, space: Space) -> AsyncIterator[ListingPart]:
        entries: dict[str, Entry] = {}
        kinds = (PAGE, BLOG_POST) if self.config.include_blog_posts else (PAGE,)
        for kind in kinds:
            await self._entries(space, kind, entries)
        audience = await self.audience_of(space)
        own = await self._readers(space, kinds, entries) if audience.kind is not AudienceKind.UNKNOWN else {}
        tree = Tree(space, dict(entries), own, self.config.members_groups)
        await self._find_places(tree, own, with_readers=audience.kind is not AudienceKind.UNKNOWN)
        for section in tree.sections():
            yield section
        for entry in entries.values():
            yield ListedDocument(
                entry.external_id,
                entry.title,
                entry.url or f"{self.config.site}/pages/viewpage.action?pageId={quote(entry.id, safe='')}",
                (tree.section_of(entry),),
                entry.changed_at,
                entry.version,
                audience=audience_of(audience, tree.reach(entry.id)),
            )

    async def audience_of(self, space: Space) -> Audience:
        match self.config.space_audience:
            case "members":
                return MEMBERS
            case "public":
                return PUBLIC
        return space_audience(await self.gateway.permissions_of(space), self.config.members_groups)

    async def _entries(self, space: Space, kind: str, entries: dict[str, Entry]) -> None:
        def take(value: Any, base: str) -> None:
            entry = entry_of(value, kind, base)
            if entry is not None:
                entries.setdefault(entry.id, entry)
            elif identifier_in(value) is None:
                self.doubts.append(f"Confluence listed a {kind} without an id.")

        what = f"the list of {kind}s of {space.key}"
        await self._read(lambda light: self.gateway.entries(space, kind, light=light), take, what)

    async def _read(
        self, pages: Callable[[bool], AsyncIterator[ListPage]], take: Callable[[Any, str], None], what: str
    ) -> None:
        """Every entry of every page. A list by offset shifts when something before it comes or goes: one of several pages is
        read again, ids alone, and proves nothing unless both readings met the same."""
        met: list[set[str | None]] = []
        for light in (False, True):
            ids: set[str | None] = set()
            count = 0
            async for page in pages(light):
                count += 1
                ids.update(identifier_in(entry) for entry in page.entries)
                if not light:
                    for entry in page.entries:
                        take(entry, page.base)
                if page.loops:
                    self.doubts.append(f"Confluence's answers to {what} do not come to an end.")
                    return
            met.append(ids)
            if count <= 1 or not self.gateway.lists_by_offset:
                break
        if met[0] != met[-1]:
            self.doubts.append(f"Confluence changed {what} while it was read.")

    async def _readers(self, space: Space, kinds: tuple[str, ...], entries: dict[str, Entry]) -> dict[str, Readers]:
        """The own restriction of every page: from a list, and one by one what no list told. They are read in every run: a
        page that is restricted gets no new version, so that nothing else would show it."""
        own: dict[str, Readers] = {}
        if self.gateway.lists_readers:
            own = {entry.id: entry.readers for entry in entries.values()}
        else:
            for kind in kinds:
                own.update(await self.gateway.readers(space, kind) or {})
        refused = 0
        for identifier in entries:
            if own.get(identifier) is None and refused < MAX_REFUSED:
                own[identifier] = await self._readers_of(identifier)
                refused = refused + 1 if own[identifier] is None else 0
        return own

    async def _find_places(self, tree: Tree, own: dict[str, Readers], *, with_readers: bool) -> None:
        """Folders, boards and pages that no list told, because other pages stand under them."""
        tried: set[str] = set()
        while wanted := {one: kind for one, kind in tree.unknown_parents().items() if one not in tried}:
            for identifier, kind in wanted.items():
                tried.add(identifier)
                if self.calls_left <= 0:
                    return
                self.calls_left -= 1
                place = await self.gateway.place(kind, identifier)
                if place is not None:
                    tree.places[identifier] = place
                    own[identifier] = await self._readers_of(identifier) if with_readers else None

    async def _readers_of(self, identifier: str) -> Readers:
        if self.calls_left <= 0:
            return None
        self.calls_left -= 1
        return await self.gateway.readers_of(identifier)


def unknown_note(audience: Audience) -> str | None:
    if audience != UNKNOWN:
        return None
    return (
        "These credentials can't see who may read the spaces, so that search finds none of their pages: let them read "
        "permissions, or say it yourself with space_audience."
    )
