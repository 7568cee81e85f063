"""The clock's work: the daily tick, the outbox relay and the reconciler."""

from __future__ import annotations

import asyncio

from kbsync.api.fleet_state import FleetState
from kbsync.recovery.layers import RecoveryPass
from kbsync.recovery.reconciler import Reconciler
from kbsync.settings import Settings
from kbsync.telemetry import log
from ops.health import serve_health
from ops.serve.process import process
from producers.outbox_relay import OutboxRelay
from producers.recovery_tick import expect_recovery, note_recovery, run_recovery
from producers.scheduler import Scheduler


async def serve_scheduler(settings: Settings, health_port: int = 0) -> None:
    """The daily tick, the outbox relay and the reconciler, side by side."""
    direct_url = settings.database_direct_url or settings.database_url or ""
    async with process(settings, "scheduler") as (runtime, stop):
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
