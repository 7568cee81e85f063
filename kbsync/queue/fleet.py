"""All queues of a region, each on its own Redis or on the common one: what producers hold (`jobs.Enqueuer`)."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from redis.asyncio import Redis
from redis.exceptions import RedisError

from kbsync.domain.errors import QueueUnavailable
from kbsync.queue.connect import open_redis
from kbsync.queue.jobs import Enqueued, JobRequest
from kbsync.queue.queue import FleetQueue
from kbsync.queue.scripts import run_scripts

LOOK_UPS_A_CALL = 1_000


class Fleet:
    """Raises SettingsError for a URL that can't be used; connects on first use."""

    def __init__(self, default_url: str, queue_urls: Mapping[str, str] | None = None) -> None:
        self._clients: dict[str, Redis] = {}
        self._urls = dict(queue_urls or {})
        self._default_url = default_url
        self._queues: dict[str, FleetQueue] = {}
        for url in (default_url, *self._urls.values()):
            self.client_at(url)

    def client_at(self, url: str) -> Redis:
        """The one client of a URL."""
        if url not in self._clients:
            self._clients[url] = open_redis(url)
        return self._clients[url]

    def queue(self, name: str) -> FleetQueue:
        if name not in self._queues:
            self._queues[name] = FleetQueue(self.client_at(self._urls.get(name, self._default_url)), name)
        return self._queues[name]

    async def enqueue(self, queue: str, requests: list[JobRequest]) -> list[Enqueued]:
        """As FleetQueue.enqueue. Raises QueueUnavailable when Redis did not take everything; repeating is safe."""
        async with unavailable_if_redis_fails(queue):
            return await self.queue(queue).enqueue(requests)

    async def live_job_ids(self, job_ids: Sequence[str]) -> set[str]:
        """Which are waiting, delayed or active in any queue: one round trip for each 1,000 ids, and each Redis."""
        found: set[str] = set()
        ids = list(job_ids)
        batches = [ids[at : at + LOOK_UPS_A_CALL] for at in range(0, len(ids), LOOK_UPS_A_CALL)]
        async with unavailable_if_redis_fails("any"):
            for client in self._clients.values():
                for batch in batches:
                    (reply,) = await run_scripts(client, "live", (), [batch])
                    assert isinstance(reply, bytes)
                    found.update(job_id for job_id, live in zip(batch, reply, strict=True) if live == ord("1"))
        return found

    async def ping_write(self) -> None:
        """Readiness (QU-17): a real write on every Redis. Raises QueueUnavailable when one does not take it."""
        async with unavailable_if_redis_fails("any"):
            for client in self._clients.values():
                await client.set("kbsync:ready", str(int(time.time())), ex=60)

    async def close(self) -> None:
        for client in self._clients.values():
            await client.connection_pool.disconnect()


@asynccontextmanager
async def unavailable_if_redis_fails(queue: str) -> AsyncIterator[None]:
    """Any failure of Redis becomes QueueUnavailable."""
    try:
        yield
    except (RedisError, OSError, TimeoutError) as error:
        raise QueueUnavailable(f"Redis did not answer for queue {queue}: {type(error).__name__}: {error}") from error
