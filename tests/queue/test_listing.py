"""Counts, pages, details, progress, events and health records."""

from __future__ import annotations

import asyncio
import pickle
from datetime import UTC, datetime

import pytest
from redis.asyncio import Redis

from kbsync.domain.requests import Priority
from kbsync.domain.states import JobState
from kbsync.queue import listing
from kbsync.queue.jobs import Completed, DelayJob, JobEnd, RunningJob, SkippedJob, Unrecoverable
from kbsync.queue.operators import Action, QueueOperator
from kbsync.queue.queue import FleetQueue
from kbsync.queue.views import JobFilter, Page
from tests.queue.support import Recorder, a_request, a_worker, claim, exchange, running, until
from tests.queue.test_ends import ended


async def pages(queue: FleetQueue, state: JobState, limit: int, where: JobFilter | None = None) -> list[Page]:
    found = [await queue.page(state, limit=limit, where=where)]
    while found[-1].cursor is not None:
        found.append(await queue.page(state, cursor=found[-1].cursor, limit=limit, where=where))
    return found


def ids(found: list[Page]) -> list[str]:
    return [job.job_id for page in found for job in page.jobs]


@pytest.mark.spec("QU-18")
async def test_counts_are_exact_in_every_state(queue: FleetQueue, url: str) -> None:
    ends = {"s": SkippedJob({}), "f": Unrecoverable("x"), "a": lambda job: asyncio.sleep(30)}
    async with running(a_worker(url, Recorder(ends))):
        await queue.enqueue([a_request(job_id) for job_id in ("c", "s", "f", "a")] + [a_request("d", delay_ms=60_000)])
        await until(lambda: _counts(queue, completed=1, skipped=1, failed=1, active=1, delayed=1))
    assert await _counts(queue, waiting=1)


async def _counts(queue: FleetQueue, **expected: int) -> bool:
    counts = await queue.counts()
    return all(counts.of(JobState(state)) == count for state, count in expected.items())


@pytest.mark.spec("QU-18")
async def test_waiting_and_delayed_are_paged_in_the_order_of_their_turn(queue: FleetQueue) -> None:
    await queue.enqueue([a_request(f"w{n:02}") for n in range(25)])
    await queue.enqueue([a_request("urgent", priority=Priority.URGENT)])
    await queue.enqueue([a_request(f"d{n:02}", delay_ms=60_000 + 1_000 * n) for n in range(25)])
    assert ids(await pages(queue, JobState.WAITING, 10)) == ["urgent", *(f"w{n:02}" for n in range(25))]
    assert ids(await pages(queue, JobState.DELAYED, 10)) == [f"d{n:02}" for n in range(25)]
    first = (await queue.page(JobState.DELAYED, limit=1)).jobs[0]
    assert (first.state, first.kind, first.tenant, first.until_ms is not None) == (
        JobState.DELAYED,
        "unit",
        "org-1",
        True,
    )


@pytest.mark.spec("QU-18")
async def test_active_and_ended_jobs_are_paged(queue: FleetQueue) -> None:
    await queue.enqueue([a_request(f"j{n:02}") for n in range(30)])
    await claim(queue, 30)
    finishes = [(f"j{n:02}", "ct", f',1,"unit",1,2,{n},1,"org-1",{{}}]') for n in range(20)]
    await exchange(queue, 0, "x", 1000, *finishes)
    assert sorted(ids(await pages(queue, JobState.ACTIVE, 3))) == [f"j{n:02}" for n in range(20, 30)]
    assert ids(await pages(queue, JobState.COMPLETED, 7)) == [f"j{n:02}" for n in reversed(range(20))]


@pytest.mark.spec("QU-18")
async def test_filters_over_ended_jobs_are_exact(queue: FleetQueue, url: str) -> None:
    ends = {f"j{n}": Unrecoverable("Zürich is gone" if n % 3 == 0 else "other") for n in range(30)}
    await queue.enqueue([a_request(job_id, tenant=f"org-{int(job_id[1:]) % 2}") for job_id in ends])
    async with running(a_worker(url, Recorder(ends))):
        await until(lambda: _counts(queue, failed=30))
    found = ids(await pages(queue, JobState.FAILED, 4, JobFilter(tenant="org-1", error="ZÜRICH")))
    assert sorted(found) == sorted(f"j{n}" for n in range(30) if n % 3 == 0 and n % 2 == 1)
    assert ids(await pages(queue, JobState.FAILED, 4, JobFilter(error="Unrecoverable", kind="unit"))) != []
    assert ids(await pages(queue, JobState.FAILED, 4, JobFilter(kind="none"))) == []


@pytest.mark.spec("QU-18")
async def test_a_filtered_page_of_waiting_jobs_is_bounded_and_says_how_far_it_looked(
    queue: FleetQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "SCAN_LIMIT", 500)
    for first in range(0, 1_200, 200):
        await queue.enqueue(
            [a_request(f"j{n:04}", tenant="a" if n < 1_199 else "b") for n in range(first, first + 200)]
        )
    where = JobFilter(tenant="b")
    found = await pages(queue, JobState.WAITING, 10, where)
    assert [page.looked_at for page in found] == [500, 500, 200]
    assert ids(found) == ["j1199"]


@pytest.mark.spec("QU-18", "PF-07")
async def test_reading_uses_no_command_that_walks_everything(queue: FleetQueue, redis: Redis) -> None:
    for first in range(0, 5_000, 1_000):
        await queue.enqueue([a_request(f"j{n}") for n in range(first, first + 1_000)])
    await redis.config_resetstat()
    await queue.counts()
    await queue.page(JobState.WAITING, limit=50)
    await queue.page(JobState.WAITING, cursor="4000", limit=50)
    await queue.detail("j4000")
    stats = await redis.info("commandstats")
    assert not {"cmdstat_keys", "cmdstat_zscan", "cmdstat_scan", "cmdstat_hgetall"} & set(stats)
    assert sum(stat["calls"] for stat in stats.values()) < 150


@pytest.mark.spec("QU-18", "QU-21")
async def test_hostile_bytes_are_listed_and_do_not_break_the_page(queue: FleetQueue, redis: Redis) -> None:
    await queue.enqueue([a_request("good")])
    for job_id, data in (("pickled", pickle.dumps({"f": 1})), ("binary", b"\xff\x00"), ("gone", b"")):
        await redis.set(f"arq:job:{job_id}", data)
        await redis.zadd("q", {job_id: -5e15})
    await redis.set("arq:result:broken", b'["f","1-1",nonsense')
    await redis.xadd("q:idx:f", {"broken": "5"}, id="1-1")
    found = (await queue.page(JobState.WAITING)).jobs
    assert {job.job_id: job.readable for job in found} == {
        "good": True,
        "pickled": False,
        "binary": False,
        "gone": False,
    }
    (broken,) = (await queue.page(JobState.FAILED)).jobs
    assert (broken.job_id, broken.readable) == ("broken", False)
    detail = await queue.detail("pickled")
    assert detail is not None
    assert detail.request is None
    assert (await queue.detail("broken")) is not None
    assert (await queue.detail("nothing")) is None


@pytest.mark.spec("QU-18", "QU-19")
async def test_an_id_that_is_no_utf8_is_listed_run_and_removed_like_any_other(
    queue: FleetQueue, url: str, redis: Redis
) -> None:
    odd = b"\xff\xfe"
    for _ in range(2):
        await redis.set(b"arq:job:" + odd, b'[1,"org-1","unit",1,{}]')
        await redis.zadd("q", {odd: -5e15})
        (view,) = (await queue.page(JobState.WAITING)).jobs
        report = await QueueOperator(queue).act(Action.REMOVE, [view.job_id])
        assert report.done == 1
    await redis.set(b"arq:job:" + odd, b'[1,"org-1","unit",1,{}]')
    await redis.zadd("q", {odd: -5e15})
    async with running(a_worker(url, Recorder(), lease_s=0.3)):
        await until(lambda: _counts(queue, completed=1))
    assert await redis.exists(b"arq:result:" + odd) == 1
    assert (await queue.page(JobState.COMPLETED, where=JobFilter(kind="unit"))).jobs[0].job_id == view.job_id


@pytest.mark.spec("QU-24", "QU-18")
async def test_progress_is_visible_within_a_second_and_goes_with_the_run(
    queue: FleetQueue, url: str, redis: Redis
) -> None:
    release = asyncio.Event()

    async def handler(job: RunningJob) -> JobEnd:
        for done in range(1, 1_000):
            job.progress(done, 1_000, "n" * 5_000)
        await release.wait()
        return Completed()

    await queue.enqueue([a_request("j")])
    async with running(a_worker(url, handler)):
        await until(lambda: _progress(queue), wait_s=1.0)
        detail = await queue.detail("j")
        assert detail is not None
        assert detail.progress is not None
        assert (detail.progress["total"], len(detail.progress["note"])) == (1_000, 500)
        assert detail.lease_token is not None
        release.set()
        await ended(queue)
    assert await redis.exists("q:progress") == 0


async def _progress(queue: FleetQueue) -> bool:
    detail = await queue.detail("j")
    return detail is not None and (detail.progress or {}).get("done") == 999


@pytest.mark.spec("QU-26")
async def test_events_come_in_batches_and_tell_every_move(queue: FleetQueue, url: str) -> None:
    ends = {"d": [DelayJob(_past(), "r"), Completed()], "f": Unrecoverable("x"), "r": [ValueError("x"), Completed()]}
    async with running(a_worker(url, Recorder(ends))):
        await queue.enqueue([a_request(job_id) for job_id in ("c", "d", "f", "r")])
        await until(lambda: _counts(queue, completed=3, failed=1))
    seen: dict[str, list[str]] = {}
    for _, batch in await queue.events(limit=1_000):
        for event, job_ids in batch.items():
            seen.setdefault(event, []).extend(job_ids)
    assert {event: sorted(job_ids) for event, job_ids in seen.items()} == {
        "enqueued": ["c", "d", "f", "r"], "started": ["c", "d", "d", "f", "r", "r"], "delayed": ["d"],
        "completed": ["c", "d", "r"], "failed": ["f"], "retried": ["r"],
    }  # fmt: skip
    entries = await queue.events(limit=1_000)
    assert await queue.events(after=entries[0][0], limit=1_000) == entries[1:]


@pytest.mark.spec("QU-26")
async def test_a_large_enqueued_batch_is_told_by_its_first_ids_and_a_count(queue: FleetQueue) -> None:
    await queue.enqueue([a_request(f"j{n:03}") for n in range(250)])
    ((_, events),) = await queue.events()
    assert events == {"enqueued": [*(f"j{n:03}" for n in range(20)), "+230"]}


def _past() -> datetime:
    return datetime(2020, 1, 1, tzinfo=UTC)


@pytest.mark.spec("QU-28", "QU-27")
async def test_each_worker_keeps_its_own_record_and_it_vanishes_with_the_worker(
    queue: FleetQueue, url: str, redis: Redis
) -> None:
    first = a_worker(url, Recorder(), version="1.2.3", host="host-a")
    second = a_worker(url, Recorder(), concurrency=4)
    async with running(second):
        async with running(first):
            await until(lambda: _workers(queue, 2))
            records = {record["worker_id"]: record for record in await queue.workers()}
            shown = records[first.worker_id]
            assert (shown["queue"], shown["concurrency"], shown["version"], shown["host"]) == (
                "q",
                10,
                "1.2.3",
                "host-a",
            )
            assert {"active", "last_beat", "started_at"} <= set(shown)
            assert 0 < await redis.pttl(f"q:worker:{first.worker_id}") <= 15_000
        assert [record["worker_id"] for record in await queue.workers()] == [second.worker_id]
    assert await queue.workers() == []


async def _workers(queue: FleetQueue, count: int) -> bool:
    return len(await queue.workers()) == count
