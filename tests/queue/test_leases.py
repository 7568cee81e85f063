"""Leases, tokens and stalls: only the holder changes an active job."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis

from kbsync.domain.states import JobState
from kbsync.queue.jobs import Completed, JobEnd, RunningJob
from kbsync.queue.queue import FleetQueue
from kbsync.queue.scripts import run_script
from tests.queue.proxy import Proxy
from tests.queue.support import Recorder, a_request, a_worker, ask, claim, completed, exchange, running, until
from tests.queue.test_ends import ended


async def beat(queue: FleetQueue, job_id: str, token: str, lease_ms: int = 60_000) -> list[bytes]:
    reply = await run_script(queue.redis, "beat", queue.keys.all, [lease_ms, job_id, token])
    assert isinstance(reply, list)
    return reply


async def lease_ends(redis: Redis, job_id: str = "j") -> None:
    await redis.zadd("q:active", {job_id: 1})


@pytest.mark.spec("QU-08")
@pytest.mark.parametrize(
    "finish",
    [
        completed("j", "old"),
        ("j", "dold", "5 {}"),
        ("j", "rold", "5 {}"),
        ("j", "bold", ""),
        ("j", "fold", ',1,"unit",1,2,3,1,"t",{}]'),
        ("j", "xold", ',1,"unit",1,2,3,1,"t",{}]'),
    ],
)
async def test_a_finish_with_a_stale_token_does_nothing(
    queue: FleetQueue, redis: Redis, finish: tuple[str, str, str]
) -> None:
    await queue.enqueue([a_request("j")])
    assert await claim(queue, 1, "old") == ["j"]
    await lease_ends(redis)
    assert await claim(queue, 1, "new") == ["j"]
    reply = await exchange(queue, 0, "x", 1000, finish)
    assert reply[3] == b"1"
    assert await redis.get("arq:in-progress:j") == b"new"
    counts = await queue.counts()
    assert (counts.active, counts.waiting, counts.delayed, counts.completed) == (1, 0, 0, 0)


@pytest.mark.spec("QU-08")
async def test_a_stale_finish_after_the_new_run_finished_leaves_its_result(queue: FleetQueue, redis: Redis) -> None:
    """A05: a finished job is never reopened."""
    await queue.enqueue([a_request("j")])
    await claim(queue, 1, "old")
    await lease_ends(redis)
    await claim(queue, 1, "new")
    await exchange(queue, 0, "x", 1000, completed("j", "new"))
    kept = await redis.get("arq:result:j")
    reply = await exchange(queue, 0, "x", 1000, ("j", "rold", "0 {}"), completed("j", "new"))
    assert reply[3] == b"1,2"
    assert await redis.get("arq:result:j") == kept
    assert (await queue.counts()).waiting == 0


@pytest.mark.spec("QU-08")
async def test_a_beat_with_a_stale_token_renews_nothing_and_says_so(queue: FleetQueue, redis: Redis) -> None:
    await queue.enqueue([a_request("j")])
    await claim(queue, 1, "old")
    await lease_ends(redis)
    await claim(queue, 1, "new", 1_000)
    before = await redis.zscore("q:active", "j")
    assert await beat(queue, "j", "old") == [b"j"]
    assert await redis.zscore("q:active", "j") == before
    assert await beat(queue, "j", "new") == []
    renewed = await redis.zscore("q:active", "j")
    assert renewed is not None
    assert before is not None
    assert renewed > before + 50_000


@pytest.mark.spec("QU-08")
async def test_a_beat_never_brings_back_what_is_over(queue: FleetQueue, redis: Redis) -> None:
    await queue.enqueue([a_request("j")])
    await claim(queue, 1)
    await exchange(queue, 0, "x", 1000, completed("j"))
    assert await beat(queue, "j", "t") == [b"j"]
    assert await redis.zcard("q:active") == 0


@pytest.mark.spec("QU-08")
async def test_a_job_far_longer_than_its_lease_runs_once_beside_idle_workers(queue: FleetQueue, url: str) -> None:
    recorder = Recorder({"j": lambda job: _slow()})
    await queue.enqueue([a_request("j")])
    async with running(a_worker(url, recorder, lease_s=0.2), a_worker(url, recorder, lease_s=0.2)):
        detail = await ended(queue)
    assert recorder.runs == ["j"]
    assert detail.view.stalls == 0


async def _slow() -> Completed:
    await asyncio.sleep(1.0)
    return Completed()


@pytest.mark.spec("QU-08")
async def test_a_run_that_lost_its_lease_is_cancelled_and_its_end_is_not_reported(
    queue: FleetQueue, url: str, redis: Redis
) -> None:
    cancelled = asyncio.Event()

    async def handler(job: RunningJob) -> JobEnd:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return Completed()

    await queue.enqueue([a_request("j")])
    worker = a_worker(url, handler, lease_s=0.3)
    async with running(worker):
        await until(lambda: len(worker.runs) == 1)
        await redis.set("arq:in-progress:j", "another")
        await asyncio.wait_for(cancelled.wait(), 3)
        await until(lambda: not worker.runs)
        assert (await queue.counts()).active == 1
        assert worker.tender.lost_leases == 1


@pytest.mark.spec("QU-09", "QU-31")
async def test_attempts_stalls_and_delays_are_counted_apart_and_the_fourth_stall_fails_the_job(
    queue: FleetQueue, redis: Redis
) -> None:
    await queue.enqueue([a_request("j")])
    await claim(queue, 1, "t1")
    await exchange(queue, 1, "t2", 60_000, ("j", "rt1", "0 {}"))
    for number in range(3):
        await exchange(queue, 1, f"t{number + 3}", 60_000, ("j", f"dt{number + 2}", "0 {}"))
    assert (await ask(redis, "HGET", "q:meta", "j") or b"").startswith(b"1,0,3")
    for stalls in range(1, 4):
        await lease_ends(redis)
        assert await claim(queue, 1, f"s{stalls}") == ["j"]
        assert (await ask(redis, "HGET", "q:meta", "j") or b"").startswith(f"1,{stalls},3".encode())
    await lease_ends(redis)
    assert await claim(queue, 1, "last") == []
    detail = await queue.detail("j")
    assert detail is not None
    assert (detail.view.state, detail.view.attempts, detail.view.stalls, detail.view.delays) == (
        JobState.FAILED,
        1,
        4,
        3,
    )
    assert detail.view.reason == "stalled_too_often"
    assert await ask(redis, "LLEN", "q:owed") == 1
    assert await redis.exists("q:meta", "arq:in-progress:j", "arq:job:j", "q:active") == 0


@pytest.mark.spec("QU-08")
async def test_a_live_lease_is_never_reclaimed_however_often_others_look(queue: FleetQueue, url: str) -> None:
    """A04: claims are one atomic step; with a slow line to Redis and constant looking nothing is taken for dead."""
    recorder = Recorder()
    async with Proxy.to(url, delay_s=0.03) as proxy:
        await queue.enqueue([a_request(f"j{number}") for number in range(500)])
        async with running(
            a_worker(proxy.url, recorder, concurrency=50, lease_s=2), a_worker(proxy.url, recorder, lease_s=2)
        ):
            while (await queue.counts()).completed < 500:
                await exchange(queue, 0)
                await asyncio.sleep(0.02)
    assert sorted(recorder.runs) == sorted(f"j{number}" for number in range(500))
    assert all("stalled" not in event for _, event in await queue.events(limit=1_000))


@pytest.mark.spec("QU-08")
async def test_a_lease_that_left_active_is_not_renewed_into_it(queue: FleetQueue, redis: Redis) -> None:
    """A token without its place in active (a half-restored Redis) must not make an active job of nothing."""
    await redis.set("arq:in-progress:j", "t")
    assert await beat(queue, "j", "t") == []
    assert await redis.zcard("q:active") == 0


@pytest.mark.spec("QU-08", "QU-18")
async def test_a_batch_of_claims_leaves_the_active_set_exact_and_in_its_quick_form(
    queue: FleetQueue, redis: Redis
) -> None:
    await queue.enqueue([a_request(f"j{number}") for number in range(60)])
    taken = await claim(queue, 50)
    assert (await queue.counts()).active == await redis.zcard("q:active") == 50
    assert sorted(await redis.zrange("q:active", 0, -1)) == sorted(job_id.encode() for job_id in taken)
    encoding = await ask(redis, "EVAL", "return redis.call('OBJECT', 'ENCODING', KEYS[1])", 1, "q:active")
    assert encoding == b"skiplist"
    assert len({score for _, score in await redis.zrange("q:active", 0, -1, withscores=True)}) == 1
