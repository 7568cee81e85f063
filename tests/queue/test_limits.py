"""Pause, max_active and the limiter, and every side door into active."""

from __future__ import annotations

import asyncio
import time

import pytest
from redis.asyncio import Redis

from kbsync.domain.errors import SettingsError
from kbsync.domain.states import JobState
from kbsync.queue.jobs import Completed, JobEnd, RunningJob
from kbsync.queue.operators import Action, QueueOperator
from kbsync.queue.queue import FleetQueue
from tests.queue.support import Recorder, a_request, a_worker, claim, completed, exchange, running, until
from tests.queue.test_ends import ended
from tests.queue.test_pickup import client_calls


@pytest.mark.spec("QU-13")
async def test_a_paused_queue_hands_nothing_out_by_any_door(
    queue: FleetQueue, operator: QueueOperator, url: str, redis: Redis
) -> None:
    """A13: a delayed job due, a stalled one, a retried failed one, and a new one all wait; after resume each runs once."""
    await queue.enqueue([a_request("stalled"), a_request("failed")])
    await claim(queue, 2, "dead", 100)
    await exchange(queue, 0, "x", 1000, ("failed", "fdead", ',1,"unit",1,2,3,1,"t",{"type":"E"},[1,"t","unit",1,{}]]'))
    assert await operator.pause() is True
    assert await operator.pause() is False
    recorder = Recorder()
    async with running(a_worker(url, recorder, lease_s=0.4), a_worker(url, recorder, lease_s=0.4)):
        await queue.enqueue([a_request("delayed", delay_ms=100), a_request("later", delay_ms=60_000), a_request("new")])
        await operator.act(Action.RETRY, ["failed"])
        await operator.act(Action.PROMOTE, ["later"])
        await until(lambda: _waiting(queue, 5))
        await asyncio.sleep(0.5)
    async with running(a_worker(url, recorder, lease_s=0.4)):  # a restarted worker looks at the pause too
        await asyncio.sleep(0.3)
        counts = await queue.counts()
        assert (recorder.runs, counts.paused, counts.active, counts.waiting) == ([], True, 0, 5)
        await operator.resume()
        await until(lambda: _done(queue, 5))
    assert sorted(recorder.runs) == ["delayed", "failed", "later", "new", "stalled"]


async def _waiting(queue: FleetQueue, count: int) -> bool:
    return (await queue.counts()).waiting == count


async def _done(queue: FleetQueue, count: int) -> bool:
    return (await queue.counts()).completed == count


@pytest.mark.spec("QU-13", "QU-14")
@pytest.mark.parametrize("restriction", ["paused", "max_active", "limited"])
async def test_a_restricted_queue_does_not_make_workers_spin(
    queue: FleetQueue, operator: QueueOperator, url: str, redis: Redis, restriction: str
) -> None:
    await queue.enqueue([a_request(f"j{number}") for number in range(50)])
    if restriction == "paused":
        await operator.pause()
    elif restriction == "max_active":
        await operator.set_max_active(1)
        await claim(queue, 1, "held")
    else:
        await operator.set_limiter(1, 3_600_000)
        await claim(queue, 1, "held")
    async with running(a_worker(url, Recorder(), lease_s=15), a_worker(url, Recorder(), lease_s=15)):
        await asyncio.sleep(0.2)
        before = await client_calls(redis)
        await asyncio.sleep(0.6)
        assert await client_calls(redis) - before < 10


@pytest.mark.spec("QU-29")
async def test_any_number_of_workers_never_exceed_max_active(
    queue: FleetQueue, operator: QueueOperator, url: str
) -> None:
    await operator.set_max_active(3)
    active = most = 0

    async def handler(job: RunningJob) -> JobEnd:
        nonlocal active, most
        active += 1
        most = max(most, active)
        await asyncio.sleep(0.01)
        active -= 1
        return Completed()

    await queue.enqueue([a_request(f"j{number}") for number in range(60)])
    async with running(*(a_worker(url, handler, concurrency=10) for _ in range(3))):
        await until(lambda: _done(queue, 60))
    assert most == 3


@pytest.mark.spec("QU-29")
async def test_the_finish_that_makes_room_wakes_a_worker(queue: FleetQueue, operator: QueueOperator, url: str) -> None:
    await operator.set_max_active(1)
    await queue.enqueue([a_request("held"), a_request("next")])
    assert await claim(queue, 5, "held") == ["held"]
    recorder = Recorder()
    async with running(a_worker(url, recorder, lease_s=15)):
        await asyncio.sleep(0.2)
        assert recorder.runs == []
        freed = time.monotonic()
        await exchange(queue, 0, "x", 1000, completed("held", "held"))
        await until(lambda: recorder.runs == ["next"])
        assert time.monotonic() - freed < 0.5


@pytest.mark.spec("QU-14")
async def test_the_limiter_holds_fleet_wide_and_wakes_at_the_windows_end(
    queue: FleetQueue, operator: QueueOperator, url: str, redis: Redis
) -> None:
    window_ms = 400
    await operator.set_limiter(5, window_ms)
    windows: dict[int, int] = {}
    recorder = Recorder()
    await queue.enqueue([a_request(f"j{number}") for number in range(18)])
    async with running(a_worker(url, recorder, lease_s=15), a_worker(url, recorder, lease_s=15)):
        begun = time.monotonic()
        await until(lambda: len(recorder.runs) == 18)
        took = time.monotonic() - begun
    for entry_id, events in await queue.events(limit=1_000):  # Redis's clock, of the script that claimed
        number = int(entry_id.split("-")[0]) // window_ms
        windows[number] = windows.get(number, 0) + len(events.get("started", []))
    assert max(windows.values()) == 5
    assert 2 * window_ms / 1000 <= took < 5 * window_ms / 1000 + 1
    assert len(windows) >= 4
    for job_id in recorder.runs:
        assert (await ended(queue, job_id)).view.delays == 0
    for key in await redis.keys("q:lim:*"):
        assert 0 < await redis.pttl(key) <= 2 * window_ms


@pytest.mark.spec("QU-14")
async def test_a_window_never_hands_out_more_than_its_limit(queue: FleetQueue, operator: QueueOperator) -> None:
    await operator.set_limiter(5, 3_600_000)
    await queue.enqueue([a_request(f"j{number}") for number in range(20)])
    taken = [*await claim(queue, 3, "a"), *await claim(queue, 4, "b"), *await claim(queue, 4, "c")]
    assert len(taken) == 5
    reply = await exchange(queue, 4, "d")
    assert reply[0] == 0
    assert 0 < reply[1] <= 3_600_000
    await operator.set_limiter(None)
    assert len(await claim(queue, 4, "e")) == 4


@pytest.mark.spec("QU-14", "QU-29")
async def test_limits_are_read_back_and_nonsense_is_refused(operator: QueueOperator) -> None:
    await operator.set_limiter(60, 60_000)
    await operator.set_max_active(16)
    limits = await operator.limits()
    assert (limits.paused, limits.max_active, limits.limit, limits.window_ms) == (False, 16, 60, 60_000)
    await operator.set_limiter(None)
    await operator.set_max_active(None)
    limits = await operator.limits()
    assert (limits.max_active, limits.limit, limits.window_ms) == (None, None, None)
    for wrong in (operator.set_max_active(0), operator.set_limiter(0), operator.set_limiter(1, 0)):
        with pytest.raises(SettingsError):
            await wrong


@pytest.mark.spec("QU-13")
async def test_a_paused_queue_keeps_accepting_and_what_runs_may_end(queue: FleetQueue, operator: QueueOperator) -> None:
    await queue.enqueue([a_request("j")])
    await claim(queue, 1)
    await operator.pause()
    await queue.enqueue([a_request("k")])
    assert await claim(queue, 5, "u") == []
    await exchange(queue, 5, "v", 1000, completed("j"))
    counts = await queue.counts()
    assert (counts.of(JobState.COMPLETED), counts.of(JobState.WAITING)) == (1, 1)
