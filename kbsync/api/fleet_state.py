"""How the fleet stands, read for one scrape: queues, promises, sources, closures, the kill switch (OP-08).

Each part has a time-out of its own and is read beside the others, by a fixed number of commands. A part that does not answer
is `kbsync_up{part=...} 0`, and its metrics are missing rather than old.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from prometheus_client.core import GaugeMetricFamily, Metric
from redis.exceptions import RedisError

from kbsync.api.services import FleetView, PauseView
from kbsync.db.pool import Database
from kbsync.domain.errors import KbsyncError
from kbsync.domain.ids import QueueName
from kbsync.domain.states import JobState
from kbsync.library import gauges
from kbsync.queue.fleet import Fleet
from kbsync.telemetry import log
from kbsync.telemetry.metrics import provider_label
from ratelimits.counts import open_closures

PART_TIMEOUT_S = 2.0
STATEMENT_TIMEOUT_MS = 1_500
# The next jobs in line, of which the oldest is looked for: a flow's oldest job is its first, and flows take turns, so with
# fewer flows than this it is the oldest of all.
LINE_LOOKED_AT = 200

Families = Sequence[Metric]
Read = Callable[[], Awaitable[Families]]


@dataclass(frozen=True)
class FleetState:
    """`redis_url`: where the throttles are; None leaves them out."""

    database: Database
    fleet: FleetView
    kill_switch: PauseView
    redis_url: str | None = None
    part_timeout_s: float = PART_TIMEOUT_S
    statement_timeout_ms: int = STATEMENT_TIMEOUT_MS

    async def read(self) -> list[Metric]:
        """Always answers, within the time-out."""
        parts: dict[str, Read] = {
            "postgres": self._promises,
            "sources": self._sources,
            "chunks": self._documents_without_chunks,
            "kill_switch": self._kill_switch,
            **{f"queue:{name}": _of_queue(self.fleet, name) for name in QueueName},
        }
        if self.redis_url is not None and isinstance(self.fleet, Fleet):
            parts["throttles"] = self._closures
        answers = await asyncio.gather(*(_read(name, read, self.part_timeout_s) for name, read in parts.items()))
        up = GaugeMetricFamily("kbsync_up", "Whether a part answered this scrape.", labels=["part"])
        for name, answer in zip(parts, answers, strict=True):
            up.add_metric([name], 0 if answer is None else 1)
        return [up, *_merged([family for answer in answers if answer for family in answer])]

    async def _promises(self) -> Families:
        async with self.database.fleet() as connection:
            found = await gauges.promises(connection, self.statement_timeout_ms)
        return [
            _gauge(
                "kbsync_oldest_owed_seconds", "Age of the oldest accepted unit not ended yet.", found.oldest_owed_s or 0
            ),
            _gauge("kbsync_outbox_age_seconds", "Age of the oldest outbox row that waits.", found.oldest_outbox_s or 0),
            *(
                [_gauge("kbsync_tick_age_seconds", "Since the last daily scan finished.", found.last_scan_s)]
                if found.last_scan_s is not None
                else []
            ),
        ]

    async def _sources(self) -> Families:
        async with self.database.fleet() as connection:
            rows = await gauges.sources(connection, self.statement_timeout_ms)
        families = [
            GaugeMetricFamily("kbsync_sources", "Sources that the daily scan asks for.", labels=["provider"]),
            GaugeMetricFamily("kbsync_sources_failed", "Of them, whose last sync failed.", labels=["provider"]),
            GaugeMetricFamily("kbsync_sources_stale", "Of them, not synced for two days.", labels=["provider"]),
            GaugeMetricFamily(
                "kbsync_source_freshness_lag_seconds", "Longest time since one was synced.", labels=["provider"]
            ),
        ]
        totals: dict[str, list[float]] = {}
        for row in rows:  # types of no plain name share one label
            total = totals.setdefault(provider_label(row.type), [0, 0, 0, 0])
            total[0], total[1], total[2] = total[0] + row.sources, total[1] + row.failed, total[2] + row.stale
            total[3] = max(total[3], row.oldest_s)
        for provider, values in totals.items():
            for family, value in zip(families, values, strict=True):
                family.add_metric([provider], value)
        return families

    async def _documents_without_chunks(self) -> Families:
        async with self.database.fleet() as connection:
            count = await gauges.documents_without_chunks(connection, self.statement_timeout_ms)
        return [_gauge("kbsync_documents_without_chunks", "Kept documents with content whose chunks are owed.", count)]

    async def _kill_switch(self) -> Families:
        on = await self.kill_switch.paused(None)
        return [_gauge("kbsync_kill_switch_on", "1 while everything is paused.", int(on))]

    async def _closures(self) -> Families:
        assert isinstance(self.fleet, Fleet)
        assert self.redis_url is not None
        count = await open_closures(self.fleet.client_at(self.redis_url), int(time.time() * 1000))
        return [_gauge("kbsync_closed_data_sources", "Data sources whose provider asked to wait.", count)]


def _of_queue(fleet: FleetView, name: QueueName) -> Read:
    async def read() -> Families:
        counts = await fleet.queue(name).counts()
        jobs = GaugeMetricFamily("kbsync_queue_jobs", "Jobs by state, exactly.", labels=["queue", "state"])
        for state in JobState:
            jobs.add_metric([name, state.value], counts.of(state))
        paused = GaugeMetricFamily("kbsync_queue_paused", "1 while an operator paused it.", labels=["queue"])
        paused.add_metric([name], int(counts.paused))
        return [jobs, paused, *(await _ages(fleet, name) if isinstance(fleet, Fleet) else [])]

    return read


async def _ages(fleet: Fleet, name: QueueName) -> Families:
    queue = fleet.queue(name)
    line = await queue.page(JobState.WAITING, limit=LINE_LOOKED_AT)
    oldest_ms = min((job.enqueued_ms for job in line.jobs if job.enqueued_ms), default=None)
    age = GaugeMetricFamily("kbsync_queue_oldest_waiting_seconds", "Age of the oldest waiting job.", labels=["queue"])
    age.add_metric([name], 0 if oldest_ms is None else max(0.0, time.time() - oldest_ms / 1000))
    workers = GaugeMetricFamily("kbsync_queue_workers", "Workers that beat within 15 s.", labels=["queue"])
    workers.add_metric([name], len(await queue.workers()))
    return [age, workers]


async def _read(name: str, read: Read, timeout_s: float) -> Families | None:
    try:
        async with asyncio.timeout(timeout_s):
            return await read()
    except (KbsyncError, RedisError, OSError, TimeoutError) as error:
        log.warning("scrape_part_missing", scrape_part=name, error=type(error).__name__)
    except Exception as error:  # a scrape says what is up; why a part is not is this line's
        log.warning("scrape_part_failed", scrape_part=name, error=f"{type(error).__name__}: {error}")
    return None


def _merged(families: Sequence[Metric]) -> list[Metric]:
    """One family a name, as the text format asks for."""
    found: dict[str, Metric] = {}
    for family in families:
        if family.name in found:
            found[family.name].samples.extend(family.samples)
        else:
            found[family.name] = family
    return list(found.values())


def _gauge(name: str, help_text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, help_text, value=value)
