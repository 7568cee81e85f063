"""How a request becomes a promise: Postgres knows that it is owed, then Redis has it (LS-01, QR-08).

Postgres comes first, because a job may run and end within a millisecond of its enqueue: its end must find the row. When
Redis then refuses, the rows are taken back, so that recovery does not run what a fallback has run already.
"""

from __future__ import annotations

from collections.abc import Sequence

from kbsync.db.errors import retry_on_conflict
from kbsync.db.pool import Database
from kbsync.domain.errors import DatabaseUnavailable, KbsyncError
from kbsync.domain.requests import Priority, UnitRequest
from kbsync.library.due import Registration, register_many, withdraw_many
from kbsync.queue.jobs import Enqueued, Enqueuer
from kbsync.queue.units import enqueue_units
from kbsync.telemetry import log


async def accept_units(
    database: Database,
    enqueuer: Enqueuer,
    requests: Sequence[UnitRequest],
    *,
    priority: Priority,
    rerun_if_active: bool = False,
) -> list[Enqueued]:
    """After: every request is owed and queued, and the answers are in the order of `requests`.

    Raises ServerUnavailable or PayloadRefused: then nothing is owed that was not before, whole groups may be queued, and
    the same call again is safe. A process that dies in between leaves the units owed, and recovery runs them."""

    async def register() -> Registration:
        async with database.fleet() as connection:
            return await register_many(connection, requests, again=rerun_if_active)

    registration = await retry_on_conflict(register)
    try:
        return await enqueue_units(enqueuer, requests, priority=priority, rerun_if_active=rerun_if_active)
    except KbsyncError:
        await _withdraw(database, registration)
        raise


async def _withdraw(database: Database, registration: Registration) -> None:
    async def withdraw() -> None:
        async with database.fleet() as connection:
            await withdraw_many(connection, registration)

    try:
        await retry_on_conflict(withdraw)
    except DatabaseUnavailable as error:
        # They stay owed and recovery runs them; ids make the double harmless.
        log.warning("promise_not_withdrawn", units=len(registration.job_ids), error=str(error))
