"""Sources by their own interval: once an interval, however many schedulers ask (LS-26)."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis

from kbsync.db.pool import Database
from kbsync.domain.errors import QueueUnavailable
from kbsync.domain.ids import QueueName
from kbsync.library import source_setup
from kbsync.queue.fleet import Fleet
from kbsync.queue.jobs import Enqueued, JobRequest
from kbsync.settings import Settings
from producers.intervals import ask_for_due_sources
from tests.looking.rows import execute, fleet_of
from tests.producers.library_rows import a_source, owed


async def every(database: Database, source: int, seconds: int | None, asked_s_ago: int = 0) -> None:
    async with database.organization(7) as connection:
        await source_setup.set_interval(connection, 7, source, seconds)
    ago = "update knowledge_base_sources set interval_asked_at = now() - make_interval(secs => $2) where id = $1"
    if seconds is not None:
        await execute(database, ago, source, float(asked_s_ago))


@pytest.mark.spec("LS-26")
async def test_what_is_due_is_asked_for_once_by_any_number_of_schedulers(
    settings: Settings, database: Database
) -> None:
    due = [await a_source(database) for _ in range(7)]
    for source in due:
        await every(database, source, 3_600, asked_s_ago=3_601)
    for seconds, ago in ((3_600, 3_500), (None, 0)):
        await every(database, await a_source(database), seconds, ago)
    disabled, gone = await a_source(database), await a_source(database, discarded=True)
    await execute(
        database,
        "update knowledge_base_sources set sync_every_s = 600, interval_asked_at = now() - interval '1 day', "
        "disabled_at = now() where id = any($1)",
        [disabled, gone],
    )
    async with fleet_of(settings) as fleet:
        asked = await asyncio.gather(*(ask_for_due_sources(database, fleet, page=3) for _ in range(4)))
        assert sum(asked) == 7
        assert (await fleet.queue(QueueName.SYNC).counts()).waiting == 7
        assert await ask_for_due_sources(database, fleet) == 0
    assert await owed(database) == {f"kb-source-sync-{source}": True for source in due}


@pytest.mark.spec("LS-26", "QR-08")
async def test_a_queue_that_is_away_leaves_them_owed(settings: Settings, database: Database, redis: Redis) -> None:
    source = await a_source(database)
    await every(database, source, 3_600, asked_s_ago=3_601)

    class Away(Fleet):
        async def enqueue(self, queue: str, requests: list[JobRequest]) -> list[Enqueued]:
            raise QueueUnavailable("away")

    fleet = Away(settings.redis_url or "")
    assert await ask_for_due_sources(database, fleet) == 1
    await fleet.close()
    assert await owed(database) == {f"kb-source-sync-{source}": True}
    assert await redis.dbsize() == 0
