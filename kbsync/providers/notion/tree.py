"""A page's blocks as a tree, read level by level within bounds (C04).

What is too deep or too much is told by an error, never by a shorter tree. What Notion itself does not give (a block type
that its API does not support, an original that is not shared) is left out and counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kbsync.domain.errors import ItemGone, ItemUnreadable, ProviderRefused, ProviderUnreachable
from kbsync.providers.fields import text_in
from kbsync.providers.notion.gateway import NotionGateway
from kbsync.providers.notion.payloads import id_in, mapping_in

MAX_DEPTH = 30
# Pages and databases within a page are documents and sections of their own; `unsupported` refuses to show its children.
LEAVES = frozenset({"child_page", "child_database", "unsupported"})
# What can hold no page of its own page, or shows another page's blocks.
NO_PAGES_IN = frozenset({"table", "synced_copy", "meeting_notes", "transcription"})
_MEETING_PARTS = ("summary_block_id", "notes_block_id")


class TooMuch(ItemUnreadable):
    """Reading it whole would cost more requests, or go deeper, than one page may."""


@dataclass
class Budget:
    """How many requests may still be sent."""

    left: int


@dataclass(frozen=True)
class Block:
    """`data` is what stands under the type's name; missing, it is empty."""

    id: str
    kind: str
    data: Mapping[str, Any]
    children: tuple[Block, ...] = ()

    def and_below(self) -> Iterator[Block]:
        yield self
        for child in self.children:
            yield from child.and_below()


@dataclass
class TreeReader:
    """`unread` counts, by type, the blocks that Notion did not give."""

    gateway: NotionGateway
    budget: Budget
    skips: frozenset[str] = frozenset()
    unread: Counter[str] = field(default_factory=Counter)

    async def read(self, page: str) -> tuple[Block, ...]:
        """Raises ItemGone, ItemUnreadable (TooMuch), ProviderRefused, ProviderBusy, ProviderUnreachable."""
        return await self._below(page, frozenset())

    async def _below(self, parent: str, above: frozenset[str]) -> tuple[Block, ...]:
        if len(above) >= MAX_DEPTH:
            raise TooMuch(f"It nests deeper than {MAX_DEPTH} levels, so it was not read whole: what was stored is kept")
        above = above | {parent}
        entries = await self._level(parent)
        return tuple([block for entry in entries if (block := await self._block(entry, above)) is not None])

    async def _level(self, parent: str) -> list[Mapping[str, Any]]:
        """A level's blocks, each once."""
        found: dict[str, Mapping[str, Any]] = {}
        self._afford(1)
        async for page in self.gateway.children(parent):
            self.budget.left -= 1
            self._afford(0)
            if page.doubt:
                raise ProviderUnreachable(page.doubt)
            for number, entry in enumerate(page.entries):
                if isinstance(entry, Mapping):
                    found.setdefault(id_in(entry) or f"{len(found)}-{number}", entry)
                else:
                    self.unread["(no block)"] += 1
        return list(found.values())

    def _afford(self, requests: int) -> None:
        if self.budget.left < requests:
            raise TooMuch("It takes more requests than one page may, so it was not read whole: what was stored is kept")

    async def _block(self, entry: Mapping[str, Any], above: frozenset[str]) -> Block | None:
        kind = text_in(entry, "type") or "(no type)"
        identifier = id_in(entry) or ""
        data = mapping_in(entry, kind)
        if entry.get("in_trash") is True or entry.get("archived") is True:
            return None
        original = id_in(mapping_in(data, "synced_from"), "block_id") if kind == "synced_block" else None
        children: tuple[Block, ...] = ()
        if original is not None:
            if "synced_copy" not in self.skips:
                copied = await self._copy(original, identifier, entry, above)
                children, data = copied or (), {**data, "is_hidden": copied is None}
        elif kind in self.skips or kind == "unsupported":
            self.unread[kind] += kind == "unsupported"
        elif parts := [part for name in _MEETING_PARTS if (part := id_in(mapping_in(data, "children"), name))]:
            for part in parts:
                children += await self._tolerant(part, above, kind) or ()
        elif entry.get("has_children") is True and kind not in LEAVES and identifier:
            children = await self._tolerant(identifier, above, kind) or ()
        return Block(identifier, kind, data, children)

    async def _copy(
        self, original: str, own: str, entry: Mapping[str, Any], above: frozenset[str]
    ) -> tuple[Block, ...] | None:
        """A synced block's text stands under its original, which may not be shared with the connection: then None."""
        for source in (original, own if entry.get("has_children") is True else ""):
            if source and (found := await self._tolerant(source, above, None)) is not None:
                return found
        self.unread["synced_block"] += 1
        return None

    async def _tolerant(self, parent: str, above: frozenset[str], kind: str | None) -> tuple[Block, ...] | None:
        """None when Notion does not give them: then the block is left out and the page stays. `kind` counts it."""
        if parent in above:
            # A copy within its own original shows itself without end.
            return ()
        try:
            return await self._below(parent, above)
        except TooMuch:
            raise
        except ItemUnreadable:
            if kind is not None:
                raise
        except ItemGone:
            pass
        except ProviderRefused as error:
            if error.status != 400:
                raise
        if kind is not None:
            self.unread[kind] += 1
        return None
