"""What a queue's page shows of its speed and its line: counted by minute, bounded whatever the depth (OP-05)."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import cast

import pytest
from redis.asyncio import Redis

from kbsync.domain.requests import Priority
from kbsync.queue.jobs import Unrecoverable
from kbsync.queue.queue import FleetQueue
from tests.queue.support import Recorder, a_request, a_worker, running, until


async def totals(queue: FleetQueue) -> tuple[int, int, int]:
    minutes = await queue.rates(3)
    return sum(m.came_in for m in minutes), sum(m.ended for m in minutes), sum(m.failed for m in minutes)


@pytest.mark.spec("OP-05")
async def test_what_comes_in_ends_and_fails_is_counted_by_minute(queue: FleetQueue, url: str) -> None:
    await queue.enqueue([a_request(f"j{number}") for number in range(5)])
    assert await totals(queue) == (5, 0, 0)
    async with running(a_worker(url, Recorder({"j1": Unrecoverable("no")}))):
        await until(lambda: _ended(queue, 5))
    assert await totals(queue) == (5, 5, 1)
    await queue.enqueue([a_request("j0"), a_request("j0")])
    assert (await totals(queue))[0] == 6  # a request that was queued already brings nothing in


async def _ended(queue: FleetQueue, many: int) -> bool:
    return (await totals(queue))[1] == many


async def test_the_minutes_of_a_past_hour_are_dropped_when_a_new_one_begins(queue: FleetQueue, redis: Redis) -> None:
    await cast("Awaitable[int]", redis.hset("q:rates", mapping={f"{minute}:i": "1" for minute in range(500)}))
    await queue.enqueue([a_request("j")])
    assert await cast("Awaitable[int]", redis.hlen("q:rates")) == 1


@pytest.mark.spec("OP-05")
async def test_the_oldest_waiting_job_is_found_at_the_heads_of_the_line(queue: FleetQueue) -> None:
    assert await queue.oldest_waiting_ms() is None
    await queue.enqueue([a_request("old", tenant="b", priority=Priority.BACKGROUND)])
    first = await queue.oldest_waiting_ms()
    await queue.enqueue([a_request(f"j{number}", priority=Priority.URGENT) for number in range(200)])
    await queue.enqueue([a_request("later", delay_ms=60_000)])
    assert first is not None
    assert await queue.oldest_waiting_ms() == first
