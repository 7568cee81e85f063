"""`/sources` and `/sources/{id}`: what is synced, how it stands, and what a person must do about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kbsync.dashboard import knowledge_words as words
from kbsync.dashboard.ask import Access, Ask, NotHere
from kbsync.dashboard.knowledge import (
    address,
    all_that_may_be_seen,
    id_or_none,
    is_stream,
    organization_of,
    place_of,
)
from kbsync.dashboard.page import Action, Page
from kbsync.dashboard.pages import source_acts, source_changes
from kbsync.domain.errors import FlagStoreUnavailable, SettingsError
from kbsync.domain.ids import QueueName, job_id
from kbsync.domain.removal import LARGE_COUNT, LARGE_SHARE
from kbsync.domain.requests import SyncSource
from kbsync.library import crawl_views, organizations, owners, source_pages, source_runs, source_setup
from kbsync.library.source_pages import SourceFilter, SourcePage
from kbsync.queue.fleet import unavailable_if_redis_fails
from kbsync.queue.views import JobDetail
from ratelimits.limits import UnitKind, limit_for
from ratelimits.scope import DataSourceScope
from ratelimits.throttle import WindowView

STATUSES = (
    ("failed", "Failed"),
    ("held", "Removal waits"),
    ("syncing", "Syncing"),
    ("pending", "Never synced"),
    ("synced", "Synced"),
)
DOCUMENT_STATES = (
    ("unreadable", "Unreadable"),
    ("unread", "Without text"),
    ("unchunked", "Waits for chunks"),
    ("searchable", "Searchable"),
)
DOCUMENTS = 25
CRAWLS = 3  # newest; the others have their own page
RUNS = 10
MISSING = "There is no such source, or it is another organization’s."


async def sources(ask: Ask) -> Mapping[str, Any]:
    chosen, text = id_or_none(ask.query("organization")), ask.query("text")
    status, kind = ask.query("status"), ask.query("type")[:50]
    where = SourceFilter(
        organization_id=chosen,
        type=kind or None,
        status=status if status in dict(STATUSES) else None,
        text=text or None,
    )
    after = place_of(ask.query("after"), 2) or (0, 0)
    async with all_that_may_be_seen(ask) as connection:
        counts = await source_pages.source_counts(connection, ask.organization_id)
        found = await source_pages.source_list(connection, ask.organization_id, where, after=(after[0], after[1]))
        name = await organizations.get(connection, chosen) if chosen is not None else None
    filters = {"text": text, "status": where.status or "", "type": kind, "organization": chosen or ""}
    return {
        "counts": counts,
        "verdict": words.verdict_of(counts),
        "lines": [_line(ask, line) for line in found.lines],
        "filters": filters,
        "used": sum(1 for part in ("status", "type", "organization") if filters[part]),
        "chosen": name.name if name else None,
        "statuses": STATUSES,
        "types": sorted({*words.PROVIDERS, *([kind] if kind else [])}),
        "more": address("/sources", **filters, after=f"{found.after[0]}-{found.after[1]}") if found.after else None,
        "first": address("/sources", **filters) if after != (0, 0) else None,
        "words": words,
    }


def _line(ask: Ask, line: source_pages.SourceLine) -> dict[str, Any]:
    where = words.address_of(line.config)
    return {
        "row": line,
        "name": words.source_name(line.name, where),
        "where": where,
        "standing": words.standing_of(line, ask.now),
        "documents": words.number_of(line.counts, "documents"),
        "next": words.next_due(line, ask.now),
    }


@dataclass(frozen=True)
class Quota:
    """A limit of the source's data source, with the window that counts for it now, if one is in use."""

    kind: str
    limit: str
    window: WindowView | None


async def source(ask: Ask) -> Mapping[str, Any]:
    source_id = ask.number("id")
    organization_id = await organization_of(ask, owners.owner_of_source, source_id, MISSING)
    sync_id = job_id(SyncSource(organization_id=organization_id, source_id=source_id))
    text, state = ask.query("text"), ask.query("state")
    state = state if state in dict(DOCUMENT_STATES) else ""
    after = (place_of(ask.query("after"), 1) or (0,))[0]
    context: dict[str, Any] = {}
    async with ask.services.database.organization(organization_id) as connection:
        row = await source_pages.source_page(connection, organization_id, source_id, sync_id)
        schedule = await source_setup.schedule(connection, organization_id, source_id)
        unread = await source_pages.source_unread(connection, organization_id, source_id)
        if row is None or schedule is None:
            raise NotHere(MISSING)
        if not is_stream(ask):
            documents = await source_pages.source_documents(
                connection,
                organization_id,
                source_id,
                text=text or None,
                state=state or None,
                after_id=after,
                limit=DOCUMENTS,
            )
            crawls, _ = await crawl_views.crawl_list(connection, organization_id, source_id=source_id, limit=CRAWLS)
            context = {
                "documents": [(line, words.document_standing(line)) for line in documents.lines],
                "more": address(f"/sources/{source_id}", text=text, state=state, after=documents.after)
                if documents.after
                else None,
                "sections": await source_pages.source_sections(connection, organization_id, source_id),
                "crawls": [(crawl, words.pace_of(crawl, ask.now)) for crawl in crawls],
                "runs": await source_runs.newest(connection, organization_id, source_id, RUNS),
                "holds": await source_setup.holdings_up_to(
                    connection, organization_id, source_id, source_changes.MOST_REMOVED_HERE + 1
                )
                if ask.may(Access.ACT_ON_KNOWLEDGE)
                else None,
                "entries": await source_pages.source_entries(connection, organization_id, f"source:{source_id}"),
            }
    job = await _job(ask, sync_id)
    if not is_stream(ask):
        context["quotas"], context["closed"] = await _quotas(ask, row)
        settings, hidden = words.shown_settings(row.type, row.config)
        context |= {"settings": settings, "hidden_settings": hidden}
        context |= {"typed_settings": source_changes.typed_settings(row.type, row.config)}
    return {
        **context,
        "row": row,
        "name": words.source_name(row.name, words.address_of(row.config)),
        "where": words.address_of(row.config),
        "standing": words.standing_of(row, ask.now),
        "next": words.next_due(row, ask.now),
        "schedule": schedule,
        "unread": unread,
        "every": source_changes.every(schedule),
        "most_removed": source_changes.MOST_REMOVED_HERE,
        "large": (LARGE_COUNT, round(100 * LARGE_SHARE)),
        "held": words.HeldRemoval.of_source(row.held_removal),
        "job": job,
        "sync_id": sync_id,
        "paused": await _paused(ask, organization_id),
        "filters": {"text": text, "state": state},
        "states": DOCUMENT_STATES,
        "first": address(f"/sources/{source_id}", text=text, state=state) if after else None,
        "provider": words.provider_name(row.type),
        "words": words,
    }


async def _job(ask: Ask, sync_id: str) -> JobDetail | None:
    """The sync as the queue has it, live or kept."""
    async with unavailable_if_redis_fails(QueueName.SYNC):
        return await ask.services.fleet.queue(QueueName.SYNC).detail(sync_id)


async def _paused(ask: Ask, organization_id: int) -> bool | None:
    """None: the flag can't be read, so that jobs wait."""
    try:
        return await ask.services.kill_switch.paused(organization_id)
    except FlagStoreUnavailable:
        return None


async def _quotas(ask: Ask, row: SourcePage) -> tuple[list[Quota], tuple[Any, str] | None]:
    """The limits that a sync of this source keeps to, and until when its provider closed the data source."""
    scope = DataSourceScope(row.type, row.organization_id, row.data_source_id)
    windows = {
        window.scope.unit_kind: window
        for window in await ask.services.throttle.windows()
        if window.scope.data_source == scope
    }
    quotas = []
    for kind, title in ((UnitKind.SOURCE_SYNC, "Source sync"), (UnitKind.DOCUMENT_SYNC, "Document sync")):
        try:
            limit = str(limit_for(row.type, kind, row.limits))
        except SettingsError:
            limit = "can’t be read"
        quotas.append(Quota(title, limit, windows.get(kind)))
    return quotas, await ask.services.throttle.closed_until(scope)


PAGES = (
    Page("/sources", "sources.html", sources, Access.KNOWLEDGE, live=("verdict", "rows")),
    Page("/sources/{id}", "source.html", source, Access.KNOWLEDGE, live=("standing", "figures")),
)
ACTIONS: tuple[Action, ...] = (*source_acts.ACTIONS, *source_changes.ACTIONS)
