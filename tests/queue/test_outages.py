"""Redis goes away, comes back, comes back empty, loses its scripts, turns read-only (QU-20, A07)."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
from redis.asyncio import Redis

from kbsync.domain.errors import QueueUnavailable
from kbsync.queue.fleet import Fleet
from kbsync.queue.jobs import Completed
from kbsync.queue.queue import FleetQueue
from ops.embedded.redis import EmbeddedRedis
from tests.queue.proxy import Proxy
from tests.queue.support import Recorder, a_request, a_worker, running, until
from tests.queue.test_ends import ended


@pytest.fixture
async def own_server(tmp_path: Path) -> AsyncIterator[EmbeddedRedis]:
    """A server of this test's own, that keeps its data."""
    binary = os.environ.get("KBSYNC_TEST_REDIS")
    server = EmbeddedRedis(tmp_path / "own", keep=True, binary=Path(binary) if binary else None)
    server.start()
    yield server
    server.stop()


@pytest.fixture
async def own_fleet(own_server: EmbeddedRedis) -> AsyncIterator[Fleet]:
    fleet = Fleet(own_server.url)
    yield fleet
    await fleet.close()


async def took(fleet: Fleet, job_id: str) -> bool:
    try:
        await fleet.enqueue("q", [a_request(job_id)])
    except QueueUnavailable:
        return False
    return True


@pytest.mark.spec("QU-20")
async def test_a_wiped_redis_is_survived_and_runs_without_a_lease_are_cancelled(
    queue: FleetQueue, url: str, redis: Redis
) -> None:
    recorder = Recorder({"lost": [asyncio.sleep(30), Completed()]})
    worker = a_worker(url, recorder, lease_s=0.3)
    async with running(worker):
        await queue.enqueue([a_request("lost")])
        await until(lambda: recorder.runs == ["lost"])
        await redis.flushall()
        await until(lambda: not worker.runs)
        await queue.enqueue([a_request("lost"), a_request("new")])  # as the reconciler does
        await until(lambda: _completed(queue, 2))
    assert sorted(recorder.runs) == ["lost", "lost", "new"]


async def _completed(queue: FleetQueue, count: int) -> bool:
    return (await queue.counts()).completed == count


@pytest.mark.spec("QU-20", "QU-13")
async def test_a_restarted_redis_is_found_again_and_a_delayed_job_runs_at_its_time(
    own_server: EmbeddedRedis, own_fleet: Fleet
) -> None:
    """A07; the pause survives too (A13)."""
    recorder = Recorder()
    async with running(a_worker(own_server.url, recorder, lease_s=15)):
        begun = time.time()
        await own_fleet.enqueue("q", [a_request("d", delay_ms=2_500)])
        await asyncio.to_thread(own_server.stop)
        assert not await took(own_fleet, "refused")
        await asyncio.to_thread(own_server.start)
        await until(lambda: recorder.runs == ["d"])
        late = time.time() - begun - 2.5
    assert 0 <= late < 1.5


@pytest.mark.spec("QU-20")
async def test_dropped_connections_lose_and_double_nothing(queue: FleetQueue, url: str) -> None:
    recorder = Recorder()
    async with Proxy.to(url) as proxy:
        worker = a_worker(proxy.url, recorder, concurrency=20, lease_s=5)
        async with running(worker):
            for turn in range(6):
                await queue.enqueue([a_request(f"j{turn}-{n}") for n in range(300)])
                await asyncio.sleep(0.03)
                proxy.drop()
            await until(lambda: _completed(queue, 1_800))
    assert len(set(recorder.runs)) == 1_800
    assert (await queue.counts()).failed == 0


@pytest.mark.spec("QU-20")
async def test_what_was_claimed_in_a_lost_answer_is_found_again_without_a_stall(queue: FleetQueue, url: str) -> None:
    recorder = Recorder()
    async with Proxy.to(url) as proxy, running(a_worker(proxy.url, recorder, lease_s=30)):
        await until(lambda: _has_worker(queue))
        proxy.swallow_replies = True
        await queue.enqueue([a_request("j")])
        await until(lambda: _active(queue, 1))
        proxy.swallow_replies = False
        proxy.drop()
        detail = await ended(queue, "j", wait_s=3)
    assert (recorder.runs, detail.view.stalls) == (["j"], 0)


async def _has_worker(queue: FleetQueue) -> bool:
    return len(await queue.workers()) == 1


async def _active(queue: FleetQueue, count: int) -> bool:
    return (await queue.counts()).active == count


@pytest.mark.spec("QU-20")
async def test_a_job_that_ends_while_redis_is_away_is_finished_afterwards_and_runs_once(
    queue: FleetQueue, url: str
) -> None:
    recorder = Recorder({"j": lambda job: asyncio.sleep(0.2, Completed({"n": 1}))})
    async with Proxy.to(url) as proxy, running(a_worker(proxy.url, recorder, lease_s=30)):
        await queue.enqueue([a_request("j")])
        await until(lambda: recorder.runs == ["j"])
        proxy.refusing = True
        proxy.drop()
        await asyncio.sleep(0.5)
        assert (await queue.counts()).active == 1
        proxy.refusing = False
        detail = await ended(queue)
    assert (recorder.runs, detail.result) == (["j"], {"n": 1})


def _has_run(recorder: Recorder, count: int) -> bool:
    return len(recorder.runs) == count


@pytest.mark.spec("QU-20", "QU-22")
async def test_lost_scripts_are_loaded_again_also_under_an_armed_claim(
    queue: FleetQueue, url: str, redis: Redis
) -> None:
    recorder = Recorder()
    async with running(a_worker(url, recorder, lease_s=15)):
        await until(lambda: _has_worker(queue))
        for turn in range(5):
            await asyncio.sleep(0.05)
            await redis.script_flush()
            begun = time.monotonic()
            await queue.enqueue([a_request(f"j{turn}")])
            await until(partial(_has_run, recorder, turn + 1))
            assert time.monotonic() - begun < 0.5
        await until(lambda: _completed(queue, 5))
    assert len(recorder.runs) == 5


@pytest.mark.spec("QU-20")
async def test_a_read_only_redis_is_waited_out(own_server: EmbeddedRedis, own_fleet: Fleet) -> None:
    admin: Redis = Redis.from_url(own_server.url)
    recorder = Recorder()
    async with running(a_worker(own_server.url, recorder, lease_s=15)):
        await own_fleet.enqueue("q", [a_request("before")])
        await until(lambda: recorder.runs == ["before"])
        await admin.replicaof("127.0.0.1", "1")
        assert not await took(own_fleet, "refused")
        await asyncio.sleep(0.3)
        await admin.replicaof("NO", "ONE")
        await until(lambda: took(own_fleet, "after"))
        await until(lambda: recorder.runs == ["before", "after"])
    await admin.connection_pool.disconnect()


@pytest.mark.spec("QU-04", "QU-20")
async def test_a_frozen_redis_is_answered_as_unavailable_within_two_seconds_or_so(
    own_server: EmbeddedRedis, own_fleet: Fleet
) -> None:
    await own_fleet.enqueue("q", [a_request("j")])
    os.kill(own_server.pid, signal.SIGSTOP)
    try:
        begun = time.monotonic()
        with pytest.raises(QueueUnavailable):
            await own_fleet.enqueue("q", [a_request("k")])
        assert time.monotonic() - begun < 3
    finally:
        os.kill(own_server.pid, signal.SIGCONT)
    await until(lambda: took(own_fleet, "l"))


@pytest.mark.spec("QU-20")
async def test_a_worker_starts_before_redis_does_and_stops_while_it_is_away(tmp_path: Path) -> None:
    server = EmbeddedRedis(tmp_path, keep=False)
    recorder = Recorder()
    async with running(a_worker(server.url, recorder)):
        await asyncio.sleep(0.2)
        await asyncio.to_thread(server.start)
        fleet = Fleet(server.url)
        await fleet.enqueue("q", [a_request("j")])
        await until(lambda: recorder.runs == ["j"])
        await fleet.close()
        await asyncio.to_thread(server.stop)
        await asyncio.sleep(0.1)
    assert recorder.runs == ["j"], "the worker has returned, and ran it once"


@pytest.mark.spec("QU-12")
async def test_stopping_an_idle_worker_gives_back_what_its_armed_claim_takes(queue: FleetQueue, url: str) -> None:
    for turn in range(20):
        worker = a_worker(
            url, Recorder({f"j{n}": lambda job: asyncio.sleep(5) for n in range(20)}), lease_s=30, drain_s=0
        )
        task = asyncio.create_task(worker.run())
        await until(lambda: _has_worker(queue))
        enqueue = asyncio.create_task(queue.enqueue([a_request(f"j{turn}")]))
        await asyncio.sleep(0.0005 * turn)
        worker.request_stop()
        await asyncio.gather(task, enqueue)
        counts = await queue.counts()
        assert (counts.active, counts.waiting, counts.delayed) == (0, turn + 1, 0)
    for turn in range(20):
        detail = await queue.detail(f"j{turn}")
        assert detail is not None
        assert (detail.view.stalls, detail.view.attempts) == (0, 0)


@pytest.mark.spec("QU-12")
async def test_a_cancelled_worker_puts_its_jobs_back(queue: FleetQueue, url: str) -> None:
    recorder = Recorder({"j": lambda job: asyncio.sleep(30)})
    await queue.enqueue([a_request("j")])
    task = asyncio.create_task(a_worker(url, recorder, lease_s=30).run())
    await until(lambda: recorder.runs == ["j"])
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await queue.counts()).waiting == 1
