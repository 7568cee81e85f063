"""PF-05: how many requests one API process takes in a second, in calls of a thousand and in calls of one."""

from __future__ import annotations

import itertools
import subprocess
import sys

from kbsync.library.principals import Role
from ops.bench.figures import Bar, Figure, Row, limit, sample
from ops.bench.processes import environment, kbsync_up, new_token, postgres_up, redis_up
from ops.bench.table import Options

BATCH = 1_000
BATCHES_AT_ONCE, SINGLES_AT_ONCE = 4, 32
WITHIN_S = 120.0


def measure(options: Options) -> list[Figure]:
    in_batches: list[float] = []
    singly: list[float] = []
    with (
        postgres_up(options.folder) as database_url,
        redis_up(options.folder) as server,
        kbsync_up(
            options.folder,
            "api",
            KBSYNC_DATABASE_URL=database_url,
            KBSYNC_REDIS_URL=server.url,
            KBSYNC_API_REQUESTS_PER_SECOND="10000000",
        ) as api,
    ):
        token = new_token(database_url, Role.PRODUCER)
        documents = itertools.count(1, 10_000_000)  # each load asks for documents of its own
        load(api.port, token, 1, BATCH, 1, next(documents))
        for _ in range(options.rounds):
            batches, singles = options.count(100, 5), options.count(6_000, 200)
            in_batches.append(load(api.port, token, batches, BATCH, BATCHES_AT_ONCE, next(documents)))
            options.say(f"{in_batches[-1]:,.0f} requests/s in calls of {BATCH:,}")
            singly.append(load(api.port, token, singles, 1, SINGLES_AT_ONCE, next(documents)))
            options.say(f"{singly[-1]:,.0f} requests/s in calls of one")
    many, one = sample(in_batches, "requests/s"), sample(singly, "requests/s")
    checks = (
        limit("requests/s in batches", many, 30_000, Bar.AT_LEAST),
        limit("requests/s singly", one, 2_000, Bar.AT_LEAST),
    )
    rows = (
        Row(f"calls of {BATCH:,} requests, {BATCHES_AT_ONCE} connections", many),
        Row(f"calls of one request, {SINGLES_AT_ONCE} connections", one),
    )
    notes = (
        "one API process, durable Postgres, every request for a document that was not asked for before; no worker runs; the "
        "rate limit of a token is out of the way (KBSYNC_API_REQUESTS_PER_SECOND)",
    )
    return [Figure("PF-05", "enqueue API", checks, rows, notes)]


def load(port: int, token: str, calls: int, size: int, connections: int, first: int) -> float:
    """Requests a second. Raises RuntimeError when a call was refused."""
    numbers = {"calls": calls, "size": size, "connections": connections, "first": first}
    words = [word for name, value in numbers.items() for word in (f"--{name}", str(value))]
    done = subprocess.run(
        [sys.executable, "-m", "ops.bench.http_load", str(port), token, *words],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        env=environment(),
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"the load generator failed: {done.stderr[-500:]}")
    requests, took_ns = (int(part) for part in done.stdout.split()[1:])
    return requests / (took_ns / 1e9)
