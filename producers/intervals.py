"""Sources that are synced more often than the daily tick does: asked for once an interval, however many schedulers run."""

from __future__ import annotations

from kbsync.db.errors import retry_on_conflict
from kbsync.db.pool import Database
from kbsync.domain.errors import KbsyncError
from kbsync.domain.requests import Priority, SyncSource
from kbsync.library.due import register_many
from kbsync.library.intervals import claim_due
from kbsync.queue.jobs import Enqueuer
from kbsync.queue.units import enqueue_units
from kbsync.telemetry import log

PAGE = 500
PAGES = 20  # of one beat: a million due sources are asked for over some beats


async def ask_for_due_sources(database: Database, enqueuer: Enqueuer, *, page: int = PAGE) -> int:
    """How many were asked for. The claim and the promise are one transaction: a crash after it leaves the units owed, and
    recovery runs them. Raises DatabaseUnavailable."""
    asked = 0
    for _ in range(PAGES):

        async def claim() -> list[SyncSource]:
            async with database.fleet() as connection:
                requests = await claim_due(connection, page)
                if requests:
                    await register_many(connection, requests, again=False)
                return requests

        requests = await retry_on_conflict(claim)
        if not requests:
            break
        asked += len(requests)
        try:
            await enqueue_units(enqueuer, requests, priority=Priority.BACKGROUND)
        except KbsyncError as error:
            log.warning("interval_syncs_not_queued", sources=len(requests), error=str(error))
            break
        if len(requests) < page:
            break
    if asked:
        log.info("interval_syncs_asked", sources=asked)
    return asked
