"""A small look at the queue's speed: `python -m ops.bench.drain [--jobs N] [--concurrency N] [--tenants N] [--asyncio]`.

Enqueues N no-op jobs in batches of 1,000, drains them with one worker with everything on, then measures pick-up on the
idle queue and 50 ms jobs. Prints rates and CPU per job (worker and Redis apart), which drift less on a busy machine.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles

from kbsync.queue import loop
from kbsync.queue.fleet import Fleet
from kbsync.queue.jobs import Completed, Handler, JobEnd, JobRequest, RunningJob
from kbsync.queue.worker import FleetWorker
from ops.embedded.redis import EmbeddedRedis

PICK_UPS = 200
SLEEPERS, SLEEP_S = 2_000, 0.05
DONE = Completed()


def cpu_s(pid: int | None = None) -> float:
    """CPU seconds of this process, or of another (Linux)."""
    if pid is None:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return used.ru_utime + used.ru_stime
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


class Bench:
    def __init__(self, server: EmbeddedRedis, options: argparse.Namespace) -> None:
        self.server = server
        self.options = options
        self.fleet = Fleet(server.url)
        self.left = 0
        self.done = asyncio.Event()
        self.started_at: list[float] = []
        self.handlers: dict[str, Handler] = {"noop": self.noop, "timed": self.timed, "sleep": self.sleep}

    def worker(self) -> FleetWorker:
        return FleetWorker(
            self.server.url, "bench", self.handlers, concurrency=self.options.concurrency, job_timeout_s=300
        )

    def count_down(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.done.set()

    async def noop(self, job: RunningJob) -> JobEnd:
        self.count_down()
        return DONE

    async def timed(self, job: RunningJob) -> JobEnd:
        self.started_at.append(time.perf_counter())
        self.count_down()
        return DONE

    async def sleep(self, job: RunningJob) -> JobEnd:
        await asyncio.sleep(SLEEP_S)
        self.count_down()
        return DONE

    def requests(self, kind: str, count: int) -> list[JobRequest]:
        tenants = self.options.tenants
        return [
            JobRequest(f"{kind}-{n}", kind, {"document_id": n, "version": 1}, f"org-{n % tenants}")
            for n in range(count)
        ]

    async def enqueue(self) -> None:
        requests = self.requests("noop", self.options.jobs)
        await self.fleet.enqueue("bench", self.requests("warm", 1))
        used, begun = cpu_s(self.server.pid), time.perf_counter()
        for first in range(0, len(requests), 1_000):
            await self.fleet.enqueue("bench", requests[first : first + 1_000])
        took = time.perf_counter() - begun
        redis_us = (cpu_s(self.server.pid) - used) / len(requests) * 1e6
        print(f"enqueue   {len(requests) / took:10,.0f} /s      Redis {redis_us:5.1f} us a job")

    async def drain(self, kind: str, count: int) -> None:
        self.left = count
        self.done.clear()
        worker = self.worker()
        ours, theirs, begun = cpu_s(), cpu_s(self.server.pid), time.perf_counter()
        task = asyncio.create_task(worker.run())
        await self.done.wait()
        took = time.perf_counter() - begun
        ours, theirs = cpu_s() - ours, cpu_s(self.server.pid) - theirs
        worker.request_stop()
        await task
        us = 1e6 / count
        print(f"{kind:9} {count / took:10,.0f} jobs/s  worker {ours * us:5.1f} us, Redis {theirs * us:5.1f} us a job")

    async def pick_up(self) -> None:
        worker = self.worker()
        task = asyncio.create_task(worker.run())
        await asyncio.sleep(0.3)
        waits: list[float] = []
        for n in range(PICK_UPS):
            self.left = 1
            self.done.clear()
            begun = time.perf_counter()
            await self.fleet.enqueue("bench", [JobRequest(f"timed-{n}", "timed", {"n": n}, "org-1")])
            await self.done.wait()
            waits.append((self.started_at[-1] - begun) * 1e3)
            await asyncio.sleep(0.01)
        worker.request_stop()
        await task
        print(f"pick-up   p50 {median(waits):.2f} ms, p99 {quantiles(waits, n=100)[98]:.2f} ms")

    async def run(self) -> None:
        await self.enqueue()
        await self.drain("noop", self.options.jobs)
        await self.pick_up()
        await self.fleet.enqueue("bench", self.requests("sleep", SLEEPERS))
        await self.drain("sleep", SLEEPERS)
        await self.fleet.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=30_000)
    parser.add_argument("--concurrency", type=int, default=100)
    parser.add_argument("--tenants", type=int, default=1)
    parser.add_argument("--asyncio", action="store_true", help="not uvloop")
    parser.add_argument("--redis", type=Path, help="a server binary, else the embedded one")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server = EmbeddedRedis(Path(folder), keep=False, binary=options.redis)
        server.start()
        try:
            (asyncio.run if options.asyncio else loop.run)(_bench(server, options))
        finally:
            server.stop()


async def _bench(server: EmbeddedRedis, options: argparse.Namespace) -> None:
    await Bench(server, options).run()


if __name__ == "__main__":
    main()
