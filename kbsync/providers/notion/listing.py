"""One listing of what a Notion connection sees: the search, every database's rows, and a walk for pages it did not show.

    search (all pages, newest edit first) --> rows of each database --> walk: roots' trees first, then found pages

Search misses pages: new ones for a while, imported and old ones until somebody touches them. So the blocks of configured
roots are walked, and, as far as `walk_requests` reach, those of found pages, what was edited last first, since a page is
edited when a page is put into it.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from kbsync.domain.errors import CredentialsRefused, ItemGone, ItemUnreadable, ProviderRefused
from kbsync.providers.contract import (
    ListedDocument,
    ListedSection,
    ListingEnd,
    ListingPart,
    UnreadableItem,
)
from kbsync.providers.fields import moment, text_in
from kbsync.providers.notion.config import NotionConfig
from kbsync.providers.notion.gateway import NeedsNewerVersion, NotionGateway
from kbsync.providers.notion.payloads import (
    Parent,
    address_of,
    audience_of,
    id_in,
    is_partial,
    is_trashed,
    mappings_in,
    named,
    parent_of,
    plain_text,
    title_of,
)
from kbsync.providers.notion.tree import NO_PAGES_IN, Budget, TooMuch, TreeReader

# Times are cut to the minute and arrive late: what was edited so shortly before is listed as changed once more.
OVERLAP = timedelta(minutes=3)


@dataclass(frozen=True)
class _Rows:
    """Rows to ask for. `must`: the search, a root or a row named them, so that a refusal is a gap; else they are those of
    a linked view."""

    identifier: str
    is_data_source: bool
    must: bool


@dataclass
class Listing:
    gateway: NotionGateway
    config: NotionConfig
    doubts: list[str] = field(default_factory=list)
    _told: set[str] = field(default_factory=set)
    # Section of a row, by what it names as its parent; databases that were opened, whether or not they could be read.
    _section_of: dict[str, str] = field(default_factory=dict)
    _opened: set[str] = field(default_factory=set)
    _sections: int = 0
    _rows: deque[_Rows] = field(default_factory=deque)
    _asked: set[str] = field(default_factory=set)
    _in_roots: deque[str] = field(default_factory=deque)
    _found: deque[str] = field(default_factory=deque)
    _walked: set[str] = field(default_factory=set)

    async def parts(self) -> AsyncIterator[ListingPart]:
        """Raises ProviderError when a page of the search or of rows fails in a way that may pass."""
        async for page in self.gateway.search():
            self._doubt(page.doubt)
            for entry in page.entries:
                for part in await self._of_search(entry):
                    yield part
        for root in self.config.root_page_ids:
            for part in await self._of_root(root):
                yield part
        budget = Budget(self.config.walk_requests)
        while self._rows or self._in_roots or self._found:
            while self._rows:
                async for part in self._of_rows(self._rows.popleft()):
                    yield part
            for part in await self._step(budget):
                yield part
        reason = " ".join(list(dict.fromkeys(self.doubts))[:3]) or None
        yield ListingEnd(not self.doubts, reason, ask_for_missing=True)

    def _doubt(self, why: str | None) -> None:
        if why:
            self.doubts.append(why)

    async def _of_search(self, entry: Any) -> list[ListingPart]:
        identifier = id_in(entry)
        if identifier is None:
            self._doubt("Notion listed something without an id.")
            return []
        match text_in(entry, "object"):
            case "page":
                return await self._page(entry, identifier)
            case "database":
                return [] if is_trashed(entry) else await self._open(identifier, must=True, known=entry)
            case "data_source":
                return [] if is_trashed(entry) else await self._source(entry, identifier)
        return []

    async def _page(self, page: Mapping[str, Any], identifier: str) -> list[ListingPart]:
        """A page or row that is not trashed, once, behind its database's section."""
        if identifier in self._told or is_trashed(page):
            return []
        self._told.add(identifier)
        if is_partial(page):
            return [
                UnreadableItem(identifier, identifier, "Notion shows only its id: may the connection read content?")
            ]
        self._found.append(identifier)
        parent = parent_of(page)
        parts: list[ListingPart] = []
        if parent.database is not None and parent.database not in self._opened:
            parts = await self._open(parent.database, must=False, has_rows=True)
        return [*parts, self._document(page, identifier, self._section_for(parent))]

    def _section_for(self, parent: Parent) -> tuple[str, ...]:
        names = (parent.data_source, parent.database)
        return tuple(self._section_of[name] for name in names if name is not None and name in self._section_of)[:1]

    def _document(self, value: Mapping[str, Any], identifier: str, sections: tuple[str, ...]) -> ListedDocument:
        changed = text_in(value, "last_edited_time")
        return ListedDocument(
            identifier,
            named(value, identifier),
            text_in(value, "url") or address_of(identifier),
            sections,
            moment(changed),
            version_of(changed, identifier, self.gateway.now, self.config.reread_after_days),
            audience=audience_of(value),
        )

    async def _open(
        self, identifier: str, *, must: bool, has_rows: bool = False, known: Mapping[str, Any] | None = None
    ) -> list[ListingPart]:
        """A database's sections; its rows are to be asked for. With several data sources each is a section below it."""
        if identifier in self._opened:
            return []
        self._opened.add(identifier)
        is_whole = known is not None and (not self.gateway.has_data_sources or "data_sources" in known)
        try:
            database = known if is_whole else await self.gateway.database(identifier)
        except (ItemGone, ItemUnreadable, ProviderRefused) as error:
            self._refused(identifier, error, must=must)
            return []
        if not isinstance(database, Mapping) or is_trashed(database):
            return []
        parts: list[ListingPart] = [self._section(identifier, title_of(database), None)]
        if plain_text(database.get("description")).strip() and identifier not in self._told:
            self._told.add(identifier)
            parts.append(self._document(database, identifier, (identifier,)))
        if not self.gateway.has_data_sources:
            self._rows.append(_Rows(identifier, False, must or has_rows))
            return parts
        sources = [(found, one) for one in mappings_in(database, "data_sources") if (found := id_in(one)) is not None]
        for source, entry in sources:
            if len(sources) > 1:
                parts.append(self._section(source, title_of(entry), identifier))
            else:
                self._section_of[source] = identifier
            self._ask(source, must=must or has_rows)
        return parts

    async def _source(self, entry: Mapping[str, Any], identifier: str) -> list[ListingPart]:
        """A data source stands in its database, or on its own where only it is shared."""
        parts: list[ListingPart] = []
        if (database := parent_of(entry).database) is not None:
            parts = await self._open(database, must=False, has_rows=True)
        if identifier not in self._section_of:
            parts.append(self._section(identifier, title_of(entry), None))
        self._ask(identifier, must=True)
        return parts

    def _ask(self, source: str, *, must: bool) -> None:
        if source not in self._asked:
            self._asked.add(source)
            self._rows.append(_Rows(source, True, must))

    def _section(self, identifier: str, title: str, parent: str | None) -> ListedSection:
        self._section_of[identifier] = identifier
        self._sections += 1
        return ListedSection(identifier, title, parent, self._sections - 1)

    async def _of_rows(self, asked: _Rows) -> AsyncIterator[ListingPart]:
        try:
            async for page in self.gateway.rows(asked.identifier, is_data_source=asked.is_data_source):
                self._doubt(page.doubt)
                for entry in page.entries:
                    # A wiki answers with its pages and data sources mixed.
                    for part in await self._of_search(entry):
                        yield part
        except (ItemGone, ItemUnreadable, ProviderRefused) as error:
            self._refused(asked.identifier, error, must=asked.must)

    def _refused(self, identifier: str, error: Exception, *, must: bool) -> None:
        """About one database. A linked view answers 404 or 400; its rows stand in the database that it shows."""
        if isinstance(error, CredentialsRefused):
            raise error
        if isinstance(error, NeedsNewerVersion):
            self._doubt(str(error))
        elif must or isinstance(error, ItemUnreadable):
            self._doubt(f"The database {identifier} could not be read: {error}.")

    async def _of_root(self, root: str) -> list[ListingPart]:
        """A configured root, read by its id unless the search had it."""
        if root in self._opened:
            return []
        parts: list[ListingPart] = []
        if root not in self._told:
            try:
                parts = await self._met(root, must=True)
            except (ItemGone, ItemUnreadable) as error:
                self._doubt(f"The root page {root} could not be read: {error}.")
        if root in self._told:
            self._in_roots.append(root)
        return parts

    async def _met(self, identifier: str, *, must: bool) -> list[ListingPart]:
        """A page that the walk met and the search did not show. Raises ItemGone, ItemUnreadable."""
        try:
            page = await self.gateway.page(identifier)
        except (ItemGone, ProviderRefused) as error:
            if isinstance(error, ProviderRefused) and error.status != 400:
                raise
            # A page that was made a wiki is a database.
            return await self._open(identifier, must=must)
        return await self._page(page, identifier) if isinstance(page, Mapping) else []

    async def _step(self, budget: Budget) -> list[ListingPart]:
        """Walks one page. Pages of the roots' trees come first; only they must be walked to their end."""
        in_roots = bool(self._in_roots)
        if not in_roots and not self._found:
            return []
        identifier = (self._in_roots if in_roots else self._found).popleft()
        if identifier in self._walked:
            return []
        self._walked.add(identifier)
        if budget.left <= 0:
            if in_roots:
                self._doubt(f"The root pages were not walked to their end within {self.config.walk_requests} requests.")
                self._in_roots.clear()
            self._found.clear()
            return []
        reader = TreeReader(self.gateway, budget, NO_PAGES_IN)
        try:
            blocks = await reader.read(identifier)
        except (ItemGone, ItemUnreadable, ProviderRefused) as error:
            if isinstance(error, CredentialsRefused):
                raise
            if in_roots:
                self._doubt(
                    f"The page {identifier} could not be walked: {'too large' if isinstance(error, TooMuch) else error}."
                )
            return []
        parts: list[ListingPart] = []
        for block in (one for top in blocks for one in top.and_below()):
            if block.kind == "child_database":
                parts += await self._open(block.id, must=False)
            elif block.kind == "child_page" and block.id:
                parts += await self._subpage(block.id, budget, in_roots=in_roots)
        return parts

    async def _subpage(self, identifier: str, budget: Budget, *, in_roots: bool) -> list[ListingPart]:
        parts: list[ListingPart] = []
        if identifier not in self._told and identifier not in self._opened:
            budget.left -= 1
            try:
                parts = await self._met(identifier, must=in_roots)
            except ItemGone:
                return []
            except ItemUnreadable as error:
                self._told.add(identifier)
                return [UnreadableItem(identifier, identifier, str(error), address_of(identifier))]
        if in_roots:
            self._in_roots.append(identifier)
        return parts


def version_of(changed: str | None, identifier: str, now: datetime, reread_after_days: int) -> str | None:
    """What changes when a page is to be read: its minute; the moment of the look while that minute is young, so that the
    next listing asks once more; and its turn to be read anyhow, as an edit through the API, or of a synced original,
    leaves the time as it was."""
    version = changed or ""
    edited = moment(changed)
    if edited is not None and now - edited < OVERLAP:
        version += f" seen {now.isoformat(timespec='seconds')}"
    if reread_after_days:
        turn = int(hashlib.sha256(identifier.encode()).hexdigest()[:8], 16)
        version += f" turn {(now.toordinal() + turn) // reread_after_days}"
    return version or None
