"""PF-02: jobs that wait for something, against the same jobs with no queue at all, and against the peers."""

from __future__ import annotations

import sys
from dataclasses import replace

from ops.bench import contestants
from ops.bench.contest import Contest, settings_notes
from ops.bench.contestants import Contestant
from ops.bench.draining import WITHIN_S, await_count, drain
from ops.bench.figures import Bar, Figure, Row, ratio, sample
from ops.bench.peers.driver import SLEEP_S
from ops.bench.processes import Arena, arena
from ops.bench.table import Options

JOBS = 2_000


def measure(options: Options) -> list[Figure]:
    contest = Contest("PF-02", options, "jobs/s")
    jobs = options.count(JOBS, JOBS // 5)
    alone: list[float] = []
    with arena(options.folder, contestants.payload_bytes(), contestants.concurrency()) as place:

        def once(one: Contestant) -> float:
            if one is contest.us:
                alone.append(no_queue(place, one, jobs))
            return drain(place, one, jobs, "sleep")

        contest.run(once)
    bare = sample(alone, "jobs/s")
    checks = (
        ratio("the loop with no queue", contest.ours, bare, 0.95),
        *contest.against_the_best(1, Bar.ABOVE),
    )
    rows = (Row("no queue", bare, "coroutines on the loop that a worker uses"), *contest.rows())
    ideal = contestants.concurrency() / SLEEP_S
    notes = (
        f"{jobs:,} jobs of {SLEEP_S * 1000:.0f} ms; nothing can be faster than {ideal:,.0f}/s",
        *settings_notes(contest.field),
    )
    return [Figure("PF-02", "I/O jobs", checks, rows, notes)]


def no_queue(place: Arena, us: Contestant, jobs: int) -> float:
    alone = replace(us, key="no-queue", name="no queue", command=[sys.executable, "-m", "ops.bench.no_queue"])
    with place.worker(replace(alone, arguments=["--count", str(jobs)]), "none", "sleep") as running:
        return jobs / await_count([running], jobs, WITHIN_S)
