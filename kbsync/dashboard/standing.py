"""How a queue stands now: its counts, who works on it, how fast, what holds it; and the sentence that says so (OP-05, QU-28).

A reading is a fixed number of calls, however deep the queue is (PF-07).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kbsync.dashboard.words import at_ms, count, duration, moment_text, plain_number
from kbsync.db.pool import Database
from kbsync.library.queue_pauses import QueuePause, latest_pause
from kbsync.queue.fleet import unavailable_if_redis_fails
from kbsync.queue.operators import QueueLimits, QueueOperator
from kbsync.queue.queue import FleetQueue, MinuteRate, QueueCounts

MINUTES = 30
QUIET_S = 10.0  # workers write their record every 5 s


@dataclass(frozen=True)
class Worker:
    """A health record, read with care: anybody who can write to Redis can write one."""

    host: str
    process: str
    queue: str
    concurrency: int
    active: int
    version: str
    started_at: float
    last_beat: float
    stopping: bool
    lost_leases: int

    def silent_s(self, now: datetime) -> float:
        return max(0.0, now.timestamp() - self.last_beat)

    def is_quiet(self, now: datetime) -> bool:
        return self.silent_s(now) > QUIET_S


@dataclass(frozen=True)
class Standing:
    """`pause` is who paused it last, None when that is not known, or it runs."""

    name: str
    counts: QueueCounts
    oldest_ms: int | None
    rates: Sequence[MinuteRate]
    workers: Sequence[Worker]
    limits: QueueLimits
    pause: QueuePause | None

    @property
    def slots(self) -> int:
        """How many jobs may run at once: what its workers offer, or what the queue allows."""
        offered = sum(worker.concurrency for worker in self.workers)
        return offered if self.limits.max_active is None else min(offered, self.limits.max_active)

    @property
    def ended_a_minute(self) -> list[int]:
        return [rate.ended for rate in self.rates]

    @property
    def done_a_minute(self) -> int:
        """Of the last whole minute."""
        return self.rates[-2].ended if len(self.rates) > 1 else 0

    @property
    def needs_workers(self) -> bool:
        return not self.workers and bool(self.counts.waiting or self.counts.delayed or self.counts.active)

    def oldest_s(self, now: datetime) -> float | None:
        return None if self.oldest_ms is None else max(0.0, (now - at_ms(self.oldest_ms)).total_seconds())


async def standing_of(queue: FleetQueue, database: Database) -> Standing:
    """Raises QueueUnavailable; the database is asked only when the queue is paused."""
    async with unavailable_if_redis_fails(queue.name):
        counts = await queue.counts()
        standing = Standing(
            queue.name,
            counts,
            await queue.oldest_waiting_ms() if counts.waiting else None,
            await queue.rates(MINUTES),
            await workers_of(queue),
            await QueueOperator(queue).limits(),
            None,
        )
    if not counts.paused:
        return standing
    async with database.fleet() as connection:
        return Standing(**{**vars(standing), "pause": await latest_pause(connection, queue.name)})


async def workers_of(queue: FleetQueue) -> list[Worker]:
    """Those that beat lately, in the order of their names."""
    found = [worker_of(record, queue.name) for record in await queue.workers()]
    return sorted(found, key=lambda worker: (worker.host, worker.process))


def worker_of(record: Mapping[str, Any], queue: str) -> Worker:
    def number(name: str) -> float:
        value = record.get(name)
        return float(value) if isinstance(value, int | float) and 0 <= value < 1e15 else 0.0

    parts = str(record.get("worker_id", ""))[:200].split(":")
    return Worker(
        host=str(record.get("host") or parts[0])[:100],
        process=parts[1][:20] if len(parts) > 1 else "",
        queue=queue,
        concurrency=int(number("concurrency")),
        active=int(number("active")),
        version=str(record.get("version") or "")[:40],
        started_at=number("started_at"),
        last_beat=number("last_beat"),
        stopping=record.get("stopping") is True,
        lost_leases=int(number("lost_leases")),
    )


def verdict_of(standing: Standing, now: datetime) -> str:
    """The sentence that the queue's page opens with. May hold a person's words."""
    counts = standing.counts
    if counts.paused:
        return f"{_paused(standing.pause, now)} It takes new jobs and hands out none; {_waits(counts.waiting)}."
    if standing.needs_workers:
        oldest = standing.oldest_s(now)
        since = f", the oldest for {duration(oldest)}" if oldest is not None else ""
        waits = (
            _waits(counts.waiting)
            if counts.waiting
            else f"{count(counts.delayed + counts.active, 'job')} will need one"
        )
        return f"No worker serves it: {waits}{since}. Start one: kbsync worker {standing.name}"
    if not standing.workers:
        return "Nothing waits, and no worker serves it now."
    parts = [_moving(standing, now)]
    if counts.failed:
        parts.append(
            f"{count(counts.failed, 'job')} failed for good and {'needs' if counts.failed == 1 else 'need'} a person."
        )
    return " ".join(parts)


def _paused(pause: QueuePause | None, now: datetime) -> str:
    if pause is None:
        return "Paused, outside kbsync."
    why = f": “{pause.reason}”" if pause.reason else ""
    return f"Paused by {pause.actor} at {moment_text(pause.at, now)}{why}."


def _waits(waiting: int) -> str:
    return f"{count(waiting, 'job')} {'waits' if waiting == 1 else 'wait'}" if waiting else "none waits"


def _moving(standing: Standing, now: datetime) -> str:
    counts, oldest = standing.counts, standing.oldest_s(now)
    at_work = f"{plain_number(counts.active)} of {plain_number(standing.slots)} slots are at work"
    if not counts.waiting:
        return f"Nothing waits for its turn; {at_work}."
    since = f", the oldest for {duration(oldest)}" if oldest is not None else ""
    return f"{count(counts.waiting, 'job')} {'waits' if counts.waiting == 1 else 'wait'} in line{since}; {at_work}."


def limits_text(limits: QueueLimits) -> str:
    """`at most 8 at once, 60 a minute`; empty when nothing is limited."""
    parts = []
    if limits.max_active is not None:
        parts.append(f"at most {plain_number(limits.max_active)} at once")
    if limits.limit is not None:
        window = (limits.window_ms or 60_000) / 1000
        each = "a minute" if window == 60 else "a second" if window == 1 else f"each {duration(window)}"
        parts.append(f"{plain_number(limits.limit)} {each}")
    return ", ".join(parts)
