"""What operators do to jobs: each safe to repeat, bulk ones report what was done and what was refused."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis

from kbsync.domain.requests import Priority
from kbsync.domain.states import JobState
from kbsync.queue.jobs import Completed, JobEnd, RunningJob, Unrecoverable
from kbsync.queue.operators import Action, QueueOperator, Report
from kbsync.queue.queue import FleetQueue
from kbsync.queue.views import JobFilter
from tests.queue.support import Recorder, a_request, a_worker, ask, claim, completed, exchange, running, until
from tests.queue.test_ends import ended


async def fail(queue: FleetQueue, url: str, *job_ids: str, tenant: str = "org-1") -> None:
    ends = {job_id: Unrecoverable(f"bad {job_id}") for job_id in job_ids}
    await queue.enqueue([a_request(job_id, tenant=tenant, priority=Priority.BACKGROUND) for job_id in job_ids])
    async with running(a_worker(url, Recorder(ends))):
        for job_id in job_ids:
            await ended(queue, job_id)


@pytest.mark.spec("QU-19")
async def test_a_failed_job_is_retried_with_its_own_request_and_fresh_counts(
    queue: FleetQueue, operator: QueueOperator, url: str
) -> None:
    await fail(queue, url, "j")
    report = await operator.act(Action.RETRY, ["j"])
    assert (report.matched, report.done) == (1, 1)
    again = await operator.act(Action.RETRY, ["j"])
    assert (again.done, dict(again.refused)) == (0, {"no ended job that can be read": 1})
    recorder = Recorder()
    async with running(a_worker(url, recorder)):
        detail = await ended(queue, "j")
    job = recorder.jobs[0]
    assert (job.payload, job.tenant, job.priority, job.attempt) == ({"id": "j"}, "org-1", Priority.BACKGROUND, 1)
    assert detail.view.state is JobState.COMPLETED
    refused = await operator.act(Action.RETRY, ["j", "nothing"])
    assert dict(refused.refused) == {"completed: its request is not kept": 1, "no ended job that can be read": 1}


@pytest.mark.spec("QU-19")
async def test_a_retry_decided_on_an_old_record_does_not_touch_a_newer_one(
    queue: FleetQueue, operator: QueueOperator, url: str
) -> None:
    """A05: read, then write under a guard."""
    await fail(queue, url, "j")
    old = [(view.job_id, record) async for _, view, record in queue.listing.ended(JobState.FAILED)]
    await operator.act(Action.RETRY, ["j"])
    await fail(queue, url, "j")
    report = Report(Action.RETRY)
    await operator._retry(report, old)
    assert dict(report.refused) == {"changed meanwhile": 1}
    assert (await queue.counts()).failed == 1


@pytest.mark.spec("QU-19")
async def test_retry_all_matching_works_in_batches_past_what_cannot_be_retried(
    queue: FleetQueue, operator: QueueOperator, url: str, redis: Redis
) -> None:
    """F04: one broken record does not stop the rest."""
    await fail(queue, url, *(f"a{n}" for n in range(150)))
    await fail(queue, url, *(f"b{n}" for n in range(20)), tenant="org-2")
    await redis.set("arq:result:a7", b"broken")
    heard: list[int] = []

    async def progress(report: Report) -> None:
        heard.append(report.matched)

    report = await operator.act_on_all(Action.RETRY, JobState.FAILED, JobFilter(tenant="org-1"), progress)
    assert (report.matched, report.done, heard) == (149, 149, [100, 149])
    counts = await queue.counts()
    assert (counts.waiting, counts.failed) == (149, 21)
    whole = await operator.move_failed_to_waiting()
    assert (whole.matched, whole.done, sum(whole.refused.values())) == (21, 20, 1)
    assert whole.examples[0][0] == "a7"


@pytest.mark.spec("QU-19")
async def test_a_bulk_retry_ends_although_the_jobs_fail_again_at_once(
    queue: FleetQueue, operator: QueueOperator, url: str
) -> None:
    names = [f"j{n}" for n in range(250)]
    await fail(queue, url, *names)
    async with running(a_worker(url, Recorder({name: Unrecoverable("again") for name in names}))):
        report = await asyncio.wait_for(operator.move_failed_to_waiting(), 10)
    assert report.matched == 250


@pytest.mark.spec("QU-19")
async def test_promote_runs_a_delayed_job_now(queue: FleetQueue, operator: QueueOperator, url: str) -> None:
    await queue.enqueue([a_request("d", delay_ms=3_600_000), a_request("w")])
    await operator.pause()
    report = await operator.act(Action.PROMOTE, ["d", "w", "nothing"])
    assert (report.done, dict(report.refused)) == (1, {"already waiting": 1, "not delayed": 1})
    assert (await queue.counts()).waiting == 2
    await operator.resume()
    recorder = Recorder()
    async with running(a_worker(url, recorder)):
        await until(lambda: sorted(recorder.runs) == ["d", "w"])


@pytest.mark.spec("QU-19", "QU-31")
async def test_remove_forgets_waiting_delayed_and_ended_jobs_and_refuses_active_ones(
    queue: FleetQueue, operator: QueueOperator, redis: Redis
) -> None:
    await queue.enqueue([a_request("active"), a_request("ended")])
    await claim(queue, 2)
    await exchange(queue, 0, "x", 1000, completed("ended"))
    await queue.enqueue([a_request("waiting"), a_request("delayed", delay_ms=60_000)])
    names = ["active", "ended", "waiting", "delayed", "nothing"]
    report = await operator.act(Action.REMOVE, names)
    assert (report.done, dict(report.refused)) == (3, {"active": 1, "not here": 1})
    assert dict((await operator.act(Action.REMOVE, names)).refused) == {"active": 1, "not here": 4}
    assert await redis.keys("arq:result:*") == []
    assert await redis.keys("arq:job:*") == [b"arq:job:active"]
    assert await ask(redis, "LLEN", "q:owed") == 2
    (answer,) = await queue.enqueue([a_request("waiting")])
    assert answer.outcome == "created"


@pytest.mark.spec("QU-19")
async def test_drain_empties_waiting_and_delayed_only_when_asked(queue: FleetQueue, operator: QueueOperator) -> None:
    await queue.enqueue([a_request(f"w{n}", tenant=f"t{n % 7}") for n in range(1_000)])
    await queue.enqueue([a_request(f"d{n}", delay_ms=60_000) for n in range(300)])
    (report,) = await operator.drain()
    assert (report.matched, report.done) == (1_000, 1_000)
    assert (await queue.counts()).delayed == 300
    assert [part.done for part in await operator.drain(delayed=True)] == [0, 300]
    counts = await queue.counts()
    assert counts.waiting + counts.delayed == 0


@pytest.mark.spec("QU-25", "QU-31")
async def test_a_waiting_or_delayed_job_is_cancelled_at_once(
    queue: FleetQueue, operator: QueueOperator, redis: Redis
) -> None:
    await queue.enqueue([a_request("w"), a_request("d", delay_ms=60_000)])
    report = await operator.act(Action.CANCEL, ["w", "d", "nothing"])
    assert (report.done, dict(report.refused)) == (2, {"not here": 1})
    assert dict((await operator.act(Action.CANCEL, ["w"])).refused) == {"ended already": 1}
    for job_id in ("w", "d"):
        detail = await queue.detail(job_id)
        assert detail is not None
        assert (detail.view.state, detail.request) == (JobState.CANCELLED, {"id": job_id})
    assert await ask(redis, "LLEN", "q:owed") == 2


@pytest.mark.spec("QU-25")
async def test_an_active_job_sees_the_cancellation_at_its_next_await(
    queue: FleetQueue, operator: QueueOperator, url: str, redis: Redis
) -> None:
    saw: list[str] = []

    async def handler(job: RunningJob) -> JobEnd:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            saw.append(job.job_id)
            raise
        return Completed()

    await queue.enqueue([a_request("j"), a_request("k")])
    worker = a_worker(url, handler, lease_s=15)
    async with running(worker):
        await until(lambda: len(worker.runs) == 2)
        report = await operator.act(Action.CANCEL, ["j"])
        assert report.done == 1
        await until(lambda: saw == ["j"], wait_s=1.5)
        detail = await ended(queue, "j")
        assert detail.view.state is JobState.CANCELLED
        assert (await queue.counts()).active == 1
        assert await redis.exists("q:stop") == 0


@pytest.mark.spec("QU-25", "QU-27")
async def test_a_stale_cancellation_never_hits_the_next_run_of_the_id(
    queue: FleetQueue, operator: QueueOperator, url: str
) -> None:
    await queue.enqueue([a_request("j")])
    await claim(queue, 1, "first")
    await operator.act(Action.CANCEL, ["j"])
    await exchange(queue, 0, "x", 1000, completed("j", "first"))  # it ended before it saw the wish
    await queue.enqueue([a_request("j")])
    recorder = Recorder({"j": lambda job: asyncio.sleep(0.6, Completed())})
    async with running(a_worker(url, recorder, lease_s=0.4)):
        detail = await ended(queue, "j")
    assert detail.view.state is JobState.COMPLETED


@pytest.mark.spec("QU-25")
@pytest.mark.parametrize("finish", [("j", "dt", "0 {}"), ("j", "rt", "0 {}"), ("j", "bt", "")])
async def test_a_job_asked_to_stop_ends_cancelled_however_its_run_ended_short_of_done(
    queue: FleetQueue, operator: QueueOperator, finish: tuple[str, str, str]
) -> None:
    await queue.enqueue([a_request("j")])
    await claim(queue, 1)
    await queue.enqueue([a_request("j", rerun=True)])
    await operator.act(Action.CANCEL, ["j"])
    await exchange(queue, 1, "x", 1000, finish)
    detail = await queue.detail("j")
    assert detail is not None
    assert detail.view.state is JobState.CANCELLED


@pytest.mark.spec("QU-25")
async def test_a_job_asked_to_stop_whose_worker_died_ends_cancelled(
    queue: FleetQueue, operator: QueueOperator, redis: Redis
) -> None:
    await queue.enqueue([a_request("j")])
    await claim(queue, 1)
    await operator.act(Action.CANCEL, ["j"])
    await redis.zadd("q:active", {"j": 1})
    assert await claim(queue, 1, "u") == []
    detail = await queue.detail("j")
    assert detail is not None
    assert detail.view.state is JobState.CANCELLED


@pytest.mark.spec("QU-19")
async def test_every_action_is_audited_with_its_report(queue: FleetQueue) -> None:
    audited: list[tuple[str, str, int | None]] = []

    async def audit(action: str, name: str, asked: str, report: Report | None) -> None:
        audited.append((action, name, report.done if report else None))

    operator = QueueOperator(queue, audit)
    await queue.enqueue([a_request("j"), a_request("k")])
    await operator.pause()
    await operator.act(Action.REMOVE, ["j"])
    await operator.act_on_all(Action.CANCEL, JobState.WAITING)
    await operator.set_max_active(3)
    assert audited == [("paused", "q", None), ("remove", "q", 1), ("cancel", "q", 1), ("configured", "q", None)]
