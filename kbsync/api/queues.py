"""`GET /v1/queues`: jobs per queue and state, for those who look at the fleet."""

from __future__ import annotations

from dataclasses import dataclass

from aiohttp import web

from kbsync.api.context import services_of
from kbsync.api.services import FleetView
from kbsync.domain.ids import QueueName
from kbsync.domain.states import JobState
from kbsync.queue.fleet import unavailable_if_redis_fails


@dataclass(frozen=True)
class QueueRow:
    name: str
    paused: bool
    counts: dict[str, int]


async def queues(request: web.Request) -> web.Response:
    rows = await read_queues(services_of(request).fleet)
    return web.json_response(
        {"queues": [{"name": row.name, "paused": row.paused, "counts": row.counts} for row in rows]}
    )


async def read_queues(fleet: FleetView) -> list[QueueRow]:
    """Raises QueueUnavailable."""
    rows = []
    for name in QueueName:
        async with unavailable_if_redis_fails(name):
            counts = await fleet.queue(name).counts()
        rows.append(QueueRow(name, counts.paused, {str(state): counts.of(state) for state in JobState}))
    return rows
