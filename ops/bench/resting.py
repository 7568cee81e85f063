"""PF-14: what a worker weighs at rest and after a million jobs, and how soon `kbsync up` and `kbsync --help` are there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from ops.bench import contestants
from ops.bench.figures import Bar, Figure, Row, Sample, limit, ratio, sample
from ops.bench.processes import Arena, Driver, arena, environment, kbsync_up, redis_up
from ops.bench.table import Options
from ops.embedded import process

PORTIONS = 10
JOBS = 100_000  # a portion
REST_S = 5.0
WITHIN_S = 120.0
HELPS = 7
FLAT = 1.1


def measure(options: Options) -> list[Figure]:
    portion = options.count(JOBS, 1_000)
    with arena(options.folder, contestants.payload_bytes(), contestants.concurrency()) as place:
        at_rest = weight_at_rest(place, options.count(int(REST_S), 1))
        options.say(f"a worker at rest: {at_rest:.1f} MB")
        weights = weights_over_jobs(place, portion, PORTIONS, options)
    ups = start_ups(options)
    helps = [seconds_of([sys.executable, "-m", "ops.cli", "--help"]) for _ in range(options.count(HELPS, 1))]
    rest, first, last = (sample([one], "MB") for one in (at_rest, weights[0], weights[-1]))
    up = Sample(tuple(ups), "s")
    help_ = sample(helps, "s")
    jobs = PORTIONS * portion
    checks = (
        limit("MB at rest", rest, 90, Bar.BELOW),
        ratio(f"after {jobs:,} jobs of what it was after {portion:,}", last, first, FLAT, Bar.AT_MOST),
        limit("s to a first `kbsync up`", sample([ups[0]], "s"), 5, Bar.BELOW),
        limit("s for `kbsync --help`", help_, 0.4, Bar.BELOW),
    )
    rows = (
        Row("`kbsync worker`, all queues, at rest", rest),
        Row(f"the same worker of one queue, after each {portion:,} jobs", sample(weights, "MB")),
        Row("`kbsync up` to ready: an empty folder, then the same again", up),
        Row("`kbsync --help`", help_),
    )
    return [Figure("PF-14", "at rest", checks, rows, ("MB are resident pages / 1,000,000",))]


def resident_mb(pid: int) -> float:
    """Resident memory of a process (Linux), in MB of a million bytes."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def weight_at_rest(place: Arena, seconds: float) -> float:
    """`kbsync worker` of all queues, connected, with nothing to do."""
    settings = {"KBSYNC_DATABASE_URL": place.database_url}
    with (
        redis_up(place.folder) as server,
        kbsync_up(place.folder, "worker", KBSYNC_REDIS_URL=server.url, **settings) as up,
    ):
        time.sleep(seconds)
        return resident_mb(up.process.pid)


def weights_over_jobs(place: Arena, portion: int, portions: int, options: Options) -> list[float]:
    """MB of one worker after each portion of jobs. Raises NoReport."""
    us = contestants.ours()
    found: list[float] = []
    with redis_up(place.folder) as server, place.worker(us, server.url, "noop") as worker:
        for number in range(portions):
            with place.producer(us, server.url, "bulk", portion, f"p{number}") as producer:
                producer.next(WITHIN_S)
            await_jobs(worker, portion * (number + 1))
            found.append(resident_mb(worker.process.pid))
            options.say(f"{portion * (number + 1):,} jobs: {found[-1]:.1f} MB")
    return found


def await_jobs(worker: Driver, jobs: int) -> None:
    deadline = time.monotonic() + WITHIN_S
    while True:
        report = worker.next(deadline - time.monotonic())
        if report.word == "count" and int(report.rest[0]) >= jobs:
            return


def start_ups(options: Options) -> list[float]:
    """Seconds from the start of `kbsync up` to its word that it is up: in an empty folder, then with what is there."""
    home = options.folder / "home"
    home.mkdir()
    return [seconds_up(home, number) for number in range(2)]


def seconds_up(home: Path, number: int) -> float:
    """Raises RuntimeError when it did not come up."""
    log = home.parent / f"up-{number}.log"
    begun = time.monotonic()
    up = process.start(
        [sys.executable, "-m", "ops.cli", "up", "--port", "0"], log, env=environment(KBSYNC_HOME=str(home))
    )
    with ExitStack() as stopping:
        stopping.callback(process.stop, up, signal.SIGTERM, 30)
        process.wait_until(lambda: b"kbsync is up" in log.read_bytes(), up, log, "kbsync up", 60)
        return time.monotonic() - begun


def seconds_of(command: Sequence[str]) -> float:
    begun = time.monotonic()
    subprocess.run(command, capture_output=True, check=True, env=environment(), timeout=30)
    return time.monotonic() - begun
