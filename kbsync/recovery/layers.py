"""One recovery pass: lease recovery, then transport reclaim, then reconciliation, in this order (QR-07).

Postgres is the source of truth. For the library's kinds the first two layers are one script in the queue: a lease that
ran out puts its job back, and no database lease exists that could own it instead. A kind with leases of its own brings its
steps in `lease_recovery` and `transport_reclaim`.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from kbsync.domain.errors import ServerUnavailable
from kbsync.library.counters import Counted
from kbsync.library.recoveries import note_pass
from kbsync.recovery.reconciler import Reconciled, Reconciler, totals
from kbsync.telemetry import log

Step = Callable[[], Awaitable[int]]


@dataclass(frozen=True)
class PassDone:
    lease_recovered: int
    reclaimed: int
    reconciled: Reconciled


@dataclass(frozen=True)
class RecoveryPass:
    reconciler: Reconciler
    lease_recovery: Sequence[Step] = ()
    transport_reclaim: Sequence[Step] = ()

    async def once(self) -> PassDone:
        """Raises ServerUnavailable; each layer may be repeated at any time, by any number of processes."""
        began = time.monotonic()
        lease_recovered = sum([await step() for step in self.lease_recovery])
        reclaimed = sum([await step() for step in self.transport_reclaim])
        reconciled = await self.reconciler.once()
        done = PassDone(lease_recovered, reclaimed, reconciled)
        await self._note(done, time.monotonic() - began)
        if lease_recovered or reclaimed or reconciled.requeued or reconciled.interrupted_sources:
            log.info("recovered", lease_recovered=lease_recovered, reclaimed=reclaimed, **totals(reconciled))
        return done

    async def _note(self, done: PassDone, took_s: float) -> None:
        """For people to see. What was brought back stays so when this can't be written."""
        recovered = {
            Counted.LEASE_RECOVERED: done.lease_recovered,
            Counted.RECLAIMED: done.reclaimed,
            Counted.RECONCILED: done.reconciled.requeued,
            Counted.REFUSED: sum(kind.refused for kind in done.reconciled.kinds.values()),
            Counted.INTERRUPTED_SOURCES: done.reconciled.interrupted_sources,
        }
        try:
            async with self.reconciler.database.fleet() as connection:
                stood_down = done.reconciled.stood_down
                await note_pass(connection, took_ms=int(took_s * 1000), stood_down=stood_down, recovered=recovered)
        except ServerUnavailable as error:
            log.warning("recovery_not_noted", error=str(error))
