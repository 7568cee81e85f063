"""`/`: is anything stuck, and what must a person do?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from kbsync.dashboard.ask import Access, Ask
from kbsync.dashboard.fleet_look import FleetLook, look_at_fleet
from kbsync.dashboard.needs import SHOWN, needs_of, title_of, verdict
from kbsync.dashboard.page import Page
from kbsync.domain.schedule import DAILY_SCAN
from kbsync.library.recoveries import RecoveredHour

THROTTLES_SHOWN = 4
WORKERS_SHOWN = 8
# Layers as people read them, and their shade: (name in the counters, words, class).
LAYERS = (
    ("stalls", "Reclaimed", "grey-1"),
    ("lease_recovered", "Lease recovered", "grey-2"),
    ("reconciled", "Reconciled", "grey-3"),
    ("refused", "Refused", "failed"),
)


async def overview(ask: Ask) -> Mapping[str, Any]:
    look = await look_at_fleet(ask)
    needs = needs_of(look.standing)
    forced = [row for row in look.throttles if row.in_force]
    workers = sorted(look.workers, key=lambda worker: (worker.queue, worker.host, worker.worker_id))
    return {
        "look": look,
        "verdict": verdict(needs, look.standing),
        "title": title_of(needs),
        "needs": needs[:SHOWN],
        "more_needs": needs[SHOWN:],
        "tiles": _tiles(look),
        "throttles": forced[:THROTTLES_SHOWN],
        "throttles_more": len(forced) - len(forced[:THROTTLES_SHOWN]),
        "recovered": _recovered(look.library.hours),
        "next_scan": DAILY_SCAN.next_due(ask.now),
        "workers": workers[:WORKERS_SHOWN],
        "workers_many": len(workers),
        "hosts": len({worker.host for worker in workers}),
    }


def _tiles(look: FleetLook) -> dict[str, Any]:
    queues = look.queues
    oldest = min((queue for queue in queues if queue.oldest), key=lambda queue: queue.oldest or 0, default=None)
    minutes = [sum(minute) for minute in zip(*(queue.minutes for queue in queues), strict=True)]
    sources = look.library.sources
    behind = sources.sources - sources.failed - sources.behind
    return {
        "oldest": oldest,
        "oldest_stuck": oldest is not None and not oldest.workers and not oldest.counts.paused,
        "active": sum(queue.counts.active for queue in queues),
        "slots": sum(queue.slots for queue in queues),
        "minutes": minutes,
        "delayed": sum(queue.counts.delayed for queue in queues),
        "failed": look.library.failed_a_day,
        "kept_failed": sum(queue.counts.failed for queue in queues),
        "one_error": max((group.many for group in look.standing.failed), default=0),
        "fresh": max(0, behind),
    }


def _recovered(hours: Sequence[RecoveredHour]) -> dict[str, Any]:
    """Bars by hour, each a stack of layers from the bottom, and the sums of the day."""
    sums: Counter[str] = Counter()
    stacks = [[(shade, hour.layers.get(name, 0)) for name, _, shade in LAYERS] for hour in hours]
    for hour in hours:
        sums.update(hour.layers)
    by_hour = [(sum(amount for _, amount in stack), hour.hour) for stack, hour in zip(stacks, hours, strict=True)]
    most, most_at = max(by_hour, default=(0, None), key=lambda one: one[0])
    whole = sum(many for many, _ in by_hour)
    label = f"Work taken back an hour, last {len(hours)} h: {whole:,} in all"
    return {
        "layers": [(words, shade, sums[name]) for name, words, shade in LAYERS],
        "interrupted": sums["interrupted_sources"],
        "stacks": stacks,
        "label": f"{label}, most at {most_at:%H:%M} with {most:,}" if most and most_at else label,
        "most": most,
        "most_at": most_at,
        "first": hours[0].hour if hours else None,
    }


PAGES = (
    Page(
        "/",
        "overview.html",
        overview,
        Access.LOOK,
        live=("lead", "needs", "tiles", "queues", "throttles", "library", "scan", "recovery", "workers"),
    ),
)
