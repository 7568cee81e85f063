"""taskiq with taskiq-redis's stream broker and no result backend: its fastest acknowledged set-up."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from ops.bench.peers.driver import Request, Work, main, side_by_side


class TaskiqProducer:
    def __init__(self, task: Any) -> None:
        self.task = task

    async def one(self, request: Request) -> None:
        await self.task.kicker().with_task_id(request.id).kiq(request.id, request.text)

    async def many(self, batch: Sequence[Request]) -> None:
        await side_by_side([self.one(request) for request in batch])


def broker_with_task(options: argparse.Namespace, work: Work) -> tuple[Any, Any]:
    from taskiq_redis import RedisStreamBroker  # type: ignore[import-not-found]

    broker = RedisStreamBroker(options.url)

    async def job(job_id: str, text: str) -> None:
        await work.run(job_id)

    return broker, broker.task(task_name="job")(job)


async def open_producer(options: argparse.Namespace) -> TaskiqProducer:
    broker, task = broker_with_task(options, Work("noop"))
    await broker.startup()
    return TaskiqProducer(task)


async def run_worker(options: argparse.Namespace, work: Work) -> None:
    from taskiq.api import run_receiver_task  # type: ignore[import-not-found]

    broker, _ = broker_with_task(options, work)
    await run_receiver_task(broker, max_async_tasks=options.concurrency, run_startup=True)


if __name__ == "__main__":
    main(open_producer, run_worker)
