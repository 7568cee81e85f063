"""What production looks like: one look a question, from the hourly counters and the ledgers (OP-16).

A look is rows for a person or a program, and whether it failed. Expectations pass, fail or are not known: what nobody
measured is never called good.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from kbsync.db.pool import Database
from kbsync.library import counters, observations
from kbsync.library.counters import Counted
from kbsync.library.ticks import clock

# An ended job takes one run and, where a window is full, one or a few delays with a reserved slot each; three attempts at
# most. The storm that this look was made for took more than 16 runs a job.
STORM_RUNS_A_JOB = 10.0


class Verdict(StrEnum):
    PASS = "pass"
    FAIL = "fail"
    NOT_KNOWN = "not known"

    @classmethod
    def of(cls, holds: bool | None) -> Verdict:
        if holds is None:
            return cls.NOT_KNOWN
        return cls.PASS if holds else cls.FAIL


@dataclass(frozen=True)
class Expectation:
    """`detail` has the numbers that the verdict rests on."""

    step: str
    expected: str
    verdict: Verdict
    detail: str


@dataclass(frozen=True)
class Look:
    """`empty` is what no rows mean; `note` what a person should know besides."""

    rows: Sequence[Mapping[str, object]]
    failed: bool
    empty: str = "nothing"
    note: str = ""

    @classmethod
    def at(cls, expectations: Sequence[Expectation], note: str = "") -> Look:
        failed = any(one.verdict is Verdict.FAIL for one in expectations)
        return cls([asdict(one) for one in expectations], failed, note=note)


async def throttle_storm(database: Database, hours: int) -> Look:
    """Executions against unique jobs, by kind, over `hours` whole hours and the one that runs.

    Fails for a kind whose jobs take too many runs, and for any failure that waiting made: a full window delays, so such
    a failure means a provider that kept asking for waits (RL-05)."""
    async with database.fleet() as connection:
        now = await clock(connection)
        since = now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=hours)
        counted = await counters.totals(connection, since, now)
        unique = await observations.unique_jobs(connection, since)
    kinds = sorted(({kind for kind, _ in counted} | set(unique)) - counters.NO_JOBS)
    rows = [_storm_row(kind, counted, unique.get(kind, 0)) for kind in kinds]
    return Look(
        rows,
        any(row["verdict"] is Verdict.FAIL for row in rows),
        empty=f"nothing ran since {since:%Y-%m-%d %H:%M} UTC",
        note="a full window delays a job and never fails it: throttle_failures are jobs whose provider kept asking to wait",
    )


def _storm_row(kind: str, counted: Counter[tuple[str, str]], unique: int) -> dict[str, object]:
    executions, failures = counted[kind, Counted.EXECUTIONS], counted[kind, Counted.THROTTLE_FAILURES]
    ended = sum(counted[kind, name] for name in (Counted.COMPLETED, Counted.SKIPPED, Counted.FAILED))
    # A job that is asked for again and again has one row and many ends.
    jobs = max(unique, ended)
    runs_a_job = round(executions / jobs, 2) if jobs else None
    calm = None if runs_a_job is None and not failures else not failures and (runs_a_job or 0.0) <= STORM_RUNS_A_JOB
    return {
        "kind": kind,
        "executions": executions,
        "unique_jobs": unique,
        "ended": ended,
        "throttle_delays": counted[kind, Counted.THROTTLE_DELAYS],
        "failed_attempts": counted[kind, Counted.FAILED_ATTEMPTS],
        "throttle_failures": failures,
        "runs_a_job": runs_a_job,
        "verdict": Verdict.of(calm),
    }


async def chunk_backlog(database: Database) -> Look:
    """Documents with content and no chunks. Fails where nobody owes them any: the next daily scan asks again."""
    async with database.fleet() as connection:
        found = await observations.chunk_backlog(connection)
    return Look(
        [asdict(one) for one in found],
        any(one.not_asked for one in found),
        empty="no backlog: every document with content has its chunks",
        note="not_asked: no open request for their chunks; `kbsync tick` asks for them now",
    )


async def stale_sources(database: Database) -> Look:
    """Sources that failed or were not synced for two days. Fails for kept ones; discarded ones are only shown."""
    async with database.fleet() as connection:
        found = await observations.stale_sources(connection)
    return Look(
        [asdict(one) for one in found],
        any(one.discarded_at is None for one in found),
        empty="no source failed, and all were synced within 2 days",
        note="failed, or not synced for 2 days; `kbsync source list --organization N` says why",
    )


async def legacy_jobs(database: Database, since: datetime) -> Look:
    """New rows of the producer app's own jobs. Fails for any: unless the kill switch is on, there should be none."""
    async with database.fleet() as connection:
        found = await observations.legacy_jobs(connection, since)
    if found is None:
        return Look(
            [],
            False,
            empty="the table good_jobs is not in this database (or not to be read): look in the producer app's own",
        )
    rows = [
        {"job_class": one.job_class, "jobs": one.jobs, "first_seen": one.first_seen, "last_seen": one.last_seen}
        for one in found
        if one.jobs
    ]
    return Look(
        rows, bool(rows), empty="no new row of the six classes", note="expected only while the kill switch is on"
    )
