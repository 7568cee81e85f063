"""`/find?q=`: a job by its exact id, a source, document, crawl or organization by id, name or address; a few of each.

One hit is opened at once. A person who is bound to one organization finds what is that organization's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kbsync.dashboard.acting import job_path
from kbsync.dashboard.ask import Access, Ask, GoTo
from kbsync.dashboard.knowledge import all_that_may_be_seen
from kbsync.dashboard.page import Page
from kbsync.domain.ids import QueueName
from kbsync.domain.text import storable
from kbsync.library import finding
from kbsync.library.finding import Found
from kbsync.queue.fleet import unavailable_if_redis_fails

MOST = 10  # of each sort
MOST_ID = 1_000
_PATHS = {
    "source": "/sources/{}",
    "document": "/documents/{}",
    "crawl": "/crawls/{}",
    "organization": "/sources?organization={}",
}
_TITLES = (
    ("job", "Jobs"),
    ("source", "Sources"),
    ("document", "Documents"),
    ("crawl", "Crawls"),
    ("organization", "Organizations"),
)


@dataclass(frozen=True)
class Hit:
    """`name` and `note` come from outside."""

    what: str
    to: str
    name: str
    note: str
    state: str = ""


async def find(ask: Ask) -> Mapping[str, Any]:
    words = ask.query("q", MOST_ID)
    hits = [*await _jobs(ask, words), *await _knowledge(ask, words)] if words else []
    if len(hits) == 1:
        raise GoTo(hits[0].to)
    groups = [(title, [hit for hit in hits if hit.what == what]) for what, title in _TITLES]
    return {
        "words": words,
        "many": len(hits),
        "groups": [(title, found, len(found) >= MOST) for title, found in groups if found],
        "may_search": ask.may(Access.SEARCH),
        "may_look": ask.may(Access.LOOK),
    }


async def _jobs(ask: Ask, words: str) -> list[Hit]:
    """The job of exactly this id, in every queue that has one."""
    if not ask.may(Access.LOOK):
        return []
    hits = []
    for name in QueueName:
        async with unavailable_if_redis_fails(name):
            detail = await ask.services.fleet.queue(name).detail(words)
        if detail is not None:
            hits.append(
                Hit("job", job_path(name, words), words, f"{name}, {detail.view.kind}", detail.view.state.value)
            )
    return hits


async def _knowledge(ask: Ask, words: str) -> list[Hit]:
    words = storable(words)
    own = ask.organization_id
    async with all_that_may_be_seen(ask) as connection:
        found: list[Found] = []
        if words.isascii() and words.isdigit() and len(words) <= 18:
            found += await finding.by_number(connection, own, int(words))
        found += await finding.sources(connection, own, words, MOST)
        found += await finding.documents(connection, own, words, MOST)
        found += await finding.organizations(connection, own, words, MOST)
    once = {(one.what, one.id): one for one in reversed(found)}
    return [_hit(one) for one in reversed(once.values())]


def _hit(found: Found) -> Hit:
    note = [part for part in (found.note, found.organization if found.what != "organization" else "") if part]
    name = found.name or f"{found.what} {found.id}"
    return Hit(found.what, _PATHS[found.what].format(found.id), name, " · ".join(note))


PAGES = (Page("/find", "find.html", find, Access.KNOWLEDGE),)
