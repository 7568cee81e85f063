"""After a pause: what it has ended is asked for again, and the daily scan is run now (KS-03)."""

from __future__ import annotations

from asyncio import sleep
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import uuid4

from kbsync.db.pool import Database
from kbsync.domain.requests import Priority, Scan
from kbsync.queue.jobs import Enqueuer
from kbsync.recovery.promises import accept_units
from kbsync.recovery.reconciler import PauseView, Reconciler


@dataclass(frozen=True)
class Redriven:
    """How many jobs were asked for again, the scan besides. `refused`: stored requests that nobody can run."""

    requeued: int
    live: int
    refused: int


async def redrive(database: Database, enqueuer: Enqueuer, kill_switch: PauseView, *, settled_s: float) -> Redriven:
    """Before: the flag is off. After: a scan and every skipped unit, unfinished crawl URL and crawl that never began is
    queued, of organizations that are not paused. Safe to repeat. Raises ServerUnavailable.

    `settled_s`: how stale a worker's look at the flag may be. Until then one would skip again what is asked for here."""
    await sleep(settled_s)
    scan = Scan(date=datetime.now(UTC).date(), manual_id=uuid4())
    await accept_units(database, enqueuer, [scan], priority=Priority.URGENT, rerun_if_active=True)
    done = await Reconciler(database, enqueuer, kill_switch).redrive()
    kinds = done.kinds.values()
    return Redriven(done.requeued, sum(kind.live for kind in kinds), sum(kind.refused for kind in kinds))
