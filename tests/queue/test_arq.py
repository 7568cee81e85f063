"""arq's own client reads and feeds the queues through kbsync's (de)serializer (QU-22), without arq's defects (QU-27)."""

from __future__ import annotations

import asyncio
import time

import arq
import pytest
from arq.connections import ArqRedis
from arq.constants import abort_jobs_ss
from arq.jobs import Job, JobStatus
from redis.asyncio import Redis

from kbsync.queue.arqcompat import JobFailed, deserialize, serialize
from kbsync.queue.jobs import Completed, SkippedJob, Unrecoverable
from kbsync.queue.operators import Action, QueueOperator
from kbsync.queue.queue import FleetQueue
from kbsync.queue.worker import FleetWorker
from tests.queue.support import Recorder, a_request, a_worker, claim, running, until
from tests.queue.test_ends import ended


@pytest.fixture
def stock(redis: Redis) -> ArqRedis:
    return ArqRedis(
        redis.connection_pool, job_serializer=serialize, job_deserializer=deserialize, default_queue_name="q"
    )


def job(stock: ArqRedis, job_id: str) -> Job:
    return Job(job_id, stock, "q", deserialize)


@pytest.mark.spec("QU-22")
async def test_arqs_status_follows_the_job(queue: FleetQueue, stock: ArqRedis, url: str) -> None:
    await queue.enqueue([a_request("j"), a_request("d", delay_ms=60_000)])
    assert await job(stock, "j").status() == JobStatus.queued
    assert await job(stock, "d").status() == JobStatus.deferred
    await claim(queue, 1, "t", 50)
    assert await job(stock, "j").status() == JobStatus.in_progress
    async with running(a_worker(url, Recorder())):
        await ended(queue, "j")
    assert await job(stock, "j").status() == JobStatus.complete
    assert await job(stock, "none").status() == JobStatus.not_found


@pytest.mark.spec("QU-22")
async def test_arqs_results_read_ours(queue: FleetQueue, stock: ArqRedis, url: str, operator: QueueOperator) -> None:
    ends = {"c": Completed({"n": 1}), "s": SkippedJob({"status": "skipped"}), "f": Unrecoverable("gone")}
    await queue.enqueue([a_request(job_id) for job_id in ends])
    async with running(a_worker(url, Recorder(ends))):
        for job_id in ends:
            await ended(queue, job_id)
    assert await job(stock, "c").result(timeout=1) == {"n": 1}
    info = await job(stock, "s").result_info()
    assert info is not None
    assert (info.success, info.result, info.function) == (True, {"status": "skipped"}, "unit")
    with pytest.raises(JobFailed, match="gone"):
        await job(stock, "f").result(timeout=1)
    await queue.enqueue([a_request("x")])
    await operator.act(Action.CANCEL, ["x"])
    with pytest.raises(asyncio.CancelledError):
        await job(stock, "x").result(timeout=1)
    assert len(await stock.all_job_results()) == 4


@pytest.mark.spec("QU-22")
async def test_arqs_queued_jobs_reads_ours(queue: FleetQueue, stock: ArqRedis) -> None:
    await queue.enqueue([a_request("j", payload={"source_id": 5})])
    (found,) = await stock.queued_jobs()
    assert (found.function, found.args, found.kwargs, found.job_id) == ("unit", ({"source_id": 5},), {}, "j")


@pytest.mark.spec("QU-22", "QU-27")
async def test_a_stock_producers_job_is_run_and_its_payload_outlives_its_time_to_live(
    queue: FleetQueue, stock: ArqRedis, url: str, redis: Redis, operator: QueueOperator
) -> None:
    await operator.pause()
    await stock.enqueue_job("unit", {"source_id": 5}, _job_id="one", _expires=0.3)
    await stock.enqueue_job("unit", source_id=6, _job_id="two")
    assert await redis.pttl("arq:job:one") > 0
    await claim(queue, 0)  # any exchange promotes what is due
    assert await redis.pttl("arq:job:one") == -1
    assert await stock.enqueue_job("unit", {}, _job_id="one") is None
    recorder = Recorder()
    await operator.resume()
    async with running(a_worker(url, recorder)):
        await until(lambda: len(recorder.runs) == 2)
    assert sorted(str(run.payload) for run in recorder.jobs) == ["{'source_id': 5}", "{'source_id': 6}"]
    assert {run.tenant for run in recorder.jobs} == {"default"}


@pytest.mark.spec("QU-22")
async def test_a_stock_producers_deferred_job_runs_at_its_time(stock: ArqRedis, queue: FleetQueue, url: str) -> None:
    recorder = Recorder()
    async with running(a_worker(url, recorder)):
        begun = time.monotonic()
        await stock.enqueue_job("unit", {}, _job_id="d", _defer_by=0.4)
        await until(lambda: recorder.runs == ["d"])
    assert time.monotonic() - begun >= 0.39


@pytest.mark.spec("QU-22")
def test_the_worker_is_an_arq_worker_and_knows_its_kinds(url: str) -> None:
    async def build() -> FleetWorker:
        return a_worker(url, {"sync_source": Recorder(), "scan": Recorder()})

    worker = asyncio.run(build())
    assert isinstance(worker, arq.Worker)
    assert set(worker.functions) == {"sync_source", "scan"}


@pytest.mark.spec("QU-27")
async def test_running_jobs_at_the_head_do_not_starve_the_next(queue: FleetQueue, url: str) -> None:
    await queue.enqueue([a_request(f"busy{n}") for n in range(300)])
    assert len(await claim(queue, 300)) == 300
    recorder = Recorder()
    await queue.enqueue([a_request("next")])
    async with running(a_worker(url, recorder)):
        await until(lambda: recorder.runs == ["next"], wait_s=1)


@pytest.mark.spec("QU-27")
async def test_an_old_arq_abort_hits_nothing(queue: FleetQueue, url: str, redis: Redis) -> None:
    await redis.zadd(abort_jobs_ss, {"j": 1})
    await queue.enqueue([a_request("j")])
    async with running(a_worker(url, Recorder())):
        assert (await ended(queue, "j")).view.state == "completed"


@pytest.mark.spec("QU-27")
async def test_a_failed_job_does_not_hold_its_id(queue: FleetQueue, url: str) -> None:
    await queue.enqueue([a_request("u", kind="nothing-known")])
    async with running(a_worker(url, Recorder())):
        await ended(queue, "u")
        (answer,) = await queue.enqueue([a_request("u")])
        assert answer.outcome == "replaced"
        await until(lambda: _is_completed(queue))


async def _is_completed(queue: FleetQueue) -> bool:
    return (await queue.counts()).completed == 1


@pytest.mark.spec("QU-22")
def test_results_of_a_stock_worker_are_refused() -> None:
    from kbsync.domain.errors import PayloadRefused

    with pytest.raises(PayloadRefused):
        serialize({"s": True, "t": 1, "f": "x", "a": (), "k": {}, "et": 1})
