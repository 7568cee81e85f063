"""Counters of units by kind and hour, for observation after the queue has trimmed its jobs (OP-16). Transactions: `fleet()`.

They are statistics: a process that crashes takes the counts of its last seconds with it, and one whose commit got no
answer may count them twice. Nothing decides by them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from kbsync.db.pool import Connection
from kbsync.db.statements import Statements

_SQL = Statements.beside(__file__)

KEPT_DAYS = 90
REMOVED_AT_ONCE = 1_000
PRODUCERS = "producers"  # the kind under which their fallbacks are counted
RECOVERY = "recovery"  # and what recovery brought back, by layer
NO_JOBS = frozenset({PRODUCERS, RECOVERY})  # kinds that are no kinds of jobs


class Counted(StrEnum):
    """What is counted, of a kind of job; the fallbacks of the producers, by their own reports; and of recovery, by layer."""

    __hash__ = str.__hash__  # each job hashes some, and Enum's own is no C

    EXECUTIONS = "executions"  # runs that reached a handler, each delayed or repeated one too
    COMPLETED = "completed"
    SKIPPED = "skipped"
    DELAYS = "delays"  # runs that ended as "come back later", for whatever reason
    THROTTLE_DELAYS = "throttle_delays"  # those of them that a provider's window or wait made
    FAILED_ATTEMPTS = "failed_attempts"
    FAILED = "failed"  # jobs that failed for good
    THROTTLE_FAILURES = "throttle_failures"  # failing attempts that came of waiting too often (RL-05)
    RECORD_MISSING = "record_missing"  # of the completed ones
    RECORD_MISSING_ELSEWHERE = "record_missing_elsewhere"  # of those, the row is another organization's
    STALLS = "stalls"  # workers that a job has outlived, counted when it ends
    FALLBACKS_REPORTED = "fallbacks_reported"
    LEASE_RECOVERED = "lease_recovered"  # of recovery, as the two below it
    RECLAIMED = "reclaimed"
    RECONCILED = "reconciled"
    REFUSED = "refused"  # what it could not bring back
    INTERRUPTED_SOURCES = "interrupted_sources"


@dataclass(frozen=True)
class MissingRecord:
    """A request that found no record: `row_id` is its source's, document's or crawl's, by `kind`."""

    kind: str
    organization_id: int
    row_id: int


Amounts = Mapping[tuple[str, str], int]


async def add_many(connection: Connection, amounts: Amounts) -> None:
    """Adds to this hour: (kind, name) -> amount."""
    kinds, names = [kind for kind, _ in amounts], [str(name) for _, name in amounts]
    await connection.execute(_SQL["add_many"], kinds, names, list(amounts.values()))


async def elsewhere_many(connection: Connection, missing: Sequence[MissingRecord]) -> Mapping[str, int]:
    """By kind, how many of these requests name a row of another organization."""
    rows = await connection.fetch(
        _SQL["elsewhere_many"],
        [one.kind for one in missing],
        [one.organization_id for one in missing],
        [one.row_id for one in missing],
    )
    return {row["kind"]: row["requests"] for row in rows}


async def remove_older(connection: Connection, days: int = KEPT_DAYS, limit: int = REMOVED_AT_ONCE) -> None:
    await connection.execute(_SQL["remove_older"], days, limit)


async def totals(connection: Connection, since: datetime, until: datetime) -> Counter[tuple[str, str]]:
    """(kind, name) -> amount over whole hours: the hour of `since` counts in full, and each that began before `until`."""
    rows = await connection.fetch(_SQL["totals_since"], since, until)
    return Counter({(row["kind"], row["name"]): row["amount"] for row in rows})


async def first_hour(connection: Connection, since: datetime) -> datetime | None:
    """The first hour from `since` on in which anything was counted."""
    found: datetime | None = await connection.fetchval(_SQL["first_hour_since"], since)
    return found
