"""Many callers carried together: few transactions, and still each caller's own outcome and own failure (LS-01, PF-05)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import asyncpg
import pytest

from kbsync.api.acceptance import GROUPS_AT_ONCE, Acceptance
from kbsync.db.pool import Connection, Database
from kbsync.domain.errors import PayloadRefused, QueueUnavailable
from kbsync.domain.requests import SyncSource, UnitRequest
from kbsync.library.due import register_many
from kbsync.queue.jobs import Enqueued, EnqueueOutcome, JobRequest
from tests.api.conftest import Api, source
from tests.producers.doubles import MemoryQueue, redis_is_down
from tests.producers.library_rows import owed
from tests.queue.support import until


def asked(number: int) -> UnitRequest:
    return SyncSource(organization_id=7, source_id=number)


class CountingDatabase(Database):
    transactions = 0

    @asynccontextmanager
    async def fleet(self) -> AsyncIterator[Connection]:
        self.transactions += 1
        async with super().fleet() as connection:
            yield connection


class HeldQueue(MemoryQueue):
    """The first call waits until `leave` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.leave = asyncio.Event(), asyncio.Event()

    async def enqueue(self, queue: str, requests: list[JobRequest]) -> list[Enqueued]:
        self.entered.set()
        await self.leave.wait()
        return await super().enqueue(queue, requests)


async def settled(acceptance: Acceptance, numbers: Sequence[int]) -> list[list[Enqueued] | BaseException]:
    calls = [asyncio.create_task(acceptance.accept([asked(number)])) for number in numbers]
    return await asyncio.gather(*calls, return_exceptions=True)


@pytest.mark.spec("PF-05", "LS-01")
async def test_two_hundred_callers_at_once_cost_no_more_transactions_than_groups(database_url: str) -> None:
    opened = await CountingDatabase.open(database_url)
    assert isinstance(opened, CountingDatabase)
    queue = HeldQueue()
    acceptance = Acceptance(opened, queue)
    first = asyncio.create_task(acceptance.accept([asked(1)]))
    await queue.entered.wait()
    others = [asyncio.create_task(acceptance.accept([asked(number)])) for number in range(2, 201)]
    await asyncio.sleep(0)  # all of them wait now
    queue.leave.set()
    answers = await asyncio.gather(first, *others)
    assert [answer[0].job_id for answer in answers] == [f"kb-source-sync-{number}" for number in range(1, 201)]
    assert opened.transactions == len(queue.calls) == 2  # the first alone, then all who waited
    assert sum(await owed_count(opened)) == 200
    await opened.close()


async def owed_count(database: Database) -> list[bool]:
    return list((await owed(database)).values())


@pytest.mark.spec("PF-05", "LS-01")
async def test_a_lone_caller_waits_for_nobody(database: Database) -> None:
    queue = MemoryQueue()
    [answer] = await Acceptance(database, queue).accept([asked(1)])
    assert (answer.outcome, queue.calls) == (EnqueueOutcome.CREATED, [["kb-source-sync-1"]])


@pytest.mark.spec("LS-01")
async def test_a_request_that_the_queue_refuses_fails_alone(database: Database) -> None:
    queue = MemoryQueue()
    queue.fail = lambda jobs: PayloadRefused("no") if any(job.job_id.endswith("-13") for job in jobs) else None
    answers = await settled(Acceptance(database, queue), range(1, 21))
    refused = [number for number, answer in enumerate(answers, 1) if isinstance(answer, BaseException)]
    assert refused == [13]
    assert isinstance(answers[12], PayloadRefused)
    assert sorted(await owed(database)) == sorted(f"kb-source-sync-{number}" for number in range(1, 21) if number != 13)
    assert len(queue.calls) <= 10  # halves of halves, not one by one


@pytest.mark.spec("LS-01")
async def test_a_row_that_postgres_refuses_fails_its_own_caller_only(api: Api) -> None:
    async with api.database.direct() as connection:
        await connection.execute(
            "create function refuse() returns trigger language plpgsql as $$ begin raise 'not this one'; end $$; "
            "create trigger refuse before insert on kbsync.unit_requests for each row "
            "when (new.job_id = 'kb-source-sync-5') execute function refuse()"
        )
    answers = await asyncio.gather(*(api.post({"requests": [source(number)]}) for number in range(1, 11)))
    assert [status for status, _, _ in answers] == [500 if number == 5 else 202 for number in range(1, 11)]
    assert len(await api.unit_requests()) == 9
    assert "kb-source-sync-5" not in api.queue.jobs


@pytest.mark.spec("LS-01", "QR-08")
async def test_a_queue_that_is_away_fails_the_whole_group_and_leaves_nothing_owed(database: Database) -> None:
    calls: list[int] = []

    def away(jobs: list[JobRequest]) -> Exception:
        calls.append(len(jobs))
        return redis_is_down(jobs)

    queue = MemoryQueue(fail=away)
    answers = await settled(Acceptance(database, queue), range(1, 21))
    assert all(isinstance(answer, QueueUnavailable) for answer in answers)
    assert len(calls) <= GROUPS_AT_ONCE  # an outage is not asked about again by halves
    assert await owed(database) == {}


@pytest.mark.spec("LS-01")
async def test_callers_that_all_went_away_leave_the_carrier_working(database: Database) -> None:
    queue = HeldQueue()
    acceptance = Acceptance(database, queue)
    gone = [asyncio.create_task(acceptance.accept([asked(number)])) for number in (1, 2)]
    await queue.entered.wait()
    for call in gone:
        call.cancel()
    queue.leave.set()
    [answer] = await acceptance.accept([asked(3)])
    assert answer.outcome is EnqueueOutcome.CREATED
    await until(lambda: len(queue.jobs) == 3)  # what was on its way is kept all the same
    assert sorted(await owed(database)) == ["kb-source-sync-1", "kb-source-sync-2", "kb-source-sync-3"]


@pytest.mark.spec("LS-01", "PF-05")
async def test_two_groups_with_the_same_rows_in_opposite_orders_do_not_deadlock(database: Database) -> None:
    """Both are made to meet in the middle: a third transaction holds the fifth row until both wait."""
    numbers = range(1, 10)
    async with database.fleet() as connection:
        await register_many(connection, [asked(number) for number in numbers])

    async def register(order: Sequence[int]) -> None:
        async with database.fleet() as connection:
            await register_many(connection, [asked(number) for number in order])

    async def waiting() -> bool:
        async with database.direct() as connection:
            return bool(
                await connection.fetchval(
                    "select count(*) = 2 from pg_stat_activity where datname = current_database() "
                    "and wait_event_type = 'Lock'"
                )
            )

    async with database.fleet() as holder:
        await holder.execute("select from kbsync.unit_requests where job_id = 'kb-source-sync-5' for update")
        groups = [asyncio.create_task(register(order)) for order in (list(numbers), list(reversed(numbers)))]
        await until(waiting)
    for ended in await asyncio.gather(*groups, return_exceptions=True):
        assert not isinstance(ended, asyncpg.DeadlockDetectedError)
        assert ended is None
