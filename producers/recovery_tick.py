"""The minute-by-minute recovery: one pass, then a wait, until told to stop (QR-07)."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable

from kbsync.domain.errors import ServerUnavailable
from kbsync.recovery.layers import PassDone, RecoveryPass
from kbsync.telemetry import log, metrics


async def run_recovery(
    recovery: RecoveryPass,
    stop: asyncio.Event,
    *,
    interval_s: float,
    report: Callable[[PassDone], None] = lambda _: None,
) -> None:
    """A server that is away costs this pass, not the process."""
    while not stop.is_set():
        try:
            report(await recovery.once())
        except ServerUnavailable as error:
            log.warning("recovery_waits", error=str(error))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), interval_s)


def expect_recovery() -> None:
    """Until the first pass succeeds, the time without one counts from the start of the process."""
    metrics.RECOVERY_LAST_SUCCESS.set(time.time())


def note_recovery(done: PassDone) -> None:
    """A pass that succeeded, and what each layer brought back (OP-08, OP-14)."""
    metrics.RECOVERY_LAST_SUCCESS.set(time.time())
    brought = (done.lease_recovered, done.reclaimed, done.reconciled.requeued, done.reconciled.interrupted_sources)
    for layer, number in zip(metrics.RECOVERY_LAYERS, brought, strict=True):
        metrics.RECOVERED.labels(layer).inc(number)
