"""The relay of the transactional way in (LS-02, LS-23).

    outbox row committed --NOTIFY or sweep--> claimed (row lock) -> unit is owed -> Redis has the job -> row marked, commit

A relay that dies anywhere before the commit leaves the row unrelayed: the next one enqueues it again under the same id.
While the kill switch is on, rows of the organizations it covers stay where they are.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pydantic import ValidationError

from kbsync.db.errors import retry_on_conflict
from kbsync.db.pool import Database
from kbsync.domain.errors import PayloadRefused, ServerUnavailable
from kbsync.domain.requests import LibraryRequest, Priority, library_request_adapter
from kbsync.library.outbox import (
    REFUSED,
    OutboxRow,
    RelayedRow,
    claim_unrelayed,
    mark_relayed_many,
    organizations_waiting,
)
from kbsync.queue.jobs import Enqueuer
from kbsync.recovery.promises import accept_units
from kbsync.telemetry import log
from producers.backoff import Backoff
from producers.notifications import listen

BATCH = 500
SWEEP_S = 1.0
# Row locks are held while Redis is told, so a Redis that hangs must not hold them for long.
ENQUEUE_TIMEOUT_S = 5.0


class PauseView(Protocol):
    async def paused(self, organization_id: int | None) -> bool: ...


@dataclass(frozen=True)
class Relayed:
    """What one cycle did. `more`: a batch was full, so the next cycle should not wait."""

    enqueued: int = 0
    refused: int = 0
    held_organizations: int = 0
    more: bool = False


class RefusedRow(Exception):
    """The row is no request that kbsync can run; the text says why."""


class OutboxRelay:
    """Any number of them may run side by side."""

    def __init__(self, database: Database, enqueuer: Enqueuer, kill_switch: PauseView, *, batch: int = BATCH) -> None:
        self._database = database
        self._enqueuer = enqueuer
        self._kill_switch = kill_switch
        self._batch = batch
        self._served_to = 0

    async def run(self, direct_url: str, stop: asyncio.Event, *, sweep_s: float = SWEEP_S) -> None:
        """Relays until `stop`: at each notification, and by a sweep for whatever nobody was told of.

        Outages of Postgres, Redis and the flag store are waited out. Raises PooledUrl when `direct_url` is a pooler's."""
        wake = asyncio.Event()
        async with listen(direct_url, wake, stop):
            backoff = Backoff(first_s=0.1, most_s=5.0)
            while not stop.is_set():
                wake.clear()
                wait_s = sweep_s
                try:
                    if (await self.relay_once()).more:
                        continue
                    backoff.reset()
                except (ServerUnavailable, TimeoutError) as error:
                    wait_s = backoff.next_s()
                    log.warning("relay_waits", error=str(error), wait_s=wait_s)
                await _first_of(wake, stop, wait_s)

    async def relay_once(self) -> Relayed:
        """One cycle: a batch of every waiting organization that is not paused. Raises ServerUnavailable; nothing is
        marked then, and whatever Redis took is taken again under the same ids."""
        async with self._database.fleet() as connection:
            waiting = await organizations_waiting(connection)
        free = [organization for organization in waiting if not await self._kill_switch.paused(organization)]
        held = len(waiting) - len(free)
        if not free:
            return Relayed(held_organizations=held)
        served = self._next_round(free)
        # A deadlock's victim runs again as a whole: ids make the second enqueue harmless.
        return await retry_on_conflict(lambda: self._relay(served, held))

    def _next_round(self, free: list[int]) -> list[int]:
        """At most a batch of organizations, going round, so that none waits for ever behind many busy ones."""
        served = [organization for organization in free if organization > self._served_to][: self._batch]
        if len(served) < self._batch:
            served += [organization for organization in free if organization <= self._served_to]
        served = served[: self._batch]
        self._served_to = served[-1] if len(free) > self._batch else 0
        return served

    async def _relay(self, organizations: list[int], held: int) -> Relayed:
        limit_each = max(1, self._batch // len(organizations))
        async with self._database.fleet() as connection:
            rows = await claim_unrelayed(connection, organizations, limit_each)
            if not rows:
                return Relayed(held_organizations=held)
            good, refused = _sort_out(rows)
            # The units are registered on a second connection and committed before Redis is told (see promises.py).
            async with asyncio.timeout(ENQUEUE_TIMEOUT_S):
                relayed, refused_late = await self._enqueue(good)
            await mark_relayed_many(connection, [*relayed, *refused, *refused_late])
        _report([*refused, *refused_late])
        return Relayed(len(relayed), len(refused) + len(refused_late), held, more=len(rows) >= limit_each)

    async def _enqueue(self, good: dict[int, LibraryRequest]) -> tuple[list[RelayedRow], list[RelayedRow]]:
        """The rows that Redis took, and those that the queue would not take whatever happens."""
        try:
            return await self._enqueue_all(good), []
        except PayloadRefused:
            relayed, refused = [], []
            for row_id, request in good.items():
                try:
                    relayed += await self._enqueue_all({row_id: request})
                except PayloadRefused as error:
                    refused.append(RelayedRow(row_id, REFUSED, str(error)))
            return relayed, refused

    async def _enqueue_all(self, good: dict[int, LibraryRequest]) -> list[RelayedRow]:
        if not good:
            return []
        answers = await accept_units(
            self._database, self._enqueuer, list(good.values()), priority=Priority.NORMAL, rerun_if_active=True
        )
        return [RelayedRow(row_id, str(answer.outcome)) for row_id, answer in zip(good, answers, strict=True)]


def request_in(row: OutboxRow) -> LibraryRequest:
    """The request of a row. Raises RefusedRow naming what is wrong, without repeating the values."""
    try:
        request = library_request_adapter.validate_python(json.loads(row.request))
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False, include_input=False)
        # The first part of a place is the chosen type's name.
        places = (f"{'.'.join(str(part) for part in fault['loc'][1:]) or 'type'}: {fault['msg']}" for fault in faults)
        raise RefusedRow("; ".join(places)) from None
    except (RecursionError, ValueError):
        raise RefusedRow("the JSON is nested too deep or holds a number that is too long") from None
    if request.organization_id != row.organization_id:
        raise RefusedRow("organization_id: differs from the row's own")
    return request


def _sort_out(rows: Sequence[OutboxRow]) -> tuple[dict[int, LibraryRequest], list[RelayedRow]]:
    good: dict[int, LibraryRequest] = {}
    refused: list[RelayedRow] = []
    for row in rows:
        try:
            good[row.id] = request_in(row)
        except RefusedRow as error:
            refused.append(RelayedRow(row.id, REFUSED, str(error)[:2_000]))
    return good, refused


def _report(refused: Sequence[RelayedRow]) -> None:
    for row in refused:
        log.error("outbox_row_refused", outbox_id=row.id, reason=row.refusal)


async def _first_of(wake: asyncio.Event, stop: asyncio.Event, timeout_s: float) -> None:
    tasks = [asyncio.create_task(wake.wait()), asyncio.create_task(stop.wait())]
    try:
        await asyncio.wait(tasks, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
