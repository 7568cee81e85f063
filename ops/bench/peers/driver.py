"""What every driver shares, on the standard library alone: it also runs in environments that hold one peer and nothing else.

    <driver> URL worker --work noop|sleep|stamp|hang --concurrency N
    <driver> URL bulk|single --count N           enqueues N jobs, says how long the calls took
    <driver> URL ping --count N --gap-ms N       enqueues one job after the other, says when each call began

A driver reports on standard output, in lines that begin with `@`. Times are ns of the machine's monotonic clock, which all
processes share:

    @count <jobs ended> <first start> <last end>
    @stamp <job id> <at>                         a job's first line, or the moment before its enqueue call
    @took <jobs> <ns>
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

WORK = ("noop", "sleep", "stamp", "hang", "throttled")  # the last one is kbsync's alone
BATCH = 1_000
SLEEP_S = 0.05
REPORT_EVERY_S = 0.02


def report(*words: object) -> None:
    sys.stdout.write("@" + " ".join(map(str, words)) + "\n")
    sys.stdout.flush()


@dataclass(frozen=True)
class Request:
    """A job to ask for: its id, and a text that brings its payload to the agreed size."""

    id: str
    text: str


def requests(count: int, payload_bytes: int, prefix: str = "job") -> list[Request]:
    """`count` requests whose payload, as compact JSON, is about `payload_bytes` long."""
    empty = len('{"id":"job-0000000","text":""}')
    text = "x" * max(0, payload_bytes - empty)
    return [Request(f"{prefix}-{number:07}", text) for number in range(count)]


class Work:
    """What a job does, and the count of what was done. `run` is a coroutine; `run_in_thread` is for threaded peers."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.done = 0
        self.first = 0
        self.last = 0

    async def run(self, job_id: str) -> None:
        if not self.first:
            self.first = time.monotonic_ns()
        if self.kind in ("stamp", "hang"):
            report("stamp", job_id, time.monotonic_ns())
        if self.kind == "sleep":
            await asyncio.sleep(SLEEP_S)
        elif self.kind == "hang":
            await asyncio.sleep(3_600)
        self.last = time.monotonic_ns()
        self.done += 1

    def run_in_thread(self, job_id: str) -> None:
        if not self.first:
            self.first = time.monotonic_ns()
        if self.kind in ("stamp", "hang"):
            report("stamp", job_id, time.monotonic_ns())
        if self.kind in ("sleep", "hang"):
            time.sleep(SLEEP_S if self.kind == "sleep" else 3_600)
        self.last = time.monotonic_ns()
        self.done += 1

    def keep_reporting(self) -> None:
        """Tells the count, whenever it changed, from a thread of its own that ends with the process."""
        threading.Thread(target=self._report_changes, daemon=True).start()

    def _report_changes(self) -> None:
        told = 0
        while True:
            time.sleep(REPORT_EVERY_S)
            done, last = self.done, self.last
            if done != told:
                told = done
                report("count", done, self.first, last)


class Producer(Protocol):
    async def one(self, request: Request) -> None:
        """Enqueues one job, as the peer's documentation does it."""
        ...

    async def many(self, batch: Sequence[Request]) -> None:
        """Enqueues a batch by the peer's bulk call; without one, its single calls side by side."""
        ...


OpenProducer = Callable[[argparse.Namespace], Awaitable[Producer]]
RunWorker = Callable[[argparse.Namespace, Work], Coroutine[Any, Any, None]]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("command", choices=("worker", "bulk", "single", "ping"))
    parser.add_argument("--work", default="noop", choices=WORK)
    parser.add_argument("--concurrency", type=int, default=100)
    parser.add_argument("--count", type=int, default=1_000)
    parser.add_argument("--payload-bytes", type=int, default=200)
    parser.add_argument("--prefix", default="job", help="of the ids")
    parser.add_argument("--gap-ms", type=float, default=20)
    parser.add_argument("--poll-delay", type=float, default=0, help="arq alone: seconds")
    return parser.parse_args()


def main(open_producer: OpenProducer, run_worker: RunWorker) -> None:
    options = arguments()
    if options.command == "worker":
        work = Work(options.work)
        work.keep_reporting()
        asyncio.run(run_worker(options, work))
    else:
        asyncio.run(produce(open_producer, options))


async def produce(open_producer: OpenProducer, options: argparse.Namespace) -> None:
    """Connections are made and one job is enqueued before the clock starts."""
    producer = await open_producer(options)
    wanted = requests(options.count, options.payload_bytes, options.prefix)
    if options.command == "ping":
        for request in wanted:
            called_at = time.monotonic_ns()
            await producer.one(request)
            report("stamp", request.id, called_at)
            await asyncio.sleep(options.gap_ms / 1000)
        return
    first, rest = wanted[:1], wanted[1:]
    await producer.many(first)
    begun = time.monotonic_ns()
    if options.command == "bulk":
        for at in range(0, len(rest), BATCH):
            await producer.many(rest[at : at + BATCH])
    else:
        for request in rest:
            await producer.one(request)
    report("took", len(rest), time.monotonic_ns() - begun)


async def side_by_side(calls: Sequence[Awaitable[Any]], at_once: int = 100) -> None:
    """For a peer without a bulk call."""
    for at in range(0, len(calls), at_once):
        await asyncio.gather(*calls[at : at + at_once])
