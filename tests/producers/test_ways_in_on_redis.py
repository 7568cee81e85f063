"""The relay, the tick and fifty callers at once on a real queue that is taken away and comes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import date
from pathlib import Path

import pytest

from kbsync.db.pool import Database
from kbsync.domain.outcomes import Done
from kbsync.domain.requests import Scan
from kbsync.domain.states import JobState
from kbsync.queue.fleet import Fleet
from ops.embedded.redis import EmbeddedRedis
from producers.daily_tick import ScanServices, run_scan
from producers.outbox_relay import OutboxRelay
from producers.scheduler import Scheduler
from tests.producers.doubles import Switch
from tests.producers.library_rows import a_document, many_sources, owed
from tests.producers.test_outbox_relay import ask, outcomes, producer


@pytest.fixture
async def own_redis(tmp_path: Path) -> AsyncIterator[EmbeddedRedis]:
    server = EmbeddedRedis(tmp_path / "redis", keep=False)
    server.start()
    yield server
    server.stop()


async def waiting(fleet: Fleet, queue: str = "knowledge-base-sync") -> int:
    return (await fleet.queue(queue).counts()).of(JobState.WAITING)


@pytest.mark.spec("LS-02", "QU-20")
async def test_rows_wait_for_a_killed_redis_and_are_relayed_once(
    database: Database, database_url: str, own_redis: EmbeddedRedis
) -> None:
    fleet, stop = Fleet(own_redis.url), asyncio.Event()
    running = asyncio.create_task(OutboxRelay(database, fleet, Switch()).run(database_url, stop, sweep_s=0.05))
    async with producer(database_url) as connection:
        await ask(connection, 1)
        async with asyncio.timeout(10):
            while await outcomes(database) != ["created"]:
                await asyncio.sleep(0.01)
        own_redis.kill()
        await ask(connection, 2)
        own_redis.start()
        async with asyncio.timeout(20):
            while await outcomes(database) != ["created", "created"]:
                await asyncio.sleep(0.01)
    stop.set()
    await asyncio.wait_for(running, 10)
    assert await waiting(fleet) == 1  # the first one died with the server, and is owed
    assert await owed(database) == {"kb-source-sync-1": True, "kb-source-sync-2": True}
    await fleet.close()


@pytest.mark.spec("LS-03", "LS-22", "QU-30")
async def test_the_tick_from_the_clock_to_the_queue(database: Database, own_redis: EmbeddedRedis) -> None:
    fleet = Fleet(own_redis.url)
    await many_sources(database, 600, (7, 8))
    await a_document(database)
    schedulers = [Scheduler(database, fleet) for _ in range(3)]
    made = await asyncio.gather(*(scheduler.beat() for scheduler in schedulers))
    assert sorted(made) == [False, False, True]
    end = await run_scan(ScanServices(database, fleet, Switch(), page=250), Scan(date=date(2026, 11, 30)), run="a")
    assert isinstance(end, Done)
    assert await waiting(fleet) == 601  # the sources, and the scan job that nobody has taken
    assert await waiting(fleet, "knowledge-base-chunks") == 1
    await fleet.close()
