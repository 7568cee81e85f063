"""The same jobs with no queue at all: as many coroutines as slots, each running one job after the other."""

from __future__ import annotations

import argparse
import asyncio

from kbsync.queue import loop
from ops.bench.peers.driver import Work, arguments


async def run(options: argparse.Namespace, work: Work) -> None:
    numbers = iter(range(options.count))

    async def slot() -> None:
        for number in numbers:
            await work.run(f"job-{number}")

    await asyncio.gather(*(slot() for _ in range(options.concurrency)))
    await asyncio.sleep(1)  # the last count is told from a thread


def main() -> None:
    options = arguments()
    work = Work(options.work)
    work.keep_reporting()
    loop.run(run(options, work))


if __name__ == "__main__":
    main()
