"""A promise and its ledger row: registered first, taken back when Redis refuses, ended by even the fastest run."""

from __future__ import annotations

import pytest

from kbsync.db.pool import Database
from kbsync.domain.errors import QueueUnavailable
from kbsync.domain.ids import job_id
from kbsync.domain.requests import Priority, SyncSource
from kbsync.domain.states import UnitEnd
from kbsync.library import due, unit_requests
from kbsync.queue.jobs import Enqueued, JobRequest
from kbsync.recovery.promises import accept_units
from tests.producers.doubles import MemoryQueue, redis_is_down
from tests.producers.library_rows import owed

SOURCE = SyncSource(organization_id=7, source_id=1)
OTHER = SyncSource(organization_id=7, source_id=2)


@pytest.mark.spec("QR-08", "QR-02")
async def test_a_job_that_ends_before_the_caller_has_its_answer_is_not_owed(database: Database) -> None:
    class RunsAtOnce(MemoryQueue):
        async def enqueue(self, queue: str, requests: list[JobRequest]) -> list[Enqueued]:
            answers = await super().enqueue(queue, requests)
            async with database.organization(7) as connection:
                started_at = await connection.fetchval("select clock_timestamp()")
                await unit_requests.end(connection, 7, job_id(SOURCE), started_at, UnitEnd.RECORD_MISSING)
            return answers

    await accept_units(database, RunsAtOnce(), [SOURCE], priority=Priority.NORMAL)
    assert await owed(database) == {job_id(SOURCE): False}


@pytest.mark.spec("LS-01", "QR-08")
async def test_what_redis_refused_is_owed_as_it_was_before(database: Database) -> None:
    queue = MemoryQueue()
    await accept_units(database, queue, [SOURCE], priority=Priority.NORMAL)
    async with database.fleet() as connection:
        [before] = await due.open_past_grace(connection, -60)
    queue.fail = redis_is_down
    with pytest.raises(QueueUnavailable):
        await accept_units(database, queue, [SOURCE, OTHER], priority=Priority.NORMAL)
    async with database.fleet() as connection:
        assert await due.open_past_grace(connection, -60) == [before]


@pytest.mark.spec("LS-01", "QR-08")
async def test_a_withdrawal_leaves_a_newer_request_alone(database: Database) -> None:
    async with database.fleet() as connection:
        mine = await due.register_many(connection, [SOURCE])
    async with database.fleet() as connection:
        await due.register_many(connection, [SOURCE])  # somebody else's, and it was accepted
    async with database.fleet() as connection:
        await due.withdraw_many(connection, mine)
    assert await owed(database) == {job_id(SOURCE): True}


@pytest.mark.spec("QR-02", "LS-03")
@pytest.mark.parametrize(("rerun_if_active", "still_owed"), [(False, False), (True, True)])
async def test_who_asks_for_no_rerun_is_content_with_the_run_under_way(
    database: Database, rerun_if_active: bool, still_owed: bool
) -> None:
    """The tick asks for a source whose sync a backend asked for and which runs already: recovery owes no second run. An
    editor's request during the run is owed until its rerun ends."""
    queue = MemoryQueue()
    await accept_units(database, queue, [SOURCE], priority=Priority.NORMAL, rerun_if_active=True)
    async with database.fleet() as connection:
        run_began_at = await connection.fetchval("select clock_timestamp()")
    await accept_units(database, queue, [SOURCE], priority=Priority.BACKGROUND, rerun_if_active=rerun_if_active)
    async with database.organization(7) as connection:
        await unit_requests.end(connection, 7, job_id(SOURCE), run_began_at, UnitEnd.DONE)
    assert await owed(database) == {job_id(SOURCE): still_owed}
