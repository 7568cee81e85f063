"""PF-03: from the enqueue call of another process to the job's first line, on a queue with nothing to do; and what an idle
worker asks of Redis."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from statistics import quantiles

from ops.bench import contestants
from ops.bench.calls import Calls, counted
from ops.bench.contest import Contest, settings_notes
from ops.bench.contestants import Contestant
from ops.bench.figures import Bar, Figure, Row, limit, sample
from ops.bench.processes import Arena, Driver, arena, redis_up
from ops.bench.table import Options

PICK_UPS = 200
IDLE_S = 20.0  # two of the longest periods of an idle worker, its BLPOP's 10 s
WITHIN_S = 30.0


@dataclass(frozen=True)
class Waits:
    """In ms."""

    p50: float
    p99: float


def measure(options: Options) -> list[Figure]:
    contest = Contest("PF-03", options, "ms")
    worst: dict[str, list[float]] = {}
    with arena(options.folder, contestants.payload_bytes(), contestants.concurrency()) as place:

        def once(one: Contestant) -> float:
            waits = pick_ups(place, one, options.count(PICK_UPS, 40))
            worst.setdefault(one.key, []).append(waits.p99)
            return waits.p50

        contest.run(once)
        idle_s = options.count(int(IDLE_S), 5)
        calls = idle_calls(place, contest.us, idle_s)
    p99 = sample(worst[contest.us.key], "ms")
    by_clients, in_scripts = (sample([found.total() / idle_s]) for found in (calls.by_clients, calls.in_scripts))
    checks = (
        *contest.against_the_best(1, Bar.BELOW),
        limit("ms p99", p99, 3, Bar.BELOW),
        limit("Redis calls/s when idle", by_clients, 2, Bar.BELOW),
    )
    rows = [Row(f"{row.what}, p50", row.sample, row.note) for row in contest.rows()]
    rows += [Row(f"{one.name}, p99", sample(worst[one.key], "ms")) for one in contest.field.peers if one.key in worst]
    rows += [
        Row("kbsync, p99", p99),
        Row("idle kbsync, calls/s by the client", by_clients),
        Row("idle kbsync, commands/s inside scripts", in_scripts),
    ]
    return [Figure("PF-03", "pick-up", checks, tuple(rows), (f"idle for {idle_s} s", *settings_notes(contest.field)))]


def pick_ups(place: Arena, one: Contestant, count: int) -> Waits:
    """One job each 20 ms, after one that shows that the worker is there. Raises NoReport."""
    with redis_up(place.folder) as server, place.worker(one, server.url, "stamp") as worker:
        with place.producer(one, server.url, "ping", 1, "warm") as producer:
            stamps(producer, 1)
            stamps(worker, 1)
        time.sleep(0.5)
        with place.producer(one, server.url, "ping", count + 5) as producer:
            started = stamps(worker, count + 5)
            called = stamps(producer, count + 5)
    waits = [(started[job] - at) / 1e6 for job, at in list(called.items())[5:]]  # the first ones make connections
    return Waits(quantiles(waits, n=2)[0], quantiles(waits, n=100)[98])


def stamps(driver: Driver, count: int, within_s: float = WITHIN_S) -> dict[str, int]:
    """Job id -> when, in ns, of the next `count` stamps. Raises NoReport."""
    found: dict[str, int] = {}
    deadline = time.monotonic() + within_s
    while len(found) < count:
        report = driver.next(deadline - time.monotonic())
        if report.word == "stamp":
            found[report.rest[0]] = int(report.rest[1])
    return found


def idle_calls(place: Arena, us: Contestant, seconds: float) -> Calls:
    """What a worker that has run a job and has no other asks of Redis."""
    with redis_up(place.folder) as server, place.worker(us, server.url, "stamp") as worker:
        with place.producer(us, server.url, "ping", 1, "warm") as producer:
            stamps(producer, 1)
            stamps(worker, 1)
        time.sleep(1)
        return asyncio.run(_calls_within(server.url, seconds))


async def _calls_within(url: str, seconds: float) -> Calls:
    async with counted(url) as calls:
        await asyncio.sleep(seconds)
    return calls
