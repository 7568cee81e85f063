"""Requests of many callers, carried together (LS-01, PF-05).

Calls that come while others are on their way leave together in the next group: a thousand callers with one request each
cost as many round trips as one caller with a thousand, and one transaction. A server that is away fails a whole group; a call
that can't be accepted for itself fails alone.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from kbsync.db.pool import Database
from kbsync.domain.errors import ServerUnavailable
from kbsync.domain.ids import job_id
from kbsync.domain.requests import Priority, UnitRequest
from kbsync.queue.jobs import Enqueued, Enqueuer
from kbsync.recovery.promises import accept_units
from kbsync.telemetry import tracing

GROUP = 1_000
# While one group waits for Redis and another for Postgres, a third is read; more would only make each smaller.
GROUPS_AT_ONCE = 3


@dataclass(frozen=True)
class _Call:
    requests: Sequence[UnitRequest]
    answer: asyncio.Future[list[Enqueued]]


class Acceptance:
    def __init__(self, database: Database, enqueuer: Enqueuer) -> None:
        self._database = database
        self._enqueuer = enqueuer
        self._waiting: deque[_Call] = deque()
        self._carriers: set[asyncio.Task[None]] = set()

    async def accept(self, requests: Sequence[UnitRequest]) -> list[Enqueued]:
        """After: Redis has every request, and Postgres knows that each is owed. Raises ServerUnavailable otherwise: whole
        groups may be there then, nothing is promised, and the same call again is safe."""
        call = _Call(requests, asyncio.get_running_loop().create_future())
        self._waiting.append(call)
        if len(self._carriers) < GROUPS_AT_ONCE:
            carrier = asyncio.create_task(self._carry())
            self._carriers.add(carrier)
            carrier.add_done_callback(self._carriers.discard)
        if not tracing.tracing_is_on():
            return await call.answer
        with tracing.asking_for([job_id(request) for request in requests]):
            return await call.answer

    async def _carry(self) -> None:
        while self._waiting:
            await self._settle(self._next_group())

    async def _settle(self, group: Sequence[_Call]) -> None:
        """After: every caller of the group has its answer or its error, unless it has gone away."""
        try:
            answers = await self._accept([request for call in group for request in call.requests])
        except (ServerUnavailable, TimeoutError) as error:
            _fail(group, error)
        except Exception as error:  # whatever it was, its caller must hear of it, and the others nothing
            if len(group) == 1:
                _fail(group, error)
                return
            half = len(group) // 2  # nothing of a group that failed is owed, and enqueueing again is safe
            await self._settle(group[:half])
            await self._settle(group[half:])
        else:
            place = 0
            for call in group:
                mine = answers[place : place + len(call.requests)]
                place += len(call.requests)
                if not call.answer.done():
                    call.answer.set_result(mine)

    def _next_group(self) -> list[_Call]:
        group = [self._waiting.popleft()]
        size = len(group[0].requests)
        while self._waiting and size + len(self._waiting[0].requests) <= GROUP:
            group.append(self._waiting.popleft())
            size += len(group[-1].requests)
        return group

    async def _accept(self, requests: list[UnitRequest]) -> list[Enqueued]:
        return await accept_units(
            self._database, self._enqueuer, requests, priority=Priority.NORMAL, rerun_if_active=True
        )


def _fail(group: Sequence[_Call], error: Exception) -> None:
    for call in group:
        if not call.answer.done():
            call.answer.set_exception(error)
