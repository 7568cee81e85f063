"""dramatiq: threads, so as many of them as others run coroutines."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from typing import Any

from ops.bench.peers.driver import Request, Work, main


class DramatiqProducer:
    """Its calls are plain functions, so they block; there is nothing else in this process to wait for them."""

    def __init__(self, actor: Any) -> None:
        self.actor = actor

    async def one(self, request: Request) -> None:
        self.actor.send(request.id, request.text)

    async def many(self, batch: Sequence[Request]) -> None:
        for request in batch:
            self.actor.send(request.id, request.text)


def broker_with_actor(options: argparse.Namespace, work: Work) -> tuple[Any, Any]:
    import dramatiq  # type: ignore[import-not-found]
    from dramatiq.brokers.redis import RedisBroker  # type: ignore[import-not-found]

    broker = RedisBroker(url=options.url)
    dramatiq.set_broker(broker)

    def job(job_id: str, text: str) -> None:
        work.run_in_thread(job_id)

    return broker, dramatiq.actor(job, actor_name="job")


async def open_producer(options: argparse.Namespace) -> DramatiqProducer:
    return DramatiqProducer(broker_with_actor(options, Work("noop"))[1])


async def run_worker(options: argparse.Namespace, work: Work) -> None:
    from dramatiq import Worker

    broker, _ = broker_with_actor(options, work)
    Worker(broker, worker_threads=options.concurrency).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    main(open_producer, run_worker)
