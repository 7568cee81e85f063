"""What the three kinds of process have in common: logs, reports, traces, a runtime, and an end by signal."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import kbsync
from kbsync.domain.errors import KbsyncError, ServerUnavailable
from kbsync.settings import Settings
from kbsync.telemetry import configure_logs, configure_sentry, flush_reports, log
from kbsync.telemetry.metrics import begin_process
from kbsync.telemetry.tracing import close_tracing, configure_tracing
from workers.observing import expect_enqueues
from workers.runtime import Runtime


@asynccontextmanager
async def process(
    settings: Settings, part: str, *, stop_on_signal: bool = True
) -> AsyncIterator[tuple[Runtime, asyncio.Event]]:
    """A runtime and an event that the first signal sets. Raises SettingsError or ServerUnavailable at its start."""
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
        on_signal(stop.set)
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


def on_signal(handler: Callable[[], None]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, handler)
