"""LS-02 and LS-23 on a real Postgres: what a commit promises, and what a dying relay leaves behind."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from kbsync.db.pool import Database
from kbsync.domain.errors import FlagStoreUnavailable, PayloadTooLarge
from kbsync.queue.jobs import Enqueued, JobRequest
from producers import outbox_relay
from producers.outbox_relay import OutboxRelay
from tests.producers.doubles import MemoryQueue, Switch, redis_is_down


@asynccontextmanager
async def producer(url: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """The producer app's own connection."""
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


async def ask(connection: asyncpg.Connection[asyncpg.Record], source_id: int, organization_id: int = 7) -> int:
    request = {"type": "sync_source", "organization_id": organization_id, "source_id": source_id}
    answer: int = await connection.fetchval("select kbsync.request_sync($1)", json.dumps(request))
    return answer


async def outcomes(database: Database) -> list[str | None]:
    async with database.fleet() as connection:
        return [row["outcome"] for row in await connection.fetch("select outcome from kbsync.outbox order by id")]


async def owed(database: Database) -> list[str]:
    async with database.fleet() as connection:
        rows = await connection.fetch("select job_id from kbsync.unit_requests order by job_id")
    return [row["job_id"] for row in rows]


def relay_of(database: Database, queue: MemoryQueue, switch: Switch | None = None) -> OutboxRelay:
    return OutboxRelay(database, queue, switch or Switch())


@pytest.mark.spec("LS-02")
async def test_a_commit_is_enqueued_within_100_ms_and_owed(database: Database, database_url: str) -> None:
    queue, stop = MemoryQueue(), asyncio.Event()
    running = asyncio.create_task(relay_of(database, queue).run(database_url, stop, sweep_s=60))
    async with producer(database_url) as connection, asyncio.timeout(20):
        await ask(connection, 1)  # the relay's first cycle or its listener finds this one
        while not queue.jobs:
            await asyncio.sleep(0.005)
        latencies = []
        for source_id in range(2, 7):
            await ask(connection, source_id)
            committed = time.monotonic()
            while f"kb-source-sync-{source_id}" not in queue.jobs:
                await asyncio.sleep(0.001)
            latencies.append(time.monotonic() - committed)
    stop.set()
    await asyncio.wait_for(running, 5)
    assert sorted(latencies)[2] < 0.1, latencies  # the sweep would take a minute
    assert queue.jobs["kb-source-sync-2"].rerun_if_active
    assert await owed(database) == [f"kb-source-sync-{n}" for n in range(1, 7)]


@pytest.mark.spec("LS-02")
async def test_a_rolled_back_producer_enqueues_nothing(database: Database, database_url: str) -> None:
    queue = MemoryQueue()
    async with producer(database_url) as connection:
        transaction = connection.transaction()
        await transaction.start()
        await ask(connection, 1)
        await transaction.rollback()
    assert (await relay_of(database, queue).relay_once()).enqueued == 0
    assert queue.created == {}
    assert await outcomes(database) == []


@pytest.mark.spec("LS-02")
async def test_a_row_that_commits_late_below_relayed_ids_is_relayed(database: Database, database_url: str) -> None:
    queue = MemoryQueue()
    relay = relay_of(database, queue)
    async with producer(database_url) as slow, producer(database_url) as fast:
        transaction = slow.transaction()
        await transaction.start()
        late = await ask(slow, 101)
        early = await ask(fast, 102)
        assert late < early
        assert (await relay.relay_once()).enqueued == 1
        await transaction.commit()
        assert (await relay.relay_once()).enqueued == 1
        assert (await relay.relay_once()).enqueued == 0
    assert queue.created == {"kb-source-sync-102": 1, "kb-source-sync-101": 1}


class Crash(Exception):
    pass


@pytest.mark.spec("LS-02")
@pytest.mark.parametrize("step", ["_sort_out", "accept_units", "mark_relayed_many"])
@pytest.mark.parametrize("before", [True, False])
async def test_a_relay_that_dies_at_any_step_loses_nothing_and_makes_one_job(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch, step: str, before: bool
) -> None:
    queue = MemoryQueue()
    async with producer(database_url) as connection:
        await ask(connection, 1)
    real = getattr(outbox_relay, step)

    async def dies(*args: object, **options: object) -> object:
        if not before:
            await real(*args, **options)
        raise Crash

    def dies_at_once(*args: object) -> object:
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(outbox_relay, step, dies_at_once if step == "_sort_out" else dies)
        with pytest.raises(Crash):
            await relay_of(database, queue).relay_once()
    assert await outcomes(database) == [None]
    assert (await relay_of(database, queue).relay_once()).enqueued == 1
    assert queue.created == {"kb-source-sync-1": 1}
    assert await owed(database) == ["kb-source-sync-1"]
    assert (await relay_of(database, queue).relay_once()).enqueued == 0


@pytest.mark.spec("LS-02")
async def test_relays_side_by_side_pass_over_each_others_rows(database: Database, database_url: str) -> None:
    queue, entered, leave = MemoryQueue(), asyncio.Event(), asyncio.Event()

    class SlowQueue(MemoryQueue):
        async def enqueue(self, queue: str, requests: list[JobRequest]) -> list[Enqueued]:
            entered.set()
            await leave.wait()
            return await super().enqueue(queue, requests)

    slow_queue = SlowQueue()
    async with producer(database_url) as connection:
        await ask(connection, 1)
        first = asyncio.create_task(relay_of(database, slow_queue).relay_once())
        await entered.wait()  # it holds the row's lock now
        assert (await relay_of(database, queue).relay_once()).enqueued == 0
        await ask(connection, 2)
        assert (await relay_of(database, queue).relay_once()).enqueued == 1
    leave.set()
    assert (await first).enqueued == 1
    assert (slow_queue.created, queue.created) == ({"kb-source-sync-1": 1}, {"kb-source-sync-2": 1})


@pytest.mark.spec("LS-02")
async def test_a_malformed_row_is_refused_with_its_reason_and_blocks_nobody(
    database: Database, database_url: str
) -> None:
    queue = MemoryQueue()
    bad = [
        '{"type": "sync_source", "organization_id": 7}',
        '{"type": "sync_source", "organization_id": 7, "source_id": 1.5}',
        '{"type": "sync_source", "organization_id": 7, "source_id": 1, "surprise": "x"}',
        '{"type": "sync_source", "organization_id": 7, "source_id": 1, "version": 9}',
        '{"type": "sync_source", "organization_id": 7, "source_id": 1, "deep": ' + "[" * 3_000 + "]" * 3_000 + "}",
        '{"type": "sync_source", "organization_id": 7, "source_id": 1e4200}',
        '{"type": "sync_source", "organization_id": 9999999999999999999, "source_id": 1}',
    ]
    async with producer(database_url) as connection:
        for request in bad[:-1]:
            await connection.fetchval("select kbsync.request_sync($1)", request)
        with pytest.raises(asyncpg.PostgresError):  # refused in the producer's face
            await connection.fetchval("select kbsync.request_sync($1)", bad[-1])
        await connection.execute(
            "insert into kbsync.outbox (organization_id, request) values (7, $1)",
            '{"type": "sync_source", "organization_id": 8, "source_id": 1}',
        )
        await ask(connection, 5)
        done = await relay_of(database, queue).relay_once()
        rows = await connection.fetch("select refusal from kbsync.outbox where outcome = 'refused' order by id")
    assert (done.enqueued, done.refused) == (1, len(bad))
    assert list(queue.created) == ["kb-source-sync-5"]
    reasons = [row["refusal"] for row in rows]
    assert reasons[0] == "source_id: Field required"
    assert reasons[2].startswith("surprise: ")
    assert reasons[-1] == "organization_id: differs from the row's own"
    assert all(reasons)


@pytest.mark.spec("LS-02")
async def test_a_row_that_the_queue_will_not_take_is_refused_alone(database: Database, database_url: str) -> None:
    queue = MemoryQueue()
    queue.fail = lambda jobs: PayloadTooLarge("too large") if "kb-source-sync-2" in [j.job_id for j in jobs] else None
    async with producer(database_url) as connection:
        for source_id in (1, 2, 3):
            await ask(connection, source_id)
    done = await relay_of(database, queue).relay_once()
    assert (done.enqueued, done.refused) == (2, 1)
    assert await outcomes(database) == ["created", "refused", "created"]


@pytest.mark.spec("LS-23", "KS-01")
async def test_the_kill_switch_holds_rows_and_lets_them_go(database: Database, database_url: str) -> None:
    queue, switch = MemoryQueue(), Switch(organizations={7})
    relay = relay_of(database, queue, switch)
    async with producer(database_url) as connection:
        for source_id in (1, 2, 3):
            await ask(connection, source_id, organization_id=7)
        await ask(connection, 4, organization_id=8)
    done = await relay.relay_once()
    assert (done.enqueued, done.held_organizations) == (1, 1)
    assert list(queue.created) == ["kb-source-sync-4"]
    switch.everybody = True
    assert (await relay.relay_once()).enqueued == 0
    switch.broken = FlagStoreUnavailable("the flag store does not answer")
    with pytest.raises(FlagStoreUnavailable):
        await relay.relay_once()
    switch.broken, switch.everybody, switch.organizations = None, False, set()
    assert (await relay.relay_once()).enqueued == 3
    assert await outcomes(database) == ["created"] * 4


@pytest.mark.spec("LS-02", "QU-20")
async def test_the_relay_outlives_redis_and_postgres(database: Database, database_url: str) -> None:
    queue, stop = MemoryQueue(), asyncio.Event()
    asked = asyncio.Event()

    def down(jobs: list[JobRequest]) -> Exception:
        asked.set()
        return redis_is_down(jobs)

    queue.fail = down
    running = asyncio.create_task(relay_of(database, queue).run(database_url, stop, sweep_s=0.02))
    async with producer(database_url) as connection:
        await ask(connection, 1)
        await asyncio.wait_for(asked.wait(), 5)
        assert await outcomes(database) == [None]
        queue.fail = lambda _: None
        async with asyncio.timeout(10):
            while "kb-source-sync-1" not in queue.jobs:
                await asyncio.sleep(0.005)
        # Every other connection to this database is cut, the listener's and the pool's.
        await connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where datname = current_database() and pid <> pg_backend_pid()"
        )
        await ask(connection, 2)
        async with asyncio.timeout(10):
            while "kb-source-sync-2" not in queue.jobs:
                await asyncio.sleep(0.005)
    stop.set()
    await asyncio.wait_for(running, 5)
    assert queue.created == {"kb-source-sync-1": 1, "kb-source-sync-2": 1}


@pytest.mark.spec("LS-02")
async def test_one_busy_organization_does_not_hold_back_another(database: Database, database_url: str) -> None:
    queue = MemoryQueue()
    async with producer(database_url) as connection:
        await connection.execute(
            "insert into kbsync.outbox (organization_id, request) select 1, "
            "jsonb_build_object('type', 'sync_source', 'organization_id', 1, 'source_id', n) from generate_series(1, 50) n"
        )
        await ask(connection, 99, organization_id=2)
    relay = OutboxRelay(database, queue, Switch(), batch=10)
    assert (await relay.relay_once()).more
    assert "kb-source-sync-99" in queue.jobs
    while (await relay.relay_once()).more:
        pass
    assert len(queue.created) == 51


async def test_more_organizations_than_a_batch_are_served_in_turn(database: Database, database_url: str) -> None:
    queue = MemoryQueue()
    async with producer(database_url) as connection:
        await connection.execute(
            "insert into kbsync.outbox (organization_id, request) select o, jsonb_build_object('type', 'sync_source', "
            "'organization_id', o, 'source_id', o * 10 + n) from generate_series(1, 7) o, generate_series(1, 2) n"
        )
    relay = OutboxRelay(database, queue, Switch(), batch=3)
    for _ in range(3):
        await relay.relay_once()
    assert {int(job_id.rsplit("-", 1)[1]) // 10 for job_id in queue.created} == set(range(1, 8))
