"""`/workers`: every worker of every queue by its own health record, and which queues nobody serves (QU-28)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kbsync.dashboard.ask import Access, Ask
from kbsync.dashboard.page import Page
from kbsync.dashboard.standing import QUIET_S, workers_of
from kbsync.dashboard.words import count
from kbsync.domain.ids import QueueName
from kbsync.queue.fleet import unavailable_if_redis_fails

GONE_AFTER_S = 15


async def _read(ask: Ask) -> Mapping[str, Any]:
    workers, unserved = [], []
    for name in QueueName:
        queue = ask.services.fleet.queue(name)
        async with unavailable_if_redis_fails(name):
            found = await workers_of(queue)
            if not found:
                unserved.append((name, await queue.counts()))
        workers += found
    waiting = [name for name, counts in unserved if counts.waiting or counts.delayed or counts.active]
    return {
        "workers": workers,
        "unserved": unserved,
        "verdict": _verdict(len(workers), len({worker.host for worker in workers}), unserved, waiting),
        "quiet_s": QUIET_S,
        "gone_s": GONE_AFTER_S,
    }


def _verdict(workers: int, hosts: int, unserved: list[Any], waiting: Sequence[str]) -> str:
    if waiting:
        return f"Nobody serves {' and '.join(waiting)}, and jobs are there."
    if not workers:
        return "No worker runs, and nothing waits for one."
    alive = f"{count(workers, 'worker')} on {count(hosts, 'host')} {'beats' if workers == 1 else 'beat'}"
    if unserved:
        return f"{alive}. Nobody serves {' and '.join(str(name) for name, _ in unserved)}; nothing waits there."
    return f"{alive}; every queue is served."


PAGES = (Page("/workers", "workers.html", _read, Access.LOOK, live=("verdict", "workers")),)
