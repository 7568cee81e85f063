"""ardiq: its loop and its Redis client are Rust."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from ops.bench.peers.driver import Request, Work, main


class ArdiqProducer:
    def __init__(self, app: Any, task: Any) -> None:
        self.app = app
        self.task = task

    async def one(self, request: Request) -> None:
        await self.task.options(task_id=request.id).enqueue(request.id, request.text)

    async def many(self, batch: Sequence[Request]) -> None:
        prepared = [self.task.options(task_id=one.id).prepare(one.id, one.text) for one in batch]
        await self.app.enqueue_many(prepared)


def app_with_task(options: argparse.Namespace, work: Work) -> tuple[Any, Any]:
    from ardiq import Ardiq  # type: ignore[import-not-found]

    app = Ardiq(redis_url=options.url, queue_name="bench", concurrency=options.concurrency)

    async def job(job_id: str, text: str) -> None:
        await work.run(job_id)

    return app, app.task(name="job")(job)


async def open_producer(options: argparse.Namespace) -> ArdiqProducer:
    return ArdiqProducer(*app_with_task(options, Work("noop")))


async def run_worker(options: argparse.Namespace, work: Work) -> None:
    app, _ = app_with_task(options, work)
    await app.run()


if __name__ == "__main__":
    main(open_producer, run_worker)
