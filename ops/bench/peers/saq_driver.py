"""saq on Redis."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from ops.bench.peers.driver import Request, Work, main, side_by_side


class SaqProducer:
    def __init__(self, queue: Any) -> None:
        self.queue = queue

    async def one(self, request: Request) -> None:
        await self.queue.enqueue("job", key=request.id, id=request.id, text=request.text)

    async def many(self, batch: Sequence[Request]) -> None:
        await side_by_side([self.one(request) for request in batch])


async def open_producer(options: argparse.Namespace) -> SaqProducer:
    from saq import Queue  # type: ignore[import-not-found]

    queue = Queue.from_url(options.url)
    await queue.connect()
    return SaqProducer(queue)


async def run_worker(options: argparse.Namespace, work: Work) -> None:
    from saq import Queue, Worker

    async def job(ctx: Any, *, id: str, text: str) -> None:
        await work.run(id)

    queue = Queue.from_url(options.url)
    await queue.connect()
    # Its time-out of 10 s is a job's; a job that hangs is meant to hang, so the crash run leaves it as it is.
    await Worker(queue, [("job", job)], concurrency=options.concurrency).start()


if __name__ == "__main__":
    main(open_producer, run_worker)
