"""Nothing in Redis grows without bound, and work goes on when its memory is full."""

from __future__ import annotations

import asyncio
import json
import random
from functools import partial
from typing import Any

import pytest
from redis.asyncio import Redis

from kbsync.domain.errors import QueueUnavailable
from kbsync.domain.states import JobState
from kbsync.queue.exchange import Retention
from kbsync.queue.fleet import Fleet
from kbsync.queue.jobs import Completed, JobEnd, RunningJob, SkippedJob, Unrecoverable
from kbsync.queue.operators import Action, QueueOperator
from kbsync.queue.queue import FleetQueue
from kbsync.queue.scripts import Argument, run_script
from tests.queue.support import Recorder, a_request, a_worker, ask, claim, completed, exchange, running, until

SMALL = Retention(done_count=20, failed_count=30, max_bytes=1 << 20)


async def finish_all(
    queue: FleetQueue, url: str, count: int, end: Any, retention: Retention, prefix: str = "j"
) -> None:
    await queue.enqueue([a_request(f"{prefix}{number}") for number in range(count)])

    async def handler(job: RunningJob) -> JobEnd:
        if isinstance(end, Exception):
            raise end
        return end  # type: ignore[no-any-return]

    async with running(a_worker(url, handler, retention=retention, max_attempts=1)):
        await until(lambda: _idle(queue))


async def _idle(queue: FleetQueue) -> bool:
    counts = await queue.counts()
    return counts.waiting + counts.active + counts.delayed == 0


@pytest.mark.spec("QU-17")
@pytest.mark.parametrize(
    ("end", "state", "kept"),
    [
        (Completed(), "completed", 20),
        (SkippedJob({"status": "skipped"}), "skipped", 20),
        (Unrecoverable("x"), "failed", 30),
    ],
)
async def test_ended_jobs_are_kept_by_count_newest_last(
    queue: FleetQueue, url: str, redis: Redis, end: Any, state: str, kept: int
) -> None:
    await finish_all(queue, url, 100, end, SMALL)
    assert getattr(await queue.counts(), state) == kept
    assert len(await redis.keys("arq:result:*")) == kept
    assert await redis.exists("arq:result:j99") == 1
    assert await redis.keys("arq:job:*") == []


@pytest.mark.spec("QU-17")
async def test_ended_jobs_are_kept_by_bytes_and_the_count_of_bytes_is_true(
    queue: FleetQueue, url: str, redis: Redis
) -> None:
    await finish_all(queue, url, 60, Completed({"x": "y" * 50_000}), Retention(max_bytes=1_000_000))
    kept = await redis.keys("arq:result:*")
    stored = sum([await redis.strlen(key) for key in kept])
    counted = int(await ask(redis, "HGET", "q:bytes", "c") or 0)
    assert len(kept) == (await queue.counts()).completed == 19
    assert stored <= counted <= stored + 40 * len(kept)
    assert counted <= 1_000_000


@pytest.mark.spec("QU-17")
async def test_an_idle_queue_is_swept_by_age(queue: FleetQueue, url: str, redis: Redis) -> None:
    await finish_all(queue, url, 30, Completed(), Retention())
    await finish_all(queue, url, 10, Unrecoverable("x"), Retention(), "f")
    await asyncio.sleep(0.02)
    async with running(a_worker(url, Recorder(), retention=Retention(done_ms=10, failed_ms=10))):
        await until(lambda: _nothing_kept(queue))
    assert await redis.keys("arq:result:*") == []
    assert await ask(redis, "HGETALL", "q:bytes") == {b"c": b"0", b"nc": b"0", b"f": b"0", b"nf": b"0"}


async def _nothing_kept(queue: FleetQueue) -> bool:
    counts = await queue.counts()
    return counts.completed + counts.failed == 0


@pytest.mark.spec("QU-17")
async def test_finishing_trims_what_is_too_old(queue: FleetQueue, url: str) -> None:
    await finish_all(queue, url, 30, Completed(), Retention())
    await asyncio.sleep(0.05)
    await finish_all(queue, url, 1, Completed(), Retention(done_ms=40), "k")
    assert (await queue.counts()).completed == 1


@pytest.mark.spec("QU-17")
async def test_a_trim_takes_at_most_four_hundred_a_call(queue: FleetQueue, url: str) -> None:
    await finish_all(queue, url, 1_000, Completed(), Retention())
    arguments = [0, 1, 0, 1, 0]
    left = []
    for _ in range(3):
        await run_script(queue.redis, "sweep", queue.keys.all, arguments)
        left.append((await queue.counts()).completed)
    assert left == [600, 200, 0]


@pytest.mark.spec("QU-17", "QU-26")
async def test_a_long_lived_queue_leaves_a_bounded_set_of_keys(queue: FleetQueue, url: str, redis: Redis) -> None:
    for turn in range(3):
        await finish_all(queue, url, 300, Completed(), SMALL, f"a{turn}-")
        await finish_all(queue, url, 100, Unrecoverable("x"), SMALL, f"b{turn}-")
    names = {key for key in await redis.keys("*") if not key.startswith(b"arq:result:")}
    assert names <= {
        b"q:vt",
        b"q:tags",
        b"q:events",
        b"q:idx:c",
        b"q:idx:f",
        b"q:bytes",
        b"q:rates",
        b"q:wake",
        b"q:cfg",
    }
    assert len(await redis.keys("arq:result:*")) == 50
    assert await redis.xlen("q:events") < 1_200


@pytest.mark.spec("QU-17", "QU-20")
async def test_memory_levels_off_and_work_resumes_by_itself_after_redis_was_full(
    fleet: Fleet, queue: FleetQueue, url: str, redis: Redis
) -> None:
    """A12"""
    base = (await redis.info("memory"))["used_memory"]
    filler = "x" * 1_000_000
    release = asyncio.Event()
    recorder = Recorder({"held": lambda job: _held(release)})
    retention = Retention(max_bytes=2 << 20)
    async with running(a_worker(url, recorder, retention=retention, lease_s=0.5, concurrency=4)):
        await redis.config_set("maxmemory", base + 24_000_000)
        try:
            for number in range(60):
                request = a_request(f"j{number}", payload={"x": "y" * 250_000})
                await until(partial(_took, fleet, request))
            await until(lambda: _idle(queue))
            assert (await queue.counts()).failed == 0

            await fleet.enqueue("q", [a_request("held"), a_request("late", delay_ms=400)])
            await until(lambda: "held" in recorder.runs)
            number = 0
            while True:
                try:
                    await redis.set(f"filler{number}", filler)
                    number += 1
                except Exception:
                    break
            await redis.config_set("maxmemory", 1)
            with pytest.raises(QueueUnavailable):
                await fleet.enqueue("q", [a_request("refused")])
            with pytest.raises(QueueUnavailable):
                await fleet.ping_write()
            await asyncio.sleep(1.2)  # more than two leases: beats still pass, or `held` would stall
            release.set()
            await until(lambda: _completed(queue, "held"))
            await redis.delete(*[f"filler{n}" for n in range(number)])
        finally:
            await redis.config_set("maxmemory", 0)
        await fleet.ping_write()
        await fleet.enqueue("q", [a_request("after")])
        await until(lambda: "after" in recorder.runs and "late" in recorder.runs)
    assert recorder.runs.count("held") == 1


async def _held(release: asyncio.Event) -> Completed:
    await release.wait()
    return Completed()


async def _took(fleet: Fleet, request: Any) -> bool:
    try:
        await fleet.enqueue("q", [request])
    except QueueUnavailable:
        return False
    return True


async def _completed(queue: FleetQueue, job_id: str) -> bool:
    detail = await queue.detail(job_id)
    return detail is not None and detail.view.state is JobState.COMPLETED


@pytest.mark.spec("QU-17")
async def test_failed_jobs_keep_type_message_traceback_and_times_of_each_attempt(
    queue: FleetQueue, url: str, redis: Redis
) -> None:
    await queue.enqueue([a_request("j")])
    recorder = Recorder({"j": lambda job: KeyError(f"nr {job.attempt}")})
    async with running(a_worker(url, recorder)):
        await until(lambda: _failed(queue))
    record = json.loads(await redis.get("arq:result:j") or b"")
    errors = record[11][3]["errors"]
    assert [(error["attempt"], error["type"], error["message"]) for error in errors] == [
        (1, "KeyError", "'nr 1'"), (2, "KeyError", "'nr 2'"), (3, "KeyError", "'nr 3'"),
    ]  # fmt: skip
    assert all(error["traceback"] and error["started"] and error["ended"] for error in errors)


async def _failed(queue: FleetQueue) -> bool:
    return (await queue.counts()).failed == 1


@pytest.mark.spec("PF-06")
async def test_memory_per_waiting_and_per_kept_job(queue: FleetQueue, url: str, redis: Redis) -> None:
    size = 20_000
    payload = {"text": "x" * 185}
    before = (await redis.info("memory"))["used_memory"]
    for first in range(0, size, 1_000):
        await queue.enqueue([a_request(f"kb-doc-{n:08d}", payload=payload) for n in range(first, first + 1_000)])
    waiting = ((await redis.info("memory"))["used_memory"] - before) / size
    for number in range(size // 100):
        ids = await claim(queue, 100, f"t{number}")
        record = ',1,"unit",1700000000000,1700000000001,1700000000002,1,"org-1",{}]'
        ended: list[Argument] = ["c", f"t{number}", len(ids), *[part for job_id in ids for part in (job_id, record)]]
        arguments: list[Argument] = ["x", 1000, 0, 3, 1 << 30, 1 << 40, 1 << 30, 1 << 40, 1 << 40, *ended]
        await run_script(queue.redis, "exchange", queue.keys.all, arguments)
    kept = ((await redis.info("memory"))["used_memory"] - before) / size
    assert waiting <= 500
    assert kept <= 300


@pytest.mark.spec("QU-17", "QU-18")
@pytest.mark.parametrize("seed", range(6))
async def test_counts_records_and_pages_agree_however_jobs_end_are_replaced_removed_and_trimmed(
    queue: FleetQueue, operator: QueueOperator, redis: Redis, seed: int
) -> None:
    """Jobs that end in one step share an index entry: replaced, removed and trimmed ones leave holes in it."""
    draw = random.Random(seed)
    keep, names = 7, [f"j{number}" for number in range(16)]
    kept: list[str] = []  # oldest first
    for turn in range(60):
        chosen = draw.sample(names, draw.randint(1, 9))
        if draw.random() < 0.3:
            await operator.act(Action.REMOVE, chosen)
            kept = [job_id for job_id in kept if job_id not in chosen]
        else:
            await queue.enqueue([a_request(job_id) for job_id in chosen])
            kept = [job_id for job_id in kept if job_id not in chosen]
            if draw.random() < 0.2:
                assert (await queue.counts()).completed == len(kept)
            taken = await claim(queue, 20, f"t{turn}")
            await exchange(queue, 0, "x", 1000, *[completed(job_id, f"t{turn}") for job_id in taken], keep=keep)
            kept = [*kept, *taken][-keep:]
        assert (await queue.counts()).completed == len(kept)
        assert {key.decode().removeprefix("arq:result:") for key in await redis.keys("arq:result:*")} == set(kept)
        assert [job.job_id for job in (await queue.page(JobState.COMPLETED, limit=100)).jobs] == kept[::-1]
        shown, cursor = [], None
        while (page := await queue.page(JobState.COMPLETED, limit=2, cursor=cursor)).jobs:
            shown += [job.job_id for job in page.jobs]
            cursor = page.cursor
            if cursor is None:
                break
        assert shown == kept[::-1]
        records = [await redis.get(f"arq:result:{job_id}") or b"" for job_id in kept]
        sizes = [len(record) for record in records]
        counted = int(await ask(redis, "HGET", "q:bytes", "c") or 0)
        assert sum(sizes) <= counted <= sum(sizes) + 36 * len(kept)
        assert await redis.xlen("q:idx:c") == len({json.loads(record)[1] for record in records})
        assert int(await ask(redis, "HLEN", "q:gone")) <= await redis.xlen("q:idx:c")
    await run_script(redis, "sweep", queue.keys.all, [0, 1, 0, 1, 0])
    assert await redis.keys("arq:result:*") == await redis.keys("q:gone") == []
    assert await redis.xlen("q:idx:c") == 0
    assert await ask(redis, "HMGET", "q:bytes", "c", "nc", "oc") == [b"0", b"0", None]


@pytest.mark.spec("QU-17")
async def test_claims_beyond_what_lua_can_unpack_at_once(queue: FleetQueue) -> None:
    for first in range(0, 9_000, 1_000):
        await queue.enqueue([a_request(f"j{n}") for n in range(first, first + 1_000)])
    assert len(await claim(queue, 3_000, "t")) == 3_000
