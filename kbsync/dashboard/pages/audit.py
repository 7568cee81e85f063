"""`/audit`: who did what to what, when and why; newest first, filtered by the address."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from kbsync.dashboard.ask import Access, Ask
from kbsync.dashboard.page import Page
from kbsync.db.pool import Connection
from kbsync.domain.text import storable
from kbsync.library import audit as ledger
from kbsync.library import organizations
from kbsync.library.audit import Entry, EntryFilter

ROWS = 50
MOST_NAME = 500
DETAIL_SHOWN = 12
_CURSOR = re.compile(r"(\d{1,16})-(\d{1,18})")
# Where a target leads, by its first word: the rest is the id.
_PAGES = {"source": "/sources/", "document": "/documents/", "crawl": "/crawls/"}
FIELDS = ("actor", "action", "target", "organization", "since", "until")


async def audit(ask: Ask) -> Mapping[str, Any]:
    given = {name: storable(ask.query(name, MOST_NAME)) for name in FIELDS}
    faults: dict[str, str] = {}
    async with ask.services.database.fleet() as connection:
        organization_id = await _organization(connection, given["organization"], faults)
        where = EntryFilter(
            actor=given["actor"] or None,
            action=given["action"] or None,
            target=given["target"] or None,
            organization_id=organization_id,
            since=_day(given["since"], faults, "since"),
            until=_day(given["until"], faults, "until", after=timedelta(days=1)),
        )
        before = cursor_of(ask.query("before", 40))
        entries = [] if faults else await ledger.page(connection, where, before, ROWS + 1)
        actions = await ledger.actions(connection)
        actors = await ledger.actors(connection)
    shown = entries[:ROWS]
    used = {name: value for name, value in given.items() if value}
    older = urlencode({**used, "before": cursor_text(shown[-1])}) if len(entries) > ROWS else ""
    return {
        "entries": shown,
        "filters": given,
        "used": len(used),
        "faults": {name: faults.get(name, "") for name in FIELDS},
        "faulty": bool(faults),
        "actions": actions,
        "actors": actors,
        "older": f"/audit?{older}" if older else "",
        "newest": f"/audit?{urlencode(used)}" if before and used else "/audit" if before else "",
        "link_of": link_of,
        "details_of": details_of,
    }


def cursor_text(entry: Entry) -> str:
    """The entry's place in the order: microseconds since 1970 and its id."""
    micros = (entry.at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    return f"{micros}-{entry.id}"


def cursor_of(text: str) -> tuple[datetime, int] | None:
    """None for what is no place: then the newest page is meant."""
    found = _CURSOR.fullmatch(text)
    if found is None:
        return None
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(found[1])), int(found[2])


def link_of(entry: Entry) -> str | None:
    """The page of what was acted on, where it has one."""
    kind, _, name = entry.target.partition(":")
    if kind in _PAGES and name.isascii() and name.isdigit():
        return _PAGES[kind] + name
    if kind == "queue" and re.fullmatch(r"[a-z-]{1,60}", name):
        return f"/queues/{name}"
    if kind == "data_source" and name.isascii() and name.isdigit():
        return f"/throttles?data_source={name}"
    return "/throttles#kill-switch" if kind == "flag" else None


def details_of(entry: Entry) -> list[tuple[str, str]]:
    """The first details as words, the deeper ones in one line."""
    return [
        (str(name), _words(value)) for name, value in list(entry.detail.items())[:DETAIL_SHOWN] if value is not None
    ]


def _words(value: object) -> str:
    match value:
        case Mapping():
            return ", ".join(f"{name} {_words(inner)}" for name, inner in value.items())[:500]
        case list():
            return ", ".join(_words(inner) for inner in value)[:500]
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case _:
            return str(value)[:500]


def _day(text: str, faults: dict[str, str], field: str, after: timedelta = timedelta()) -> datetime | None:
    """A date as a moment in UTC; both ends of a span are days that count in full."""
    if not text:
        return None
    try:
        day = date.fromisoformat(text)
        return datetime(day.year, day.month, day.day, tzinfo=UTC) + after
    except (ValueError, OverflowError):
        faults[field] = "A date looks like 2026-08-25."
        return None


async def _organization(connection: Connection, text: str, faults: dict[str, str]) -> int | None:
    if not text:
        return None
    if text.isascii() and text.isdigit() and len(text) <= 18:
        return int(text)
    found = await organizations.named(connection, text)
    if found is None:
        faults["organization"] = "There is no organization of this id or exact name."
    return found


PAGES = (Page("/audit", "audit.html", audit, Access.LOOK),)
