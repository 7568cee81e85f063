"""One recovery pass: lease recovery, then transport reclaim, then reconciliation, in this order (QR-07).

Postgres is the source of truth. For the library's kinds the first two layers are one script in the queue: a lease that
ran out puts its job back, and no database lease exists that could own it instead. A kind with leases of its own brings its
steps in `lease_recovery` and `transport_reclaim`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

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
        lease_recovered = sum([await step() for step in self.lease_recovery])
        reclaimed = sum([await step() for step in self.transport_reclaim])
        reconciled = await self.reconciler.once()
        done = PassDone(lease_recovered, reclaimed, reconciled)
        if lease_recovered or reclaimed or reconciled.requeued or reconciled.interrupted_sources:
            log.info("recovered", lease_recovered=lease_recovered, reclaimed=reclaimed, **totals(reconciled))
        return done
