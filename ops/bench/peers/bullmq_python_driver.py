"""BullMQ for Python."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from typing import Any

from ops.bench.peers.driver import Request, Work, main


class BullProducer:
    def __init__(self, queue: Any) -> None:
        self.queue = queue

    async def one(self, request: Request) -> None:
        await self.queue.add("job", {"id": request.id, "text": request.text}, {"jobId": request.id})

    async def many(self, batch: Sequence[Request]) -> None:
        await self.queue.addBulk(
            [{"name": "job", "data": {"id": one.id, "text": one.text}, "opts": {"jobId": one.id}} for one in batch]
        )


async def open_producer(options: argparse.Namespace) -> BullProducer:
    from bullmq import Queue  # type: ignore[import-not-found]

    return BullProducer(Queue("bench", {"connection": options.url}))


async def run_worker(options: argparse.Namespace, work: Work) -> None:
    from bullmq import Worker

    async def job(job: Any, token: str) -> None:
        await work.run(job.data["id"])

    worker = Worker("bench", job, {"connection": options.url, "concurrency": options.concurrency})
    await asyncio.Event().wait()
    await worker.close()


if __name__ == "__main__":
    main(open_producer, run_worker)
