"""PF-04: how fast jobs go in, in batches and one by one; and that one takes one round trip."""

from __future__ import annotations

import asyncio

from kbsync.queue.fleet import Fleet
from ops.bench import contestants
from ops.bench.calls import Calls, counted
from ops.bench.contest import Contest, settings_notes
from ops.bench.contestants import Contestant
from ops.bench.figures import Bar, Check, Figure, Row, sample
from ops.bench.ours import QUEUE, job_of
from ops.bench.peers.driver import BATCH, requests
from ops.bench.processes import Arena, arena_without_postgres, redis_up
from ops.bench.table import Options

WITHIN_S = 60.0
ONE_BY_ONE = 100


def measure(options: Options) -> list[Figure]:
    contest = Contest("PF-04", options, "jobs/s")
    singles: dict[str, list[float]] = {}
    place = arena_without_postgres(options.folder, contestants.payload_bytes(), contestants.concurrency())

    def once(one: Contestant) -> float:
        count = options.count(one.one_by_one, one.one_by_one // 20)
        singles.setdefault(one.key, []).append(enqueue(place, one, "single", count))
        return enqueue(place, one, "bulk", options.count(one.enqueue, one.enqueue // 10))

    contest.run(once)
    with redis_up(options.folder) as server:
        calls = asyncio.run(calls_of_singles(server.url, ONE_BY_ONE))
    trips = calls.by_clients.total() / ONE_BY_ONE
    checks = (
        *contest.against_the_best(1.3, Bar.AT_LEAST),
        Check(" round trips for one", trips, 1, Bar.AT_MOST),
    )
    rows = [Row(f"{row.what}, in batches", row.sample, row.note) for row in contest.rows()]
    rows += [
        Row(f"{one.name}, one by one", sample(singles.get(one.key, []), "jobs/s"))
        for one in [contest.us, *contest.field.peers]
    ]
    return [Figure("PF-04", "enqueue", checks, tuple(rows), (f"batches of {BATCH:,}", *settings_notes(contest.field)))]


def enqueue(place: Arena, one: Contestant, how: str, count: int) -> float:
    """Jobs a second of the enqueue calls of one process, on an empty server. Raises NoReport."""
    with redis_up(place.folder) as server, place.producer(one, server.url, how, count) as producer:
        report = producer.next(WITHIN_S)
        jobs, took_ns = (int(part) for part in report.rest)
        return jobs / (took_ns / 1e9)


async def calls_of_singles(url: str, count: int) -> Calls:
    """What `count` enqueue calls of one job each ask of Redis, once the script is known there."""
    fleet = Fleet(url)
    first, *rest = requests(count + 1, contestants.payload_bytes())
    await fleet.enqueue(QUEUE, [job_of(first)])
    async with counted(url) as calls:
        for request in rest:
            await fleet.enqueue(QUEUE, [job_of(request)])
    await fleet.close()
    return calls
