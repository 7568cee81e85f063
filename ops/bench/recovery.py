"""PF-13: one recovery pass over units of many tenants that an emptied Redis has forgotten.

Tenants come one after the other by age, so that the last one's units are younger than all others': the worst order there is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles

from kbsync.db.pool import Database
from kbsync.db.statements import Statements
from kbsync.flags.flipper_tables import FlipperTables
from kbsync.flags.kill_switch import KillSwitch
from kbsync.queue.fleet import Fleet
from kbsync.queue.jobs import Enqueued, JobRequest
from kbsync.recovery.layers import RecoveryPass
from kbsync.recovery.reconciler import Reconciler
from ops.bench.figures import Bar, Figure, Row, limit, sample
from ops.bench.processes import postgres_up, redis_up
from ops.bench.table import Options

ROWS, TENANTS = 100_000, 500

_SQL = Statements.beside(__file__)
OWE_UNITS = _SQL["owe_units"]


@dataclass
class Watched:
    """The fleet, and what a pass asks of it: how long each call takes, and when each tenant is first served."""

    fleet: Fleet
    begun: float = 0.0
    calls_ms: list[float] = field(default_factory=list)
    served_at: dict[str, float] = field(default_factory=dict)
    memory_mb: list[float] = field(default_factory=list)

    async def enqueue(self, queue: str, requests: list[JobRequest]) -> list[Enqueued]:
        called = time.perf_counter()
        answers = await self.fleet.enqueue(queue, requests)
        now = time.perf_counter()
        self.calls_ms.append((now - called) * 1_000)
        for request in requests:
            self.served_at.setdefault(request.tenant, now - self.begun)
        self.memory_mb.append(resident_mb())
        return answers

    async def live_job_ids(self, job_ids: list[str]) -> set[str]:
        return await self.fleet.live_job_ids(job_ids)


def resident_mb() -> float:
    """Of this process (Linux)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4_096 / 1_048_576


def measure(options: Options) -> list[Figure]:
    with postgres_up(options.folder) as database_url, redis_up(options.folder) as redis:
        return asyncio.run(_measure(options, database_url, redis.url))


async def _measure(options: Options, database_url: str, redis_url: str) -> list[Figure]:
    rows, tenants = options.count(ROWS, 2_000), options.count(TENANTS, 50)
    database, fleet = await Database.open(database_url), Fleet(redis_url)
    try:
        async with database.fleet() as connection:
            await connection.execute(OWE_UNITS, rows, tenants)
        watched = Watched(fleet)
        switch = KillSwitch(FlipperTables(database), database)
        recovery = RecoveryPass(Reconciler(database, watched, switch, grace_s=60))
        watched.begun = time.perf_counter()
        done = await recovery.once()
        took = time.perf_counter() - watched.begun
    finally:
        await fleet.close()
        await database.close()
    assert done.reconciled.requeued == rows, "what is owed was not all given back"
    quarter = max(1, len(watched.memory_mb) // 4)
    grown = watched.memory_mb[-1] / watched.memory_mb[quarter - 1]
    last = sample([max(watched.served_at.values()) if len(watched.served_at) == tenants else float("inf")], "s")
    p99 = sample([_p99(watched.calls_ms)], "ms")
    memory = sample([grown])
    checks = (
        limit("s until every tenant was served", last, 1, Bar.BELOW),
        limit("ms p99 a dispatch call", p99, 250, Bar.BELOW),
        limit("x the memory of the first quarter", memory, 1.1, Bar.AT_MOST),
    )
    lines = (
        Row("every tenant served", last),
        Row("dispatch call, p99", p99),
        Row("memory at the end over the first quarter", memory),
        Row("units given back a second", sample([rows / took])),
    )
    notes = (f"{rows:,} units of {tenants} tenants, each tenant's younger than all of the one before, Redis empty",)
    return [Figure("PF-13", "recovery", checks, lines, notes)]


def _p99(values: Sequence[float]) -> float:
    return quantiles(values, n=100)[98] if len(values) > 1 else values[0]
