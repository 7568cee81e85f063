"""arq: stock worker, JSON is not its default, so pickle."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from ops.bench.peers.driver import Request, Work, main, side_by_side


class ArqProducer:
    def __init__(self, pool: Any) -> None:
        self.pool = pool

    async def one(self, request: Request) -> None:
        await self.pool.enqueue_job("job", request.id, request.text, _job_id=request.id)

    async def many(self, batch: Sequence[Request]) -> None:
        await side_by_side([self.one(request) for request in batch])


async def open_producer(options: argparse.Namespace) -> ArqProducer:
    from arq import create_pool
    from arq.connections import RedisSettings

    return ArqProducer(await create_pool(RedisSettings.from_dsn(options.url)))


async def run_worker(options: argparse.Namespace, work: Work) -> None:
    from arq.connections import RedisSettings
    from arq.worker import Worker, func

    async def job(ctx: dict[Any, Any], job_id: str, text: str) -> None:
        await work.run(job_id)

    worker = Worker(
        [func(job, name="job")],
        redis_settings=RedisSettings.from_dsn(options.url),
        max_jobs=options.concurrency,
        poll_delay=options.poll_delay or 0.5,
    )
    await worker.async_run()


if __name__ == "__main__":
    main(open_producer, run_worker)
