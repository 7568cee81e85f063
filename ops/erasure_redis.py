"""What Redis holds of an organization: its jobs, kept results, owed ends, events and throttles, taken away and counted.

Only SCAN and bounded reads: a Redis with a million other jobs goes on serving them.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any

from redis.asyncio import Redis

from kbsync.domain.ids import QueueName, organization_tenant
from kbsync.domain.states import JobState
from kbsync.queue.fleet import Fleet, unavailable_if_redis_fails
from kbsync.queue.keys import JOB_PREFIX, RESULT_PREFIX
from kbsync.queue.operators import Action, QueueOperator
from kbsync.queue.queue import FleetQueue
from kbsync.queue.views import JobFilter
from ratelimits.scope import CLOSURES_KEY, INDEX_KEY
from ratelimits.waits import waits_key

PAGE = 500
HEAD = 1_023  # a tenant stands in the first bytes of a request and of a record
ACTIVE_LOOKS = 600
_ENDED = (JobState.COMPLETED, JobState.SKIPPED, JobState.CANCELLED, JobState.FAILED)

# Which of some job ids are the organization's.
OwnJobs = Callable[[Sequence[str]], Awaitable[set[str]]]


class OrganizationInRedis:
    """`throttles` is the Redis of the provider throttles; each queue has its own or the same."""

    def __init__(self, fleet: Fleet, throttles: Redis, organization_id: int) -> None:
        self._queues = [fleet.queue(name) for name in QueueName]
        self._throttles = throttles
        self._organization_id = organization_id
        self._tenant = organization_tenant(organization_id)
        self._head = f'"{self._tenant}"'.encode()
        self._payload = re.compile(rb'"organization_id":\s*%d\b' % organization_id)

    async def erase(self, own_jobs: OwnJobs) -> int:
        """How many keys and entries went. Before: nothing makes new jobs of it. Raises QueueUnavailable."""
        went = 0
        async with unavailable_if_redis_fails("any"):
            for queue in self._queues:
                went += await self._jobs(queue)
                went += await self._events(queue, own_jobs)
                went += await self._owed(queue)
                await queue.redis.zrem(queue.keys.tags, *self._flows())
            went += await self._limits()
        return went

    async def forget_waits(self, job_ids: Sequence[str]) -> None:
        async with unavailable_if_redis_fails("any"):
            if job_ids:
                await self._throttles.unlink(*(waits_key(job_id) for job_id in job_ids))

    async def left(self) -> dict[str, int]:
        """By what was looked through with SCAN, how much is left."""
        left: Counter[str] = Counter()
        async with unavailable_if_redis_fails("any"):
            for redis in {id(queue.redis): queue.redis for queue in self._queues}.values():
                for prefix in (JOB_PREFIX, RESULT_PREFIX):
                    left[f"{prefix}*"] += await self._heads_with_tenant(redis, prefix)
            for queue in self._queues:
                for key in (queue.keys.owed, queue.keys.owing):
                    left[key] += len([one async for one in self._entries(queue.redis, key)])
                scores = [await queue.redis.zscore(queue.keys.tags, flow) for flow in self._flows()]
                left[queue.keys.tags] += sum(score is not None for score in scores)
            for pattern, at in self._patterns():
                left[pattern] += len([one async for one in self._keys(pattern, at)])
            for key, at in ((INDEX_KEY, 2), (CLOSURES_KEY, 1)):
                left[key] += len([one async for one in self._members(key, at)])
        return dict(left)

    # Jobs

    async def _jobs(self, queue: FleetQueue) -> int:
        operator, where = QueueOperator(queue), JobFilter(tenant=self._tenant)
        went = 0
        for state in (JobState.WAITING, JobState.DELAYED):
            went += (await operator.act_on_all(Action.REMOVE, state, where)).done
        await operator.act_on_all(Action.CANCEL, JobState.ACTIVE, where)
        for _ in range(ACTIVE_LOOKS):  # what still runs after that is found by the look at the end
            if not await self._runs(queue, where):
                break
            await asyncio.sleep(0.1)
        for state in (JobState.WAITING, JobState.DELAYED, *_ENDED):
            went += (await operator.act_on_all(Action.REMOVE, state, where)).done
        return went

    async def _runs(self, queue: FleetQueue, where: JobFilter) -> bool:
        async for page in queue.listing.scan_live(JobState.ACTIVE):
            if any(where.matches(view) for view, _ in page):
                return True
        return False

    async def _heads_with_tenant(self, redis: Redis, prefix: str) -> int:
        found = 0
        async for keys in _pages(redis.scan_iter(match=f"{prefix}*", count=PAGE)):
            pipe = redis.pipeline(transaction=False)
            for key in keys:
                pipe.getrange(key, 0, HEAD)
            found += sum(self._head in head for head in await pipe.execute())
        return found

    async def _events(self, queue: FleetQueue, own_jobs: OwnJobs) -> int:
        """Entries that name a job of the organization; each names several jobs, and is for looking only."""
        went, newest = 0, "-"
        while True:
            entries = await queue.redis.xrange(queue.keys.events, min=newest, count=PAGE)
            if not entries:
                return went
            named = {entry: _words(fields) for entry, fields in entries}
            own = await own_jobs(sorted({word for words in named.values() for word in words}))
            gone = [entry for entry, words in named.items() if words & own]
            if gone:
                went += int(await queue.redis.xdel(queue.keys.events, *gone))
            newest = f"({entries[-1][0].decode()}"

    async def _owed(self, queue: FleetQueue) -> int:
        went = 0
        for one in [one async for one in self._entries(queue.redis, queue.keys.owed)]:
            went += int(await _call(queue.redis, "LREM", queue.keys.owed, 0, one))
        for one in [one async for one in self._entries(queue.redis, queue.keys.owing)]:
            went += int(await _call(queue.redis, "ZREM", queue.keys.owing, one))
        return went

    async def _entries(self, redis: Redis, key: str) -> AsyncIterator[bytes]:
        first = 0
        while True:
            command = {b"list": "LRANGE", b"zset": "ZRANGE"}.get(await redis.type(key))
            page = await _call(redis, command, key, first, first + PAGE - 1) if command else []
            for one in page:
                if self._payload.search(one):
                    yield one
            if len(page) < PAGE:
                return
            first += PAGE

    def _flows(self) -> list[str]:
        return [f"{band}{self._tenant}{again}" for band in "012" for again in ("", "\0r")]

    # Throttles

    def _patterns(self) -> tuple[tuple[str, int], ...]:
        """Each with the place of the organization among the parts of a key."""
        one = self._organization_id
        return ((f"kbsync:throttle:*:*:{one}:*", 4), (f"kbsync:closed:*:{one}:*", 3))

    async def _limits(self) -> int:
        went = 0
        for pattern, at in self._patterns():
            async for keys in _pages(self._keys(pattern, at)):
                went += int(await self._throttles.unlink(*keys))
        for key, at in ((INDEX_KEY, 2), (CLOSURES_KEY, 1)):
            async for members in _pages(self._members(key, at)):
                went += int(await self._throttles.zrem(key, *members))
        return went

    async def _keys(self, pattern: str, at: int) -> AsyncIterator[bytes]:
        async for key in self._throttles.scan_iter(match=pattern, count=PAGE):
            if _part(key, at) == self._organization_id:
                yield key

    async def _members(self, key: str, at: int) -> AsyncIterator[bytes]:
        async for member, _ in self._throttles.zscan_iter(key, count=PAGE):
            if _part(member, at) == self._organization_id:
                yield member


async def _call(redis: Redis, *words: str | bytes | int) -> Any:
    """A command on raw bytes, which the client's own methods take for text."""
    return await redis.execute_command(*words)  # type: ignore[no-untyped-call]


def _part(text: bytes, at: int) -> int | None:
    """A number among the parts of a key. Names in it are percent-encoded, so that no part holds a colon."""
    parts = text.split(b":")
    return int(parts[at]) if len(parts) > at and parts[at].isdigit() else None


def _words(fields: Iterable[tuple[bytes, bytes]] | dict[bytes, bytes]) -> set[str]:
    values = fields.values() if isinstance(fields, dict) else (value for _, value in fields)
    return {word for value in values for word in value.decode("utf-8", "replace").split()}


async def _pages(items: AsyncIterator[bytes]) -> AsyncIterator[list[bytes]]:
    page: list[bytes] = []
    async for one in items:
        page.append(one)
        if len(page) == PAGE:
            yield page
            page = []
    if page:
        yield page
