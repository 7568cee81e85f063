"""Who asks for the daily scan when its time has come, and for sources by their own interval (LS-03, LS-26).
Any number of schedulers may run, on clocks that differ.

The date is the identity, and it is remembered past the run twice: as the job's id and as the ledger's row. So a beat may
ask as often as it likes, a lost job is asked for again, and after an outage the newest date alone is caught up with.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from datetime import UTC, datetime

from kbsync.db.pool import Database
from kbsync.domain.errors import ServerUnavailable
from kbsync.domain.requests import Priority, Scan
from kbsync.domain.schedule import DAILY_SCAN, DailyAt
from kbsync.library.ticks import tick_is_over
from kbsync.queue.jobs import EnqueueOutcome, Enqueuer
from kbsync.queue.units import enqueue_units
from kbsync.telemetry import log
from producers.intervals import ask_for_due_sources

BEAT_S = 10.0


def _now() -> datetime:
    return datetime.now(UTC)


class Scheduler:
    def __init__(
        self,
        database: Database,
        enqueuer: Enqueuer,
        *,
        schedule: DailyAt = DAILY_SCAN,
        clock: Callable[[], datetime] = _now,
    ) -> None:
        self._database = database
        self._enqueuer = enqueuer
        self._schedule = schedule
        self._clock = clock

    async def run(self, stop: asyncio.Event, *, beat_s: float = BEAT_S) -> None:
        """Beats until `stop`; outages are waited out."""
        while not stop.is_set():
            try:
                await self.beat()
                await ask_for_due_sources(self._database, self._enqueuer)
            except ServerUnavailable as error:
                log.warning("scheduler_waits", error=str(error))
            until_due_s = (self._schedule.next_due(self._clock()) - self._clock()).total_seconds()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), max(0.0, min(beat_s, until_due_s)))

    async def beat(self) -> bool:
        """Asks for the newest due date's scan unless that is over. True when this call made its job."""
        day = self._schedule.date_of(self._schedule.latest_due(self._clock()))
        async with self._database.fleet() as connection:
            if await tick_is_over(connection, day):
                return False
        [answer] = await enqueue_units(
            self._enqueuer, [Scan(date=day)], priority=Priority.BACKGROUND, replace_finished=False
        )
        if answer.outcome is EnqueueOutcome.CREATED:
            log.info("scan_enqueued", date=day.isoformat())
        return answer.outcome is EnqueueOutcome.CREATED
