"""`GET /v1/queues`: jobs per queue and state, for those who look at the fleet."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus

from aiohttp import web

from kbsync.api.answers import Shape
from kbsync.api.context import services_of
from kbsync.api.described import Described
from kbsync.api.services import FleetView
from kbsync.domain.ids import QueueName
from kbsync.domain.states import JobState
from kbsync.queue.fleet import unavailable_if_redis_fails


@dataclass(frozen=True)
class QueueRow:
    name: QueueName
    paused: bool
    counts: dict[JobState, int]


@dataclass(frozen=True)
class Queues:
    queues: list[QueueRow]


QUEUES = Shape(Queues)
DESCRIBED = Described("Jobs by queue and state.", {HTTPStatus.OK: QUEUES})


async def queues(request: web.Request) -> web.Response:
    return QUEUES.response(Queues(await read_queues(services_of(request).fleet)))


async def read_queues(fleet: FleetView) -> list[QueueRow]:
    """Raises QueueUnavailable."""
    rows = []
    for name in QueueName:
        async with unavailable_if_redis_fails(name):
            counts = await fleet.queue(name).counts()
        rows.append(QueueRow(name, counts.paused, {state: counts.of(state) for state in JobState}))
    return rows
