"""Workers of one, some or all queues."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from kbsync.domain.errors import ServerUnavailable, SettingsError
from kbsync.domain.ids import QueueName
from kbsync.domain.outcomes import Outcome
from kbsync.domain.requests import Scan
from kbsync.queue.jobs import RunningJob
from kbsync.settings import Settings
from kbsync.telemetry import log
from ops.health import serve_health
from ops.serve.process import on_signal, process
from producers.daily_tick import ScanServices, run_scan
from workers.observing import WorkerMetrics
from workers.run_unit import UnitRunner
from workers.runtime import Runtime


async def scan(runtime: Runtime, request: Scan, job: RunningJob) -> Outcome:
    """The daily scan as a job: its lease token names the run, so an older run's writes are refused."""
    services = ScanServices(runtime.database, runtime.enqueuer, runtime.kill_switch)
    return await run_scan(
        services, request, run=job.lease_token, progress=job.progress, is_final_attempt=job.is_final_attempt
    )


async def serve_workers(
    settings: Settings,
    queues: Sequence[str] | None,
    health_port: int = 0,
    runner_of: Callable[[Runtime], UnitRunner] = lambda runtime: runtime.unit_runner(scan),
) -> None:
    """Runs jobs of the named queues (None: of all). The first signal drains, the second puts running jobs back at once.

    `runner_of`: measurements bring their own units; all the rest of the process stays as it is."""
    names = [_queue(name) for name in queues] if queues else list(QueueName)
    async with process(settings, "worker", stop_on_signal=False) as (runtime, _):
        unit_runner = runner_of(runtime)
        workers = [runtime.worker(name, unit_runner) for name in names]

        def request_stop() -> None:
            for worker in workers:
                worker.request_stop()

        on_signal(request_stop)
        limiter = asyncio.create_task(_keep_limiter(runtime))
        counting = asyncio.create_task(runtime.counters.keep_flushing())
        observed = WorkerMetrics(tuple(workers))
        async with serve_health(runtime, health_port, observed.read):
            log.info("workers_ready", queues=[str(name) for name in names])
            await asyncio.gather(*(worker.run() for worker in workers))
        limiter.cancel()
        counting.cancel()


async def _keep_limiter(runtime: Runtime) -> None:
    """The chunk queue's limiter lives in Redis, which may be wiped: it is looked at twice a minute."""
    while True:
        try:
            await runtime.limit_chunks()
        except ServerUnavailable as error:
            log.warning("limiter_waits", error=str(error))
        await asyncio.sleep(30)


def _queue(name: str) -> QueueName:
    try:
        return QueueName(name)
    except ValueError:
        raise SettingsError(f"no queue {name!r}; there are {', '.join(QueueName)}") from None
