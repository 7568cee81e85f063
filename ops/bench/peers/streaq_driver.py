"""streaq."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from ops.bench.peers.driver import Request, Work, main


class StreaqProducer:
    def __init__(self, worker: Any, task: Any) -> None:
        self.worker = worker
        self.task = task

    def asked(self, request: Request) -> Any:
        task = self.task.enqueue(request.id, request.text)
        task.id = request.id
        return task

    async def one(self, request: Request) -> None:
        await self.asked(request)

    async def many(self, batch: Sequence[Request]) -> None:
        await self.worker.enqueue_many([self.asked(request) for request in batch])


def worker_with_task(options: argparse.Namespace, work: Work) -> tuple[Any, Any]:
    from streaq import Worker  # type: ignore[import-not-found]

    worker = Worker(redis_url=options.url, concurrency=options.concurrency)

    async def job(job_id: str, text: str) -> None:
        await work.run(job_id)

    return worker, worker.task(name="job", silent=True)(job)


async def open_producer(options: argparse.Namespace) -> StreaqProducer:
    worker, task = worker_with_task(options, Work("noop"))
    await worker.__aenter__()
    return StreaqProducer(worker, task)


async def run_worker(options: argparse.Namespace, work: Work) -> None:
    worker, _ = worker_with_task(options, work)
    await worker.run_async()


if __name__ == "__main__":
    main(open_producer, run_worker)
