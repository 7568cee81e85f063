"""The minute-by-minute recovery: one pass, then a wait, until told to stop (QR-07)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from kbsync.domain.errors import ServerUnavailable
from kbsync.recovery.layers import PassDone, RecoveryPass
from kbsync.telemetry import log


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
