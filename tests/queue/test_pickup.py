"""Waking up, batching, and how little an idle worker asks of Redis. Counts of commands instead of timings (PF-03, PF-07)."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from statistics import median
from typing import Any

import pytest
from redis.asyncio import Redis

from kbsync.queue.arqcompat import deserialize, serialize
from kbsync.queue.jobs import Completed, DelayJob, JobEnd, RunningJob
from kbsync.queue.queue import FleetQueue
from tests.queue.support import Recorder, a_request, a_worker, running, until


async def calls(redis: Redis, *names: str) -> int:
    stats = await redis.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in names)


async def client_calls(redis: Redis) -> int:
    """Calls by clients, not those inside scripts."""
    return await calls(redis, "evalsha", "eval", "blpop", "set", "ping", "script|load", "client|id")


@pytest.mark.spec("QU-10")
async def test_an_idle_worker_starts_a_new_job_without_a_poll(queue: FleetQueue, url: str) -> None:
    waits: list[float] = []
    started = asyncio.Event()
    sent = 0.0

    async def handler(job: RunningJob) -> JobEnd:
        waits.append(time.perf_counter() - sent)
        started.set()
        return Completed()

    async with running(a_worker(url, handler, lease_s=15)):
        await asyncio.sleep(0.1)
        for number in range(40):
            started.clear()
            sent = time.perf_counter()
            await queue.enqueue([a_request(f"j{number}")])
            await asyncio.wait_for(started.wait(), 5)
            await asyncio.sleep(0.005)
    # A millisecond or two on a quiet machine (PF-03 in ops/bench/RESULTS.md); a poll would take half its interval.
    assert median(waits) < 0.02


@pytest.mark.spec("QU-10")
@pytest.mark.parametrize("concurrency", [1, 4])
async def test_a_delayed_job_starts_at_its_time_and_no_traffic_is_needed(
    queue: FleetQueue, url: str, concurrency: int
) -> None:
    at: dict[str, float] = {}

    async def handler(job: RunningJob) -> JobEnd:
        at[job.job_id] = time.time()
        return Completed()

    async with running(a_worker(url, handler, lease_s=15, concurrency=concurrency)):
        await asyncio.sleep(0.1)
        begun = time.time()
        await queue.enqueue([a_request("a", delay_ms=150), a_request("b", delay_ms=400)])
        await until(lambda: len(at) == 2)
    assert 0.149 < at["a"] - begun < 0.3
    assert 0.399 < at["b"] - begun < 0.55


@pytest.mark.spec("QU-10")
async def test_a_stock_producers_job_starts_within_two_seconds(queue: FleetQueue, url: str, redis: Redis) -> None:
    from arq.connections import ArqRedis

    arq = ArqRedis(
        redis.connection_pool, job_serializer=serialize, job_deserializer=deserialize, default_queue_name="q"
    )
    recorder = Recorder()
    async with running(a_worker(url, recorder, lease_s=15)):
        await asyncio.sleep(0.1)
        begun = time.monotonic()
        await arq.enqueue_job("unit", {"id": "s"}, _job_id="s")
        await until(lambda: recorder.runs == ["s"])
    assert time.monotonic() - begun < 2.2


@pytest.mark.spec("QU-10", "PF-03")
async def test_an_idle_worker_makes_under_two_calls_a_second(queue: FleetQueue, url: str, redis: Redis) -> None:
    async with running(a_worker(url, Recorder(), lease_s=15)):
        await asyncio.sleep(0.5)
        before = await client_calls(redis)
        await asyncio.sleep(2.0)
        assert await client_calls(redis) - before < 4


@pytest.mark.spec("QU-11", "PF-07")
async def test_claims_and_finishes_go_in_batches(queue: FleetQueue, url: str, redis: Redis) -> None:
    size = 2_000
    await queue.enqueue([a_request(f"j{number}") for number in range(size)])
    await redis.config_resetstat()
    recorder = Recorder()
    async with running(a_worker(url, recorder, concurrency=100, lease_s=15)):
        await until(lambda: len(recorder.runs) == size)
    assert await client_calls(redis) < size / 10
    total = sum(stat["calls"] for stat in (await redis.info("commandstats")).values())
    assert total < 3 * size  # with what the scripts do inside


@pytest.mark.spec("QU-11")
async def test_a_claimed_batch_is_at_most_the_free_slots(queue: FleetQueue, url: str) -> None:
    most = 0
    active = 0

    async def handler(job: RunningJob) -> JobEnd:
        nonlocal most, active
        active += 1
        most = max(most, active, len(worker.runs))
        await asyncio.sleep(0.002)
        active -= 1
        return Completed()

    worker = a_worker(url, handler, concurrency=7)
    async with running(worker):
        for number in range(20):
            await until(lambda: worker.lanes.armed)  # the claim that waits has its slots reserved
            await queue.enqueue([a_request(f"j{number}-{part}") for part in range(10)])
        await until(lambda: _completed(queue, 200))
    assert most == 7


async def _completed(queue: FleetQueue, count: int) -> bool:
    return (await queue.counts()).completed == count


@pytest.mark.spec("PF-08")
async def test_a_delay_costs_a_share_of_a_batched_finish_and_claim(queue: FleetQueue, url: str, redis: Redis) -> None:
    size = 158
    ends: dict[str, Any] = {
        f"j{number}": [DelayJob(datetime.now(UTC) + timedelta(milliseconds=300), "window"), Completed()]
        for number in range(size)
    }
    recorder = Recorder(ends)
    await queue.enqueue([a_request(job_id) for job_id in ends])
    async with running(a_worker(url, recorder, concurrency=50, lease_s=15)):
        await asyncio.sleep(0)
        await redis.config_resetstat()
        await until(lambda: _completed(queue, size))
    assert len(recorder.runs) == 2 * size
    assert await client_calls(redis) < size


@pytest.mark.spec("QU-10")
async def test_a_burst_wakes_all_idle_workers(queue: FleetQueue, url: str) -> None:
    """One token wakes one worker, and it wakes the next while more is ready: no herd, nobody sleeps on work."""
    used: set[str] = set()

    async def handler_of(name: str, job: RunningJob) -> JobEnd:
        used.add(name)
        await asyncio.sleep(0.2)
        return Completed()

    workers = [a_worker(url, partial(handler_of, str(n)), concurrency=2, lease_s=15) for n in range(4)]
    async with running(*workers):
        await asyncio.sleep(0.2)
        await queue.enqueue([a_request(f"j{number}") for number in range(8)])
        await until(lambda: len(used) == 4, wait_s=0.5)  # before two workers could have done it all
        await until(lambda: _completed(queue, 8))
    assert used == {"0", "1", "2", "3"}
