"""PF-01: how fast a worker empties a queue of jobs that do nothing, beside its peers in the same run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import ExitStack

from kbsync.queue.fleet import Fleet
from kbsync.queue.operators import QueueOperator
from ops.bench import contestants
from ops.bench.contest import Contest, settings_notes
from ops.bench.contestants import Contestant
from ops.bench.figures import Bar, Figure, Row, ratio, sample
from ops.bench.ours import QUEUE
from ops.bench.processes import Arena, Driver, NoReport, arena, redis_up
from ops.bench.table import Options

WITHIN_S = 90.0
SHARE_S = 0.1  # of several workers each is listened to in turn; their counts carry their own times


def measure(options: Options) -> list[Figure]:
    contest = Contest("PF-01", options, "jobs/s")
    pairs: list[float] = []
    with arena(options.folder, contestants.payload_bytes(), contestants.concurrency()) as place:

        def once(one: Contestant) -> float:
            jobs = options.count(one.drain, one.drain // 20)
            if one is contest.us:
                pairs.append(drain(place, one, 2 * jobs, processes=2))
            return drain(place, one, jobs)

        contest.run(once)
    two = sample(pairs, "jobs/s")
    checks = (
        ratio("BullMQ Node", contest.ours, contest.of("bullmq-node"), 3),
        ratio("arq", contest.ours, contest.of("arq"), 30),
        ratio("one process with two", two, contest.ours, 1, Bar.ABOVE),
    )
    first, *others = contest.rows("kbsync, one process")
    rows = (first, Row("kbsync, two processes", two), *others)
    return [Figure("PF-01", "drain", checks, rows, settings_notes(contest.field))]


def drain(place: Arena, one: Contestant, jobs: int, work: str = "noop", processes: int = 1) -> float:
    """Jobs a second from the first job's start to the last one's end, with all of them waiting before. Raises NoReport.

    More than one process (kbsync alone): all are connected before the first job may start."""
    with redis_up(place.folder) as server, ExitStack() as running:
        with place.producer(one, server.url, "bulk", jobs) as producer:
            producer.next(WITHIN_S)
        if processes > 1:
            asyncio.run(_pause(server.url))
        workers = [running.enter_context(place.worker(one, server.url, work)) for _ in range(processes)]
        if processes > 1:
            asyncio.run(_resume_when_all_are_there(server.url, processes))
        return jobs / await_count(workers, jobs, WITHIN_S)


def await_count(workers: Sequence[Driver], jobs: int, within_s: float) -> float:
    """Seconds from the first start to the last end of `jobs` jobs that the workers run together. Raises NoReport."""
    told: dict[Driver, tuple[int, int, int]] = {}
    deadline = time.monotonic() + within_s
    while sum(count for count, _, _ in told.values()) < jobs:
        for worker in workers:
            share = SHARE_S if len(workers) > 1 else deadline - time.monotonic()
            try:
                report = worker.next(share)
            except NoReport:
                if len(workers) == 1 or worker.process.poll() is not None or time.monotonic() > deadline:
                    raise
                continue
            if report.word == "count":
                count, first, last = (int(part) for part in report.rest)
                told[worker] = (count, first, last)
    return (max(last for _, _, last in told.values()) - min(first for _, first, _ in told.values())) / 1e9


async def _pause(url: str) -> None:
    fleet = Fleet(url)
    await QueueOperator(fleet.queue(QUEUE)).pause()
    await fleet.close()


async def _resume_when_all_are_there(url: str, processes: int) -> None:
    fleet = Fleet(url)
    try:
        async with asyncio.timeout(30):
            while len(await fleet.queue(QUEUE).workers()) < processes:
                await asyncio.sleep(0.05)
        await QueueOperator(fleet.queue(QUEUE)).resume()
    finally:
        await fleet.close()
