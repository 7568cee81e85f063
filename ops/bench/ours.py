"""kbsync's own driver: the commands of peers/driver.py, on `kbsync worker` as it is shipped.

The worker is the process that `kbsync worker knowledge-base-sync` starts, with one difference: what a unit does. Its request
is validated as ever; then it does nothing, sleeps, says when it began, hangs, or (`throttled`, here alone) asks for a slot of
a window that four units fill.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from kbsync.domain.ids import QueueName
from kbsync.domain.requests import unit_request_adapter
from kbsync.queue import loop
from kbsync.queue.fleet import Fleet
from kbsync.queue.jobs import Completed, DelayJob, JobEnd, JobRequest, RunningJob
from kbsync.settings import Settings, load_settings
from ops.bench.peers.driver import Request, Work, arguments, produce
from ops.serve.workers import scan, serve_workers
from ratelimits.limits import Limit, UnitKind
from ratelimits.scope import ThrottleScope
from ratelimits.throttle import ComeBackAt
from workers.run_unit import UnitRunner
from workers.runtime import Runtime

QUEUE = QueueName.SYNC
DONE = Completed({"status": "done"})
THROTTLED_SCOPE = ThrottleScope("notion", UnitKind.DOCUMENT_SYNC, 1, 1)
THROTTLED_LIMIT = Limit(4, 3_600)  # a window that does not end while commands are counted


@dataclass(frozen=True, kw_only=True)
class BenchRunner(UnitRunner):
    """Units that do `work` and nothing else."""

    work: Work

    async def run(self, job: RunningJob) -> JobEnd:
        unit_request_adapter.validate_python(dict(job.payload), strict=False)
        if self.work.kind == "throttled":
            answer = await self.windows.throttle.take(THROTTLED_SCOPE, THROTTLED_LIMIT, job.job_id)
            if isinstance(answer, ComeBackAt):
                await self.work.run(job.job_id)
                return DelayJob(answer.until, answer.reason)
        await self.work.run(job.job_id)
        return DONE

    async def abandoned(self, job_id: str, kind: str, payload: Mapping[str, object] | None, reason: str) -> None:
        """Nothing stands in Postgres for these jobs."""


def bench_runner(runtime: Runtime, work: Work) -> BenchRunner:
    shipped = runtime.unit_runner(scan)
    parts = {one.name: getattr(shipped, one.name) for one in fields(shipped)}
    return BenchRunner(**parts, work=work)


class FleetProducer:
    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet

    async def one(self, request: Request) -> None:
        await self.fleet.enqueue(QUEUE, [job_of(request)])

    async def many(self, batch: Sequence[Request]) -> None:
        await self.fleet.enqueue(QUEUE, [job_of(request) for request in batch])


def job_of(request: Request, organization: int = 1) -> JobRequest:
    """A request that the worker validates, of the same size as everybody's: a URL takes the room of the text."""
    number = int(request.id.rsplit("-", 1)[1]) + 1
    payload: dict[str, object] = {
        "type": "crawl_url",
        "version": 1,
        "organization_id": organization,
        "crawl_task_id": number,
    }
    room = max(1, len(request.text) - 77)
    payload["url"] = f"https://bench.example/{'x' * room}"
    return JobRequest(request.id, "crawl_url", payload, f"org-{organization}")


def worker_settings(options: argparse.Namespace) -> Settings:
    """The embedded profile's, with the concurrency of the measurement; Postgres's address comes from the environment."""
    return load_settings(profile="embedded", redis_url=options.url, sync_concurrency=options.concurrency)


async def open_producer(options: argparse.Namespace) -> FleetProducer:
    return FleetProducer(Fleet(options.url))


async def run_worker(options: argparse.Namespace, work: Work) -> None:
    await serve_workers(worker_settings(options), [QUEUE], runner_of=lambda runtime: bench_runner(runtime, work))


def main() -> None:
    options = arguments()
    if options.command == "worker":
        work = Work(options.work)
        work.keep_reporting()
        loop.run(run_worker(options, work))
    else:
        loop.run(produce(open_producer, options))


if __name__ == "__main__":
    main()
