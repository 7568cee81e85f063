"""What a sync would bring: the provider's listing, read and counted against the library. Nothing is written."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, dataclass, field
from typing import cast

from kbsync.db.pool import Database
from kbsync.domain.removal import decide_removal
from kbsync.library import dry_runs
from kbsync.library.documents import NewDocument, external_key
from kbsync.library.sources import SourceRow
from kbsync.providers.contract import (
    CrawlingProvider,
    ListedDocument,
    ListedSection,
    ListingEnd,
    ListingPart,
    Provider,
    UnreadableItem,
)
from kbsync.sync.stored_text import stored_text

SHOWN = 10  # titles of each kind
BATCH = 500
REPORTED_EACH = 10
PAGE = 2_000
_BY_CRAWL = "a website is listed by its crawl: pages behind links are found while it runs"


@dataclass
class Preview:
    """`complete` False: nothing would be removed, and `why` says why. `added`, `changed` and `unchanged` are documents; for a
    source that is not there yet all are added. `removed` is None where nothing is known; `held` says that it would wait.
    `examples` are a few titles of each kind."""

    sections: int = 0
    documents: int = 0
    added: int = 0
    changed: int = 0
    unchanged: int = 0
    unreadable: int = 0
    removed: int | None = None
    held: str | None = None
    complete: bool = False
    why: str | None = None
    notes: list[str] = field(default_factory=list)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def show(self, kind: str, title: str) -> None:
        shown = self.examples.setdefault(kind, [])
        if len(shown) < SHOWN:
            shown.append(title[:200])

    def as_json(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True)
class Known:
    """The stored side of a source that is there already."""

    database: Database
    source: SourceRow


async def preview(
    provider: Provider, known: Known | None, *, content_cap: int, report: Callable[[int], None] | None = None
) -> Preview:
    """Reads the whole listing, a batch in memory at a time, and every key; `report` is told how many documents there are so
    far. Raises ProviderError as a run would."""
    look = _Look(known, content_cap, report)
    if provider.crawls:
        return await look.plan(cast(CrawlingProvider, provider))
    found = await look.through(provider.list_items())
    if known is None and found.documents and not provider.listing_brings_content:
        found.notes.append("what can't be read shows when the sync reads each text")
    return found


class _Look:
    def __init__(self, known: Known | None, content_cap: int, report: Callable[[int], None] | None) -> None:
        self._known = known
        self._report = report
        self._cap = content_cap
        self._seen: set[str] = set()
        self._batch: list[NewDocument] = []
        self.found = Preview()

    async def plan(self, provider: CrawlingProvider) -> Preview:
        """What robots.txt and the sitemaps say of a website."""
        plan = await provider.crawl_plan()
        self.found.notes += [*plan.incomplete_reasons, *plan.notes]
        for seed in plan.seeds:
            self._add(NewDocument(seed.url, seed.fetch_url))
            await self._settle(BATCH)
        await self._settle()
        self.found.why = plan.blocked or _BY_CRAWL
        return self.found

    async def through(self, listing: AsyncIterator[ListingPart]) -> Preview:
        end = ListingEnd(False, "the listing stopped without saying that it was complete")
        sections: set[str] = set()
        async for part in listing:
            match part:
                case ListedSection():
                    sections.add(part.external_id)
                case ListedDocument():
                    text = stored_text(part.content, self._cap) if part.content is not None else None
                    self._add(NewDocument(part.external_id, part.title, None, part.changed_at, part.version, text))
                case UnreadableItem():
                    if self._is_new(part.external_id):
                        self.found.unreadable += 1
                        self.found.show("unreadable", f"{part.title or part.external_id}: {part.reason}")
                case ListingEnd():
                    end = part
            await self._settle(BATCH)
        await self._settle()
        self.found.sections = len(sections)
        self.found.complete, self.found.why = end.complete, end.reason
        await self._missing(ask=end.ask_for_missing)
        return self.found

    def _is_new(self, external_id: str) -> bool:
        key = external_key(external_id)
        if key in self._seen:
            return False
        self._seen.add(key)
        return True

    def _add(self, document: NewDocument) -> None:
        if self._is_new(document.external_id):
            self.found.documents += 1
            if self._report is not None and self.found.documents % REPORTED_EACH == 0:
                self._report(self.found.documents)
            self._batch.append(document)

    async def _settle(self, size: int = 1) -> None:
        if len(self._batch) < size:
            return
        kinds: dict[str, str] = {}
        if self._known is not None:
            source = self._known.source
            async with self._known.database.organization(source.organization_id) as connection:
                kinds = await dry_runs.kinds_of(connection, source.organization_id, source.id, self._batch)
        for one in self._batch:
            kind = kinds.get(external_key(one.external_id), "added")
            setattr(self.found, kind, getattr(self.found, kind) + 1)
            if kind != "unchanged":
                self.found.show(kind, one.title or one.external_id)
        self._batch.clear()

    async def _missing(self, *, ask: bool) -> None:
        if self._known is None:
            return
        source, kept, missing, after = self._known.source, 0, 0, 0
        while True:
            async with self._known.database.organization(source.organization_id) as connection:
                page = await dry_runs.kept_after(connection, source.organization_id, source.id, after, PAGE)
            if not page:
                break
            kept += len(page)
            for one in page:
                if one.external_key not in self._seen:
                    missing += 1
                    self.found.show("missing", one.title)
            after = page[-1].id
        self.found.removed = missing if self.found.complete else 0
        if missing and not self.found.complete:
            self.found.notes.append(
                f"{missing} kept documents were not listed; they stay, as this listing proves nothing"
            )
        elif source.held_removal is None:
            decision = decide_removal(complete=True, kept=kept, missing=missing, missing_twice=0)
            self.found.held = decision.hold
            if missing and ask and decision.hold is None:
                self.found.notes.append(
                    "its listing may lack what is there: each of them is asked for, and goes if it is gone"
                )
        elif missing:
            self.found.notes.append("a removal waits already: what two complete runs miss goes")
