"""What an enqueue answers, and that it is all or nothing."""

from __future__ import annotations

import asyncio
from datetime import date
from uuid import UUID

import pytest
from redis.asyncio import Redis

from kbsync.domain.errors import PayloadRefused, PayloadTooLarge, QueueUnavailable
from kbsync.domain.ids import job_id
from kbsync.domain.requests import CrawlUrl, DocumentChunks, Scan, StartCrawl, SyncDocument, SyncSource, UnitRequest
from kbsync.queue.fleet import Fleet
from kbsync.queue.jobs import EnqueueOutcome, JobRequest
from kbsync.queue.queue import FleetQueue
from tests.queue.support import Recorder, a_request, a_worker, ask, claim, completed, exchange, running, until

CREATED, QUEUED = EnqueueOutcome.CREATED, EnqueueOutcome.ALREADY_QUEUED
REPLACED, DONE = EnqueueOutcome.REPLACED, EnqueueOutcome.ALREADY_DONE


async def outcomes(queue: FleetQueue, *requests: JobRequest) -> list[EnqueueOutcome]:
    return [answer.outcome for answer in await queue.enqueue(requests)]


@pytest.mark.spec("QU-01")
def test_equal_requests_have_equal_ids_and_different_ones_different_ids() -> None:
    requests: list[UnitRequest] = [
        Scan(date=date(2026, 1, 2)),
        Scan(date=date(2026, 1, 3)),
        Scan(date=date(2026, 1, 2), manual_id=UUID(int=7)),
        SyncSource(organization_id=1, source_id=5),
        SyncDocument(organization_id=1, document_id=5),
        DocumentChunks(organization_id=1, document_id=5),
        StartCrawl(organization_id=1, crawl_task_id=5),
        CrawlUrl(organization_id=1, crawl_task_id=5, url="https://a.test/"),
        CrawlUrl(organization_id=1, crawl_task_id=5, url="https://a.test/b"),
    ]
    ids = [job_id(request) for request in requests]
    assert len(set(ids)) == len(ids)
    assert ids == [job_id(request.model_copy()) for request in requests]
    assert ids[3] == "kb-source-sync-5"


@pytest.mark.spec("QU-02")
async def test_waiting_delayed_and_active_jobs_answer_already_queued(queue: FleetQueue) -> None:
    assert await outcomes(queue, a_request("w"), a_request("d", delay_ms=60_000), a_request("w")) == [
        CREATED,
        CREATED,
        QUEUED,
    ]
    assert await outcomes(queue, a_request("w"), a_request("d")) == [QUEUED, QUEUED]
    assert await claim(queue, 1) == ["w"]
    assert await outcomes(queue, a_request("w")) == [QUEUED]
    counts = await queue.counts()
    assert (counts.waiting, counts.delayed, counts.active) == (0, 1, 1)


@pytest.mark.spec("QU-02")
@pytest.mark.parametrize(
    ("letter", "state"), [("c", "completed"), ("s", "skipped"), ("x", "cancelled"), ("f", "failed")]
)
async def test_a_finished_job_is_replaced_and_leaves_no_record_behind(
    queue: FleetQueue, redis: Redis, letter: str, state: str
) -> None:
    await queue.enqueue([a_request("j")])
    await claim(queue, 1)
    await exchange(queue, 0, "t", 1000, ("j", f"{letter}t", ',1,"unit",1,2,3,1,"org-1",{}]'))
    assert getattr(await queue.counts(), state) == 1
    assert await outcomes(queue, a_request("j"), a_request("j")) == [REPLACED, QUEUED]
    counts = await queue.counts()
    assert (counts.waiting, getattr(counts, state)) == (1, 0)
    assert await redis.get("arq:result:j") is None
    assert await ask(redis, "HGET", "q:bytes", letter) == b"0"


@pytest.mark.spec("QU-02")
async def test_a_hundred_racing_enqueues_of_one_id_make_one_job(fleet: Fleet, queue: FleetQueue, redis: Redis) -> None:
    answers = await asyncio.gather(*(fleet.enqueue("q", [a_request("j")]) for _ in range(100)))
    assert sorted(answer[0].outcome for answer in answers).count(CREATED) == 1
    assert (await queue.counts()).waiting == 1


@pytest.mark.spec("QU-02")
async def test_no_record_of_an_earlier_run_blocks_an_id(queue: FleetQueue, redis: Redis) -> None:
    """A01: completed, failed for good, cancelled, removed by an operator, result gone: the id always runs again."""
    for end in (
        completed("j"),
        ("j", "ft", ',1,"unit",1,2,3,1,"org-1",{},null]'),
        ("j", "xt", ',1,"unit",1,2,3,1,"org-1",{}]'),
    ):
        await queue.enqueue([a_request("j")])
        assert await claim(queue, 1) == ["j"]
        await exchange(queue, 0, "t", 1000, end)
    await redis.delete("arq:result:j")
    assert await outcomes(queue, a_request("j")) == [CREATED]
    assert await claim(queue, 1) == ["j"]


@pytest.mark.spec("QU-03")
async def test_an_edit_during_the_run_makes_the_job_run_once_more_with_the_newest_request(
    queue: FleetQueue, url: str
) -> None:
    release = asyncio.Event()

    async def wait(job: object) -> None:
        await release.wait()

    seen: list[object] = []

    async def handler(job):  # type: ignore[no-untyped-def]
        seen.append(job.payload["v"])
        await wait(job)
        from kbsync.queue.jobs import Completed

        return Completed()

    await queue.enqueue([a_request("j", payload={"v": 1})])
    async with running(a_worker(url, handler)):
        await until(lambda: seen == [1])
        (plain,) = await queue.enqueue([a_request("j", payload={"v": 2})])
        assert (plain.outcome, plain.rerun) == (QUEUED, False)
        for version in (3, 4):
            (again,) = await queue.enqueue([a_request("j", payload={"v": version}, rerun=True)])
            assert (again.outcome, again.rerun) == (QUEUED, True)
        release.set()
        await until(lambda: seen == [1, 4])
        await until(lambda: _is_completed(queue))
    assert seen == [1, 4]


async def _is_completed(queue: FleetQueue) -> bool:
    return (await queue.counts()).completed == 1


@pytest.mark.spec("QU-03")
async def test_a_rerun_asked_of_a_waiting_job_is_no_second_run(queue: FleetQueue, url: str) -> None:
    await queue.enqueue([a_request("j"), a_request("j", rerun=True)])
    (answer,) = await queue.enqueue([a_request("j", rerun=True)])
    assert (answer.outcome, answer.rerun) == (QUEUED, False)
    recorder = Recorder()
    async with running(a_worker(url, recorder)):
        await until(lambda: _is_completed(queue))
    assert recorder.runs == ["j"]


@pytest.mark.spec("QU-03")
async def test_an_edit_during_a_delayed_run_is_read_by_the_next_run_and_costs_no_extra_one(queue: FleetQueue) -> None:
    await queue.enqueue([a_request("j", payload={"v": 1})])
    await claim(queue, 1)
    await queue.enqueue([a_request("j", payload={"v": 2}, rerun=True)])
    reply = await exchange(queue, 1, "u", 1000, ("j", "dt", "0 {}"))
    assert reply[4] == [b"j"]
    assert b'"v":2' in reply[5][0]
    await exchange(queue, 1, "v", 1000, completed("j", "u"))
    assert (await queue.counts()).completed == 1


@pytest.mark.spec("QU-04")
@pytest.mark.parametrize(("size", "calls"), [(1, 1), (250, 1), (251, 3), (1000, 10)])
async def test_up_to_250_requests_are_one_script_and_more_are_split(
    queue: FleetQueue, redis: Redis, size: int, calls: int
) -> None:
    await queue.enqueue([a_request("first")])
    await redis.config_resetstat()
    answers = await queue.enqueue([a_request(f"j{number}") for number in range(size)])
    assert [answer.job_id for answer in answers] == [f"j{number}" for number in range(size)]
    stats = await redis.info("commandstats")
    assert (await queue.counts()).waiting == size + 1
    assert stats["cmdstat_evalsha"]["calls"] == calls


@pytest.mark.spec("QU-04")
async def test_a_batch_over_a_mebibyte_is_split_by_size(queue: FleetQueue, redis: Redis) -> None:
    await queue.enqueue([a_request("first")])
    await redis.config_resetstat()
    await queue.enqueue([a_request(f"j{number}", payload={"x": "y" * 200_000}) for number in range(12)])
    assert (await redis.info("commandstats"))["cmdstat_evalsha"]["calls"] == 3
    assert (await queue.counts()).waiting == 13


@pytest.mark.spec("QU-04")
async def test_repeating_a_batch_changes_nothing(queue: FleetQueue) -> None:
    batch = [a_request(f"j{number}") for number in range(300)]
    await queue.enqueue(batch)
    assert set(await outcomes(queue, *batch)) == {QUEUED}
    assert (await queue.counts()).waiting == 300


@pytest.mark.spec("QU-04", "QU-17")
async def test_a_full_redis_refuses_a_batch_as_a_whole_and_is_not_answered_as_accepted(
    fleet: Fleet, queue: FleetQueue, redis: Redis
) -> None:
    """A12: nothing half-written; a replaced job keeps its record."""
    await queue.enqueue([a_request("old")])
    await claim(queue, 1)
    await exchange(queue, 0, "t", 1000, completed("old"))
    await redis.config_set("maxmemory", 1)
    try:
        with pytest.raises(QueueUnavailable):
            await fleet.enqueue("q", [a_request("old"), a_request("new")])
        with pytest.raises(QueueUnavailable):
            await fleet.ping_write()
    finally:
        await redis.config_set("maxmemory", 0)
    counts = await queue.counts()
    assert (counts.waiting, counts.completed) == (0, 1)
    assert await redis.exists("arq:job:new", "arq:job:old") == 0
    await fleet.ping_write()
    assert await outcomes(queue, a_request("old"), a_request("new")) == [REPLACED, CREATED]


@pytest.mark.spec("QU-04", "QU-21")
async def test_one_refused_request_keeps_the_whole_batch_out(queue: FleetQueue) -> None:
    with pytest.raises(PayloadTooLarge):
        await queue.enqueue([a_request("good"), a_request("large", payload={"x": "y" * 262_144})])
    with pytest.raises(PayloadRefused):
        await queue.enqueue([a_request("good"), a_request("has a blank")])
    assert (await queue.counts()).waiting == 0


@pytest.mark.spec("QU-30")
async def test_a_kept_finished_job_answers_already_done_when_asked_not_to_replace(queue: FleetQueue) -> None:
    await queue.enqueue([a_request("j", replace_finished=False)])
    assert await outcomes(queue, a_request("j", replace_finished=False)) == [QUEUED]
    await claim(queue, 1)
    await exchange(queue, 0, "t", 1000, completed("j"))
    assert await outcomes(queue, a_request("j", replace_finished=False)) == [DONE]
    assert await outcomes(queue, a_request("j", replace_finished=False, rerun=True)) == [DONE]
    assert await outcomes(queue, a_request("j")) == [REPLACED]


@pytest.mark.spec("QU-02", "QU-04")
async def test_a_batch_of_all_sorts_is_answered_in_its_order_and_kept_in_its_order(
    queue: FleetQueue, redis: Redis
) -> None:
    await queue.enqueue([a_request("done"), a_request("here", tenant="t9")])
    await claim(queue, 1)
    await exchange(queue, 0, "x", 1000, completed("done"))
    batch = [
        a_request("a1", tenant="a"), a_request("a2", tenant="a"), a_request("here", tenant="b"), a_request("b1", tenant="b"),
        a_request("done", replace_finished=False), a_request("done"), a_request("a1", tenant="a"),
        a_request("late", delay_ms=60_000), a_request("late2", delay_ms=60_000), a_request("a3", tenant="a"),
    ]  # fmt: skip
    answers = await queue.enqueue(batch)
    assert [answer.job_id for answer in answers] == [request.job_id for request in batch]
    assert [str(answer.outcome) for answer in answers] == [
        "created", "created", "already_queued", "created", "already_done", "replaced", "already_queued",
        "created", "created", "created",
    ]  # fmt: skip
    counts = await queue.counts()
    assert (counts.waiting, counts.delayed, counts.completed) == (6, 2, 0)
    order = await claim(queue, 10)
    assert [job_id for job_id in order if job_id.startswith("a")] == ["a1", "a2", "a3"]
    assert len({score for _, score in await redis.zrange("q", 0, -1, withscores=True)}) == 1
