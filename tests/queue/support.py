"""Sentences for queue tests: requests, workers with short times, and waiting for a condition."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from redis.asyncio import Redis

from kbsync.domain.requests import Priority
from kbsync.queue.jobs import Completed, Handler, JobEnd, JobRequest, RunningJob
from kbsync.queue.queue import FleetQueue
from kbsync.queue.scripts import run_script
from kbsync.queue.worker import FleetWorker

KIND = "unit"
QUEUE = "q"


def a_request(
    job_id: str,
    *,
    tenant: str = "org-1",
    kind: str = KIND,
    payload: Mapping[str, object] | None = None,
    priority: Priority = Priority.NORMAL,
    delay_ms: int = 0,
    rerun: bool = False,
    replace_finished: bool = True,
) -> JobRequest:
    return JobRequest(
        job_id,
        kind,
        {"id": job_id} if payload is None else payload,
        tenant,
        priority,
        delay_ms,
        rerun,
        replace_finished,
    )


async def until(condition: Callable[[], bool | Awaitable[bool]], wait_s: float = 10.0) -> None:
    """Returns once `condition`; fails the test when it never holds."""
    deadline = asyncio.get_running_loop().time() + wait_s
    while True:
        answer = condition()
        if answer if isinstance(answer, bool) else await answer:
            return
        assert asyncio.get_running_loop().time() < deadline, "the condition never held"
        await asyncio.sleep(0.005)


class Recorder:
    """A handler that notes each run and ends as `ends` says by job id: a value, an exception, or a callable."""

    def __init__(self, ends: Mapping[str, Any] | None = None) -> None:
        self.ends = dict(ends or {})
        self.runs: list[str] = []
        self.jobs: list[RunningJob] = []

    async def __call__(self, job: RunningJob) -> JobEnd:
        self.runs.append(job.job_id)
        self.jobs.append(job)
        end = self.ends.get(job.job_id, Completed())
        if isinstance(end, list):
            end = end.pop(0)
        if callable(end) and not isinstance(end, type):
            end = end(job)
        if asyncio.iscoroutine(end):
            end = await end
        if isinstance(end, BaseException):
            raise end
        return end  # type: ignore[no-any-return]  # a test may return nonsense on purpose


def a_worker(
    redis: str | Redis, handler: Handler | Mapping[str, Handler], queue: str = QUEUE, **options: Any
) -> FleetWorker:
    settings: dict[str, Any] = {
        "concurrency": 10, "job_timeout_s": 20, "lease_s": 1.0, "first_backoff_s": 0.02, "drain_s": 1.0, **options
    }  # fmt: skip
    handlers = handler if isinstance(handler, Mapping) else {KIND: handler}
    return FleetWorker(redis, queue, handlers, **settings)


@asynccontextmanager
async def running(*workers: FleetWorker) -> AsyncIterator[None]:
    """The workers run; at the end they are stopped and must have returned cleanly."""
    tasks = [asyncio.create_task(worker.run()) for worker in workers]
    try:
        yield
    finally:
        for worker in workers:
            worker.request_stop()
        await asyncio.wait_for(asyncio.gather(*tasks), 20)


async def ask(redis: Redis, *command: str | int) -> Any:
    """A raw command: redis-py's own types can't say that its asyncio client is awaited."""
    return await redis.execute_command(*command)  # type: ignore[no-untyped-call]  # the same


async def claim(queue: FleetQueue, want: int, token: str = "t", lease_ms: int = 60_000, *finishes: object) -> list[str]:
    """One bare exchange, as a worker that then does nothing: answers the claimed ids in order."""
    reply = await exchange(queue, want, token, lease_ms, *finishes)
    return [job_id.decode() for job_id in reply[4]]


async def exchange(
    queue: FleetQueue, want: int, token: str = "t", lease_ms: int = 60_000, *finishes: Any, keep: int = 10_000
) -> list[Any]:
    """`finishes` are (id, letter + token, value); `keep` of the done ones are kept."""
    flat = [part for job_id, end, value in finishes for part in (end[0], end[1:], 1, job_id, value)]
    arguments = [token, lease_ms, want, 3, keep, 86_400_000, 50_000, 86_400_000, 1 << 26, *flat]
    reply = await run_script(queue.redis, "exchange", queue.keys.all, arguments)
    assert isinstance(reply, list)
    return reply


def completed(job_id: str, token: str = "t") -> tuple[str, str, str]:
    """A finish triple of a job that completed."""
    return job_id, "c" + token, ',1,"unit",1,2,3,1,"org-1",{}]'
