"""PF-08: what a provider's throttle costs: how often a job wakes up for its slot, and what a delay asks of Redis."""

from __future__ import annotations

import asyncio
import heapq
import time
from collections import Counter
from dataclasses import dataclass

from redis.asyncio import Redis

from kbsync.queue.fleet import Fleet
from ops.bench import contestants
from ops.bench.calls import Calls, counted
from ops.bench.figures import Bar, Check, Figure, Row, sample
from ops.bench.ours import QUEUE, THROTTLED_SCOPE, job_of
from ops.bench.peers.driver import requests
from ops.bench.pick_up import stamps
from ops.bench.processes import Arena, Driver, arena, redis_up
from ops.bench.table import Options
from ratelimits.limits import Limit
from ratelimits.throttle import ComeBackAt, Throttle

DOCUMENTS = 158
FOUR_A_MINUTE = Limit(4, 60)
START_MS = 1_790_000_007_300  # some time inside a minute
WITHIN_S = 30.0


@dataclass(frozen=True)
class Simulated:
    """How it went for all jobs: when each ran, and how often each asked for a slot."""

    ran_ms: tuple[int, ...]
    takes: Counter[str]

    def busiest(self, limit: Limit) -> int:
        return max(Counter(at // limit.window_ms for at in self.ran_ms).values())


async def simulate(redis: Redis, limit: Limit, jobs: int) -> Simulated:
    """`jobs` jobs that all want to run now, in simulated time: each sleeps as it is told and asks again."""
    throttle = Throttle(redis)
    ran: list[int] = []
    takes: Counter[str] = Counter()
    due = [(START_MS, number) for number in range(jobs)]
    while due:
        now, number = heapq.heappop(due)
        takes[f"job-{number}"] += 1
        answer = await throttle.take(THROTTLED_SCOPE, limit, f"job-{number}", now_ms=now)
        if isinstance(answer, ComeBackAt):
            heapq.heappush(due, (round(answer.until.timestamp() * 1000), number))
        else:
            ran.append(now)
    return Simulated(tuple(ran), takes)


@dataclass(frozen=True)
class Cost:
    delays: int
    calls: Calls

    @property
    def per_delay(self) -> float:
        return self.calls.by_clients.total() / self.delays


def measure(options: Options) -> list[Figure]:
    with arena(options.folder, contestants.payload_bytes(), contestants.concurrency()) as place:
        with redis_up(options.folder) as server:
            went = asyncio.run(_simulate_at(server.url))
        cost = cost_of_delays(place, DOCUMENTS)
    checks = (
        Check(" attempts", len(went.ran_ms), DOCUMENTS, Bar.AT_MOST),
        Check(" wake-ups for the busiest job", max(went.takes.values()), 2, Bar.AT_MOST),
        Check(" runs in the busiest window", went.busiest(FOUR_A_MINUTE), FOUR_A_MINUTE.count, Bar.AT_MOST),
        Check(" client commands a delay", cost.per_delay, 2, Bar.AT_MOST),
    )
    rows = (
        Row(f"slots asked for by {DOCUMENTS} jobs", sample([went.takes.total()])),
        Row("simulated time", sample([(max(went.ran_ms) - START_MS) / 60_000], "minutes")),
        Row(
            f"client commands of a worker while {cost.delays} jobs are delayed", sample([cost.calls.by_clients.total()])
        ),
    )
    notes = (
        f"{DOCUMENTS} documents of one data source at {FOUR_A_MINUTE}, in simulated time on a real server; the commands are "
        "those of a worker that claims the same documents and delays them, its idle looks included",
    )
    return [Figure("PF-08", "throttle", checks, rows, notes)]


async def _simulate_at(url: str) -> Simulated:
    fleet = Fleet(url)
    went = await simulate(fleet.client_at(url), FOUR_A_MINUTE, DOCUMENTS)
    await fleet.close()
    return went


def cost_of_delays(place: Arena, jobs: int) -> Cost:
    """A worker takes `jobs` jobs, and delays all but the few for which the window has room."""
    us = contestants.ours()
    with redis_up(place.folder) as server, place.worker(us, server.url, "throttled") as worker:
        with place.producer(us, server.url, "ping", 1, "warm") as producer:
            stamps(producer, 1)
            _await_runs(worker, 1)
        return asyncio.run(_delay_all(server.url, worker, jobs))


async def _delay_all(url: str, worker: Driver, jobs: int) -> Cost:
    fleet = Fleet(url)
    queue = fleet.queue(QUEUE)
    asked = [job_of(request) for request in requests(jobs, contestants.payload_bytes())]
    async with counted(url) as calls:
        await fleet.enqueue(QUEUE, asked)
        await asyncio.to_thread(_await_runs, worker, jobs + 1)
        await asyncio.sleep(0.2)  # the last ends are on their way
    delays = (await queue.counts()).delayed
    await fleet.close()
    calls.by_clients["EVALSHA"] -= 1  # the producer's own call
    return Cost(delays, calls)


def _await_runs(worker: Driver, runs: int) -> None:
    deadline = time.monotonic() + WITHIN_S
    while True:
        report = worker.next(deadline - time.monotonic())
        if report.word == "count" and int(report.rest[0]) >= runs:
            return
