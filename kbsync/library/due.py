"""What should be queued now: fleet-wide reads of the ledgers for the tick and the reconciler (QR-01, LS-03).

Statements only; transactions come from `Database.fleet()`. Pages are keyset pages, so a million rows stay on the server.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

import asyncpg

from kbsync.db.pool import Connection
from kbsync.db.statements import Statements
from kbsync.domain.ids import job_id
from kbsync.domain.requests import UnitRequest
from kbsync.domain.states import UnitEnd

_SQL = Statements.beside(__file__)

PAGE = 1_000
# A scan belongs to no organization; ids of organizations start at 1.
FLEET_ORGANIZATION = 0
LONG_AGO = datetime(1, 1, 1, tzinfo=UTC)


class Registered(NamedTuple):
    """`previous`: since when the unit was open, or had been when it ended, before this registration; None: unknown then."""

    job_id: str
    requested_at: datetime
    previous: datetime | None


@dataclass(frozen=True)
class Registration:
    """A batch's units: open since `at`, but for those that were known and are `renewed`."""

    job_ids: Sequence[str]
    at: datetime
    renewed: Sequence[Registered]

    def units(self) -> list[Registered]:
        known = {unit.job_id for unit in self.renewed}
        return [*self.renewed, *(Registered(unit, self.at, None) for unit in self.job_ids if unit not in known)]


@dataclass(frozen=True)
class OpenUnit:
    """An accepted unit that has not ended. `request` is its JSON text, read only when it has to be built again."""

    job_id: str
    organization_id: int
    request: str
    requested_at: datetime


@dataclass(frozen=True)
class SkippedUnit:
    """A unit whose last run the kill switch skipped."""

    job_id: str
    organization_id: int
    request: str


@dataclass(frozen=True)
class Standing:
    open: bool
    skipped: bool


@dataclass(frozen=True)
class UnfinishedUrl:
    id: int
    organization_id: int
    crawl_task_id: int
    url: str


@dataclass(frozen=True)
class SyncingSource:
    id: int
    organization_id: int
    sync_started_at: datetime | None


@dataclass(frozen=True)
class Row:
    """A record of an organization that the tick or a re-drive asks for."""

    id: int
    organization_id: int


async def register_many(
    connection: Connection, requests: Iterable[UnitRequest], *, asked_s_ago: float = 0.0, again: bool = True
) -> Registration:
    """Every request is open from now on (or `asked_s_ago`): a run that begins later and ends closes it.

    `again` False, for who does not make an active run run again (QU-03): what is open already stays open since it was, so
    that the run under way closes it and recovery owes no second one."""
    by_id = {job_id(request): request for request in requests}
    if not by_id:
        return Registration([], LONG_AGO, [])
    rows = await connection.fetch(
        _SQL["register_many"],
        list(by_id),
        [getattr(request, "organization_id", FLEET_ORGANIZATION) for request in by_id.values()],
        [request.type for request in by_id.values()],
        [request.model_dump_json(exclude_none=True) for request in by_id.values()],
        asked_s_ago,
        again,
    )
    renewed = [Registered(unit, since, previous) for _, unit, since, previous in rows if unit is not None]
    return Registration(list(by_id), rows[0]["at"], renewed)


async def withdraw_many(connection: Connection, registration: Registration) -> None:
    """As before they were registered, except where somebody has asked again since."""
    units = registration.units()
    await connection.execute(
        _SQL["withdraw_many"],
        [unit.job_id for unit in units],
        [unit.requested_at for unit in units],
        [unit.previous for unit in units],
    )


async def end_if_open(connection: Connection, unit: str, began_at: datetime, ended_as: UnitEnd) -> None:
    await connection.execute(_SQL["end_if_open"], unit, began_at, ended_as)


async def open_past_grace(
    connection: Connection, grace_s: float, after: tuple[datetime, str] = (LONG_AGO, ""), limit: int = PAGE
) -> list[OpenUnit]:
    rows = await connection.fetch(_SQL["open_past_grace"], grace_s, *after, limit)
    return [OpenUnit(row["job_id"], row["organization_id"], row["request"], row["requested_at"]) for row in rows]


@dataclass(frozen=True)
class OldestOpen:
    """The oldest open units of some organizations; `last_organization` is where the next ones begin, None after the last."""

    units: list[OpenUnit]
    last_organization: int | None


async def oldest_open_of_each(
    connection: Connection, grace_s: float, after_organization: int, organizations: int, of_each: int
) -> OldestOpen:
    rows = await connection.fetch(_SQL["oldest_open_of_each"], grace_s, after_organization, organizations, of_each)
    units = [
        OpenUnit(row["job_id"], row["organization_id"], row["request"], row["requested_at"])
        for row in rows
        if row["job_id"] is not None
    ]
    return OldestOpen(units, rows[-1]["organization_id"] if rows else None)


async def standing_of(connection: Connection, job_ids: Sequence[str]) -> Mapping[str, Standing]:
    """How each of these units stands; one that was never registered is absent."""
    rows = await connection.fetch(_SQL["standing_of"], list(job_ids))
    return {row["job_id"]: Standing(row["open"], row["skipped"]) for row in rows}


async def skipped_after(connection: Connection, after: str, limit: int = PAGE) -> list[SkippedUnit]:
    rows = await connection.fetch(_SQL["skipped_after"], after, limit)
    return [SkippedUnit(row["job_id"], row["organization_id"], row["request"]) for row in rows]


async def crawl_urls_still_unfinished(connection: Connection, ids: Sequence[int]) -> set[int]:
    return {row["id"] for row in await connection.fetch(_SQL["crawl_urls_still_unfinished"], list(ids))}


async def crawl_urls_unfinished(
    connection: Connection, grace_s: float, after_id: int, limit: int = PAGE
) -> list[UnfinishedUrl]:
    rows = await connection.fetch(_SQL["crawl_urls_unfinished"], grace_s, after_id, limit)
    return [UnfinishedUrl(row["id"], row["organization_id"], row["crawl_task_id"], row["url"]) for row in rows]


async def crawls_pending(connection: Connection, after_id: int, limit: int = PAGE) -> list[Row]:
    return _rows(await connection.fetch(_SQL["crawls_pending"], after_id, limit))


async def sources_syncing(
    connection: Connection, grace_s: float, after_id: int, limit: int = PAGE
) -> list[SyncingSource]:
    rows = await connection.fetch(_SQL["sources_syncing"], grace_s, after_id, limit)
    return [SyncingSource(row["id"], row["organization_id"], row["sync_started_at"]) for row in rows]


async def fail_source_if_still_syncing(connection: Connection, source: SyncingSource) -> bool:
    """False when another run has taken the source over since it was read."""
    answer = await connection.fetchval(
        _SQL["fail_source_if_still_syncing"], source.id, source.organization_id, source.sync_started_at
    )
    return answer is not None


async def kept_sources_after(connection: Connection, after_id: int, limit: int = PAGE) -> list[Row]:
    return _rows(await connection.fetch(_SQL["kept_sources_after"], after_id, limit))


async def documents_without_chunks_after(connection: Connection, after_id: int, limit: int = PAGE) -> list[Row]:
    return _rows(await connection.fetch(_SQL["documents_without_chunks_after"], after_id, limit))


def _rows(records: Iterable[asyncpg.Record]) -> list[Row]:
    return [Row(record["id"], record["organization_id"]) for record in records]
