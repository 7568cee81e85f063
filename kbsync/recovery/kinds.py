"""What should be queued now? One small reader a durable kind of work, and how its request is built again (QR-01).

A kind yields pages of candidates: rows that say "this is owed" for longer than the grace. Whether a candidate's job is
live is asked in Redis for the whole page; `still_wanted` then reads the rows of those without a job once more, because a
job that was just ending when its row was read is over, not lost.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from pydantic import ValidationError

from kbsync.db.pool import Connection, Database
from kbsync.domain.ids import job_id
from kbsync.domain.requests import CrawlUrl, StartCrawl, UnitRequest, unit_request_adapter
from kbsync.library import due


class Unreadable(Exception):
    """A stored request that this version can't run: a newer process may. It stays where it is."""


@dataclass(frozen=True)
class Candidate:
    """`row_id` is the ledger row's, where the kind has one. `build` raises Unreadable."""

    job_id: str
    organization_id: int
    build: Callable[[], UnitRequest]
    row_id: int = 0


Pages = Callable[[Database, float], AsyncIterator[list[Candidate]]]
StillWanted = Callable[[Connection, Sequence[Candidate]], Awaitable[list[Candidate]]]


@dataclass(frozen=True)
class DurableKind:
    """`registers`: a request of this kind may have no row in the ledger of units yet, so re-queueing makes one."""

    name: str
    pages: Pages
    still_wanted: StillWanted
    registers: bool = False


# How many units of each organization a pass begins with, and of how many organizations a page is made.
FIRST_OF_EACH = 2
ORGANIZATIONS_A_PAGE = 500


async def _open_units(database: Database, grace_s: float) -> AsyncIterator[list[Candidate]]:
    """Oldest first; but where they are more than a page, a few of each organization come before: whoever owes a hundred
    thousand delays nobody."""
    async with database.fleet() as connection:
        units = await due.open_past_grace(connection, grace_s)
    given: set[str] = set()
    if len(units) == due.PAGE:
        async for first in _first_of_each(database, grace_s):
            given.update(unit.job_id for unit in first)
            yield [_open_unit(unit) for unit in first]
    while units:
        yield [_open_unit(unit) for unit in units if unit.job_id not in given]
        async with database.fleet() as connection:
            units = await due.open_past_grace(connection, grace_s, (units[-1].requested_at, units[-1].job_id))


async def _first_of_each(database: Database, grace_s: float) -> AsyncIterator[list[due.OpenUnit]]:
    organization: int | None = -1
    while organization is not None:
        async with database.fleet() as connection:
            oldest = await due.oldest_open_of_each(
                connection, grace_s, organization, ORGANIZATIONS_A_PAGE, FIRST_OF_EACH
            )
        organization = oldest.last_organization
        if oldest.units:
            yield oldest.units


def _open_unit(unit: due.OpenUnit) -> Candidate:
    return Candidate(unit.job_id, unit.organization_id, partial(_stored, unit.request))


async def _still_open(connection: Connection, candidates: Sequence[Candidate]) -> list[Candidate]:
    standing = await due.standing_of(connection, [candidate.job_id for candidate in candidates])
    return [c for c in candidates if c.job_id in standing and standing[c.job_id].open]


async def _unfinished_urls(database: Database, grace_s: float) -> AsyncIterator[list[Candidate]]:
    after = 0
    while True:
        async with database.fleet() as connection:
            urls = await due.crawl_urls_unfinished(connection, grace_s, after)
        if not urls:
            return
        after = urls[-1].id
        yield [_url_candidate(url) for url in urls]


async def _still_unfinished(connection: Connection, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Without those that were skipped: a skip is an ending (QR-08)."""
    rows = await due.crawl_urls_still_unfinished(connection, [candidate.row_id for candidate in candidates])
    standing = await due.standing_of(connection, [candidate.job_id for candidate in candidates])
    return [c for c in candidates if c.row_id in rows and not _was_skipped(standing, c.job_id)]


async def _unfinished_urls_even_skipped(connection: Connection, candidates: Sequence[Candidate]) -> list[Candidate]:
    rows = await due.crawl_urls_still_unfinished(connection, [candidate.row_id for candidate in candidates])
    return [candidate for candidate in candidates if candidate.row_id in rows]


async def _skipped_units(database: Database, grace_s: float) -> AsyncIterator[list[Candidate]]:
    after = ""
    while True:
        async with database.fleet() as connection:
            units = await due.skipped_after(connection, after)
        if not units:
            return
        after = units[-1].job_id
        yield [Candidate(unit.job_id, unit.organization_id, partial(_stored, unit.request)) for unit in units]


async def _still_skipped(connection: Connection, candidates: Sequence[Candidate]) -> list[Candidate]:
    standing = await due.standing_of(connection, [candidate.job_id for candidate in candidates])
    return [candidate for candidate in candidates if _was_skipped(standing, candidate.job_id)]


async def _pending_crawls(database: Database, grace_s: float) -> AsyncIterator[list[Candidate]]:
    after = 0
    while True:
        async with database.fleet() as connection:
            rows = await due.crawls_pending(connection, after)
        if not rows:
            return
        after = rows[-1].id
        yield [
            _of_request(StartCrawl(organization_id=row.organization_id, crawl_task_id=row.id), row.id) for row in rows
        ]


async def _as_read(connection: Connection, candidates: Sequence[Candidate]) -> list[Candidate]:
    return list(candidates)


def _url_candidate(url: due.UnfinishedUrl) -> Candidate:
    request = CrawlUrl(organization_id=url.organization_id, crawl_task_id=url.crawl_task_id, url=url.url)
    return _of_request(request, url.id)


def _of_request(request: CrawlUrl | StartCrawl, row_id: int) -> Candidate:
    return Candidate(job_id(request), request.organization_id, lambda: request, row_id)


def _stored(text: str) -> UnitRequest:
    try:
        return unit_request_adapter.validate_json(text)
    except ValidationError as error:
        raise Unreadable(f"{error.error_count()} faults") from None


def _was_skipped(standing: Mapping[str, due.Standing], unit: str) -> bool:
    return unit in standing and standing[unit].skipped


OPEN_UNITS = DurableKind("units", _open_units, _still_open)
CRAWL_URLS = DurableKind("crawl_urls", _unfinished_urls, _still_unfinished, registers=True)

# Sources, documents, chunks and crawl starts are units that were accepted (QR-08); the outbox has its relay, and an
# unfinished scan of a date its scheduler.
KINDS: tuple[DurableKind, ...] = (OPEN_UNITS, CRAWL_URLS)

# What `--redrive` asks for besides: whatever a pause has ended (KS-03).
REDRIVEN: tuple[DurableKind, ...] = (
    DurableKind("skipped", _skipped_units, _still_skipped, registers=True),
    DurableKind("crawl_urls", _unfinished_urls, _unfinished_urls_even_skipped, registers=True),
    DurableKind("pending_crawls", _pending_crawls, _as_read, registers=True),
)
