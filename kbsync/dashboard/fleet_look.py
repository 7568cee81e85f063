"""Reads how the whole fleet stands, for the overview: a fixed number of commands and statements, whatever waits or failed.

What may be large is looked at from its newest end: of failed jobs the newest FAILED_LOOKED_AT of each queue.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from weakref import WeakKeyDictionary

from kbsync.dashboard.ask import Ask
from kbsync.dashboard.needs import (
    NAMED,
    FailedGroup,
    FlagNote,
    QueueStanding,
    SpentQuota,
    Standing,
    is_long_quota,
)
from kbsync.dashboard.throttle_look import look_at_throttles
from kbsync.dashboard.throttle_rows import Row, limit_words
from kbsync.dashboard.words import at_ms
from kbsync.domain.errors import FlagStoreUnavailable
from kbsync.domain.ids import QueueName
from kbsync.domain.states import JobState
from kbsync.library import counters, organizations, overview, recoveries
from kbsync.library.counters import Counted
from kbsync.library.overview import CrawlUnderWay, HeldRemoval, LastTick, SourceBehind, SourcesStanding
from kbsync.library.recoveries import RecoveredHour, RecoveryBeat
from kbsync.queue.fleet import unavailable_if_redis_fails
from kbsync.queue.operators import QueueLimits, QueueOperator
from kbsync.queue.queue import FleetQueue, MinuteRate, QueueCounts
from kbsync.queue.views import JobView
from ratelimits.limits import Limit

MINUTES = 30
FAILED_LOOKED_AT = 200
_FAILED_AT_ONCE = 50  # a failed job's record may hold a payload of 256 KiB
WINDOWS_LOOKED_AT = 100
HOURS = 24


@dataclass(frozen=True)
class WorkerLook:
    """A worker's own health record, as far as it can be read."""

    worker_id: str
    queue: str
    host: str
    version: str
    active: int
    slots: int
    up_since: datetime | None
    last_beat: datetime | None
    stopping: bool


@dataclass(frozen=True)
class QueueLook:
    """`minutes`: jobs ended in each of the last whole minutes. `failed` are the newest failed jobs, looked at in part."""

    name: str
    counts: QueueCounts
    limits: QueueLimits
    oldest: datetime | None
    minutes: Sequence[int]
    workers: Sequence[WorkerLook]
    failed: Sequence[JobView]

    @property
    def slots(self) -> int:
        """How many jobs may run at once now."""
        slots = sum(worker.slots for worker in self.workers if not worker.stopping)
        return slots if self.limits.max_active is None else min(slots, self.limits.max_active)

    @property
    def limiter(self) -> str:
        """`60 a minute`, or nothing."""
        limit, window_ms = self.limits.limit, self.limits.window_ms
        return limit_words(Limit(limit, window_ms / 1000)) if limit and window_ms else ""

    @property
    def done_a_minute(self) -> int:
        return self.minutes[-1] if self.minutes else 0


@dataclass(frozen=True)
class LibraryLook:
    sources: SourcesStanding
    behind: Sequence[SourceBehind]
    held: Sequence[HeldRemoval]
    crawls: Sequence[CrawlUnderWay]
    tick: LastTick | None
    recovery: RecoveryBeat | None
    hours: Sequence[RecoveredHour]
    failed_a_day: int
    names: dict[int, str]


@dataclass(frozen=True)
class FleetLook:
    queues: Sequence[QueueLook]
    throttles: Sequence[Row]
    library: LibraryLook
    standing: Standing

    @property
    def workers(self) -> list[WorkerLook]:
        return [worker for queue in self.queues for worker in queue.workers]


async def look_at_fleet(ask: Ask) -> FleetLook:
    """Raises ServerUnavailable when the fleet can't be seen; a flag that can't be read is part of how it stands."""
    services = ask.services
    queues = [await _queue(services.fleet.queue(name)) for name in QueueName]
    throttles = (await look_at_throttles(services, WINDOWS_LOOKED_AT)).rows
    library = await _library(ask, _tenants(queues))
    standing = Standing(
        now=ask.now,
        queues=[
            QueueStanding(
                queue.name,
                queue.counts.waiting,
                len(queue.workers),
                queue.counts.paused,
                (ask.now - queue.oldest).total_seconds() if queue.oldest else None,
            )
            for queue in queues
        ],
        failed=failed_groups(queues, library.names),
        failed_sources=[one for one in library.behind if one.status == "failed"][:NAMED],
        failed_sources_many=library.sources.failed,
        held=library.held[:NAMED],
        held_many=library.sources.held,
        quotas=[
            SpentQuota(row.name, row.closed_until, row.reason)
            for row in throttles
            if row.closed_until and is_long_quota(row.closed_until, row.reason, ask.now)
        ],
        tick=library.tick,
        recovery=library.recovery,
        flag=await _flag(ask),
    )
    return FleetLook(queues, throttles, library, standing)


def failed_groups(queues: Sequence[QueueLook], names: dict[int, str]) -> list[FailedGroup]:
    """The looked-at failed jobs by queue, tenant and what their error says, the largest group first.

    A source's own job is left out: how its last run ended stands at the source."""
    found: dict[tuple[str, str, str], list[JobView]] = {}
    in_part = {queue.name for queue in queues if queue.counts.failed > len(queue.failed)}
    for queue in queues:
        for job in queue.failed:
            if job.kind != "sync_source":
                found.setdefault((queue.name, job.tenant, _said(job)), []).append(job)
    groups = [
        FailedGroup(
            queue,
            tenant,
            who(tenant, names),
            error,
            " ".join(str((jobs[0].error or {}).get("message") or "").split())[:200].rstrip("."),
            len(jobs),
            at_ms(min(job.ended_ms or 0 for job in jobs)),
            queue in in_part,
        )
        for (queue, tenant, error), jobs in found.items()
    ]
    return sorted(groups, key=lambda group: -group.many)


def _said(job: JobView) -> str:
    """How the job's error begins: what a filter finds it, and its like, by."""
    error = job.error or {}
    return " ".join(str(error.get("message") or error.get("type") or job.reason or "unreadable").split())[:100]


def who(tenant: str, names: dict[int, str]) -> str:
    """A job's tenant as people call it."""
    number = organization_of(tenant)
    if number is not None:
        return names.get(number, f"organization {number}")
    return "the fleet" if tenant == "fleet" else tenant or "nobody known"


def organization_of(tenant: str) -> int | None:
    digits = tenant.removeprefix("org-")
    fits = tenant.startswith("org-") and digits.isascii() and digits.isdigit() and len(digits) <= 18
    return int(digits) if fits else None


def _tenants(queues: Sequence[QueueLook]) -> set[int]:
    found = {organization_of(job.tenant) for queue in queues for job in queue.failed}
    return {one for one in found if one is not None}


async def _queue(queue: FleetQueue) -> QueueLook:
    async with unavailable_if_redis_fails(queue.name):
        counts = await queue.counts()
        oldest = await queue.oldest_waiting_ms() if counts.waiting else None
        return QueueLook(
            queue.name,
            counts,
            await QueueOperator(queue).limits(),
            at_ms(oldest) if oldest is not None else None,
            _whole_minutes(await queue.rates(MINUTES + 1)),
            [worker_look(record) for record in await queue.workers()],
            await _failed.newest(queue, counts.failed),
        )


def _whole_minutes(rates: Sequence[MinuteRate]) -> list[int]:
    """Without the minute that runs, which would look like a fall."""
    return [rate.ended for rate in rates[:-1]]


class _FailedJobs:
    """The newest failed jobs of each queue, read again only when there are others: their records may be large."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[FleetQueue, tuple[tuple[int, str, int | None], list[JobView]]] = (
            WeakKeyDictionary()
        )

    async def newest(self, queue: FleetQueue, many: int) -> list[JobView]:
        if not many:
            return []
        first = (await queue.page(JobState.FAILED, limit=1)).jobs
        seal = (many, first[0].job_id if first else "", first[0].ended_ms if first else None)
        known = self._known.get(queue)
        if known is not None and known[0] == seal:
            return known[1]
        jobs: list[JobView] = []
        cursor = None
        while len(jobs) < FAILED_LOOKED_AT:
            page = await queue.page(JobState.FAILED, cursor=cursor, limit=_FAILED_AT_ONCE)
            jobs += page.jobs
            cursor = page.cursor
            if cursor is None:
                break
        self._known[queue] = (seal, jobs)
        return jobs


_failed = _FailedJobs()


def worker_look(record: dict[str, Any]) -> WorkerLook:
    return WorkerLook(
        str(record.get("worker_id", ""))[:200],
        str(record.get("queue", ""))[:200],
        str(record.get("host", ""))[:200],
        str(record.get("version", ""))[:50],
        _count(record.get("active")),
        _count(record.get("concurrency")),
        _moment(record.get("started_at")),
        _moment(record.get("last_beat")),
        bool(record.get("stopping")),
    )


def _count(value: object) -> int:
    return max(0, int(value)) if isinstance(value, (int, float)) and abs(value) < 1e9 else 0


def _moment(value: object) -> datetime | None:
    return at_ms(value * 1000) if isinstance(value, (int, float)) and 0 < value < 1e11 else None


async def _library(ask: Ask, tenants: set[int]) -> LibraryLook:
    async with ask.services.database.fleet() as connection:
        since = ask.now - timedelta(hours=HOURS - 1)
        amounts = await counters.totals(connection, since, ask.now)
        return LibraryLook(
            sources=await overview.sources_standing(connection),
            behind=await overview.sources_behind(connection, 5),
            held=await overview.held_removals(connection, 5),
            crawls=await overview.crawls_under_way(connection, 4),
            tick=await overview.last_tick(connection),
            recovery=await recoveries.last_pass(connection),
            hours=await recoveries.recovered_hours(connection, HOURS),
            failed_a_day=sum(amount for (_, name), amount in amounts.items() if name == Counted.FAILED),
            names=await organizations.names_of(connection, sorted(tenants)) if tenants else {},
        )


async def _flag(ask: Ask) -> FlagNote:
    try:
        state = await ask.services.kill_switch.describe()
    except FlagStoreUnavailable:
        return FlagNote(readable=False)
    return FlagNote(True, state.for_all is not None, state.overdue, state.owner, state.review_by)
