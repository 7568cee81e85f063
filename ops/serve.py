"""The three kinds of process, each until SIGTERM or SIGINT: API, workers, scheduler (OP-02, OP-11)."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial

from aiohttp import web

import kbsync
from kbsync.api.app import Pages, build_app
from kbsync.api.fallbacks import expect_fallbacks
from kbsync.api.fleet_state import FleetState
from kbsync.api.services import ApiServices
from kbsync.api.wire import ApiRunner
from kbsync.dashboard import site
from kbsync.dashboard.services import DashboardServices
from kbsync.domain.errors import KbsyncError, ServerUnavailable, SettingsError
from kbsync.domain.ids import QueueName
from kbsync.domain.outcomes import Outcome
from kbsync.domain.requests import Scan
from kbsync.queue.jobs import RunningJob
from kbsync.recovery.layers import RecoveryPass
from kbsync.recovery.reconciler import Reconciler
from kbsync.settings import Settings
from kbsync.telemetry import configure_logs, configure_sentry, flush_reports, log
from kbsync.telemetry.metrics import begin_process
from kbsync.telemetry.tracing import close_tracing, configure_tracing
from ops.health import serve_health
from producers.daily_tick import ScanServices, run_scan
from producers.outbox_relay import OutboxRelay
from producers.recovery_tick import expect_recovery, note_recovery, run_recovery
from producers.scheduler import Scheduler
from workers.observing import WorkerMetrics, expect_enqueues
from workers.run_unit import UnitRunner
from workers.runtime import Runtime


async def serve_api(settings: Settings) -> None:
    """Raises SettingsError or ServerUnavailable when it can't start; afterwards outages are answered, not died of."""
    async with _process(settings, "api") as (runtime, stop):
        services = ApiServices(runtime.database, runtime.enqueuer, runtime.fleet, runtime.kill_switch, settings)
        expect_fallbacks()
        runner = ApiRunner(build_app(services, dashboard_of(runtime)))
        await runner.setup()
        try:
            await _listen(runner, settings)
            log.info("api_ready", address=runner.addresses[0])
            await stop.wait()
        finally:
            await runner.cleanup()


def dashboard_of(runtime: Runtime) -> Pages:
    """The dashboard over one process's runtime, for the API's address."""
    services = DashboardServices(
        database=runtime.database,
        fleet=runtime.fleet,
        throttle=runtime.throttle,
        kill_switch=runtime.kill_switch,
        settings=runtime.settings,
        version=kbsync.__version__,
    )
    return Pages(install=partial(site.install, services=services), lost=site.lost)


async def _listen(runner: web.AppRunner, settings: Settings) -> None:
    try:
        await web.TCPSite(runner, settings.api_host, settings.api_port).start()
    except OSError as error:
        raise SettingsError(
            f"can't listen on {settings.api_host}:{settings.api_port} ({error.strerror}): "
            "choose another address with --host and --port (KBSYNC_API_HOST, KBSYNC_API_PORT)"
        ) from error


async def serve_workers(
    settings: Settings,
    queues: Sequence[str] | None,
    health_port: int = 0,
    runner_of: Callable[[Runtime], UnitRunner] = lambda runtime: runtime.unit_runner(scan),
) -> None:
    """Runs jobs of the named queues (None: of all). The first signal drains, the second puts running jobs back at once.

    `runner_of`: measurements bring their own units; all the rest of the process stays as it is."""
    names = [_queue(name) for name in queues] if queues else list(QueueName)
    async with _process(settings, "worker", stop_on_signal=False) as (runtime, _):
        unit_runner = runner_of(runtime)
        workers = [runtime.worker(name, unit_runner) for name in names]

        def request_stop() -> None:
            for worker in workers:
                worker.request_stop()

        _on_signal(request_stop)
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


async def serve_scheduler(settings: Settings, health_port: int = 0) -> None:
    """The daily tick, the outbox relay and the reconciler, side by side."""
    direct_url = settings.database_direct_url or settings.database_url or ""
    async with _process(settings, "scheduler") as (runtime, stop):
        database, enqueuer, switch = runtime.database, runtime.enqueuer, runtime.kill_switch
        relay = OutboxRelay(database, enqueuer, switch)
        recovery = RecoveryPass(Reconciler(database, enqueuer, switch, grace_s=settings.reconcile_grace_s))
        expect_recovery()
        state = FleetState(database, runtime.fleet, switch, settings.redis_url)
        async with serve_health(runtime, health_port, state.read):
            log.info("scheduler_ready")
            await asyncio.gather(
                Scheduler(database, enqueuer).run(stop),
                relay.run(direct_url, stop),
                run_recovery(recovery, stop, interval_s=settings.reconcile_interval_s, report=note_recovery),
            )


async def scan(runtime: Runtime, request: Scan, job: RunningJob) -> Outcome:
    """The daily scan as a job: its lease token names the run, so an older run's writes are refused."""
    services = ScanServices(runtime.database, runtime.enqueuer, runtime.kill_switch)
    return await run_scan(
        services, request, run=job.lease_token, progress=job.progress, is_final_attempt=job.is_final_attempt
    )


def _queue(name: str) -> QueueName:
    try:
        return QueueName(name)
    except ValueError:
        raise SettingsError(f"no queue {name!r}; there are {', '.join(QueueName)}") from None


@asynccontextmanager
async def _process(
    settings: Settings, part: str, *, stop_on_signal: bool = True
) -> AsyncIterator[tuple[Runtime, asyncio.Event]]:
    configure_logs(settings.log_format)
    release = f"kbsync@{kbsync.__version__}"
    configure_sentry(settings.sentry_dsn, settings.environment, release=release, part=part)
    configure_tracing(
        settings.otel_endpoint,
        part=part,
        environment=settings.environment,
        release=kbsync.__version__,
        share=settings.otel_share,
    )
    begin_process(part, kbsync.__version__)
    expect_enqueues()
    stop = asyncio.Event()
    if stop_on_signal:
        _on_signal(stop.set)
    runtime = await Runtime.open(settings)
    try:
        yield runtime, stop
    except KbsyncError:
        raise  # said in one sentence by whoever started the process
    except Exception:
        log.exception("process_failed", part=part)
        raise
    finally:
        with suppress(ServerUnavailable):
            await runtime.close()
        await asyncio.gather(asyncio.to_thread(close_tracing), asyncio.to_thread(flush_reports))


def _on_signal(handler: Callable[[], None]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, handler)
