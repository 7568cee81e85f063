"""How handlers end jobs: attempts, delays, refusals, time-outs."""

from __future__ import annotations

import asyncio
import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from redis.asyncio import Redis

from kbsync.domain.errors import ProviderBusy
from kbsync.domain.states import JobState
from kbsync.queue.jobs import Completed, DelayJob, JobEnd, RunningJob, SkippedJob, Unrecoverable
from kbsync.queue.queue import FleetQueue
from kbsync.queue.views import JobDetail
from tests.queue.support import Recorder, a_request, a_worker, running, until


async def ended(queue: FleetQueue, job_id: str = "j", wait_s: float = 10) -> JobDetail:
    """The job once it has ended."""
    found: list[JobDetail] = []

    async def is_over() -> bool:
        detail = await queue.detail(job_id)
        if detail is not None and detail.view.ended_ms is not None:
            found.append(detail)
        return bool(found)

    await until(is_over, wait_s)
    return found[0]


async def run_to_end(queue: FleetQueue, url: str, end: Any, **options: Any) -> tuple[JobDetail, Recorder]:
    recorder = Recorder({"j": end})
    await queue.enqueue([a_request("j")])
    async with running(a_worker(url, recorder, **options)):
        return await ended(queue), recorder


def soon(reason: str = "window") -> DelayJob:
    return DelayJob(datetime.now(UTC) + timedelta(milliseconds=10), reason)


@pytest.mark.spec("QU-05")
async def test_a_failing_job_has_three_attempts_and_knows_the_last(queue: FleetQueue, url: str) -> None:
    seen: list[tuple[int, bool]] = []

    def note(job: RunningJob) -> BaseException:
        seen.append((job.attempt, job.is_final_attempt))
        return ValueError(f"attempt {job.attempt}")

    detail, _ = await run_to_end(queue, url, note)
    assert seen == [(1, False), (2, False), (3, True)]
    assert detail.view.state is JobState.FAILED
    assert detail.view.attempts == 3
    assert [error["message"] for error in detail.errors] == ["attempt 1", "attempt 2", "attempt 3"]
    assert all(error["started"] <= error["ended"] for error in detail.errors)
    assert "support.py" in detail.errors[2]["traceback"]
    assert detail.request == {"id": "j"}


@pytest.mark.spec("QU-05")
async def test_backoff_doubles_from_sixty_seconds_and_jitter_stretches_it(
    queue: FleetQueue, url: str, redis: Redis
) -> None:
    waits: list[float] = []
    for job_id, attempts, jitter in (("j", 1, 0.0), ("j", 2, 0.0), ("k", 1, 0.5)):
        await queue.enqueue([a_request(job_id)])
        await redis.zadd("q", {job_id: -6e15})  # due again at once
        recorder = Recorder({job_id: ValueError("no")})
        async with running(a_worker(url, recorder, first_backoff_s=60, backoff_jitter=jitter)):
            await until(lambda recorder=recorder: len(recorder.runs) == 1)  # type: ignore[misc]  # bound now
        detail = await queue.detail(job_id)
        assert detail is not None
        assert (detail.view.state, detail.view.attempts) == (JobState.DELAYED, attempts)
        assert detail.view.until_ms is not None
        waits.append(detail.view.until_ms / 1000 - time.time())
    assert 55 < waits[0] <= 60.1
    assert 115 < waits[1] <= 120.1
    assert 55 < waits[2] <= 90.1


async def _is_delayed(queue: FleetQueue, job_id: str) -> bool:
    detail = await queue.detail(job_id)
    return detail is not None and detail.view.state is JobState.DELAYED


@pytest.mark.spec("QU-06")
async def test_ten_delays_cost_no_attempt_and_three_errors_use_up_three(queue: FleetQueue, url: str) -> None:
    """A06"""
    ends = [*(soon() for _ in range(10)), *(ConnectionError("500") for _ in range(3))]
    detail, recorder = await run_to_end(queue, url, list(ends))
    assert len(recorder.runs) == 13
    assert (detail.view.state, detail.view.attempts, detail.view.delays) == (JobState.FAILED, 3, 10)
    assert [job.delays for job in recorder.jobs] == [*range(10), 10, 10, 10]
    assert {job.attempt for job in recorder.jobs[:11]} == {1}


@pytest.mark.spec("QU-06")
async def test_a_delay_shows_its_reason_and_its_time_and_no_helper_key_expires_meanwhile(
    queue: FleetQueue, url: str, redis: Redis
) -> None:
    """A02: thirty hours of throttle waits."""
    until_then = datetime.now(UTC) + timedelta(hours=30)
    recorder = Recorder({"j": DelayJob(until_then, "notion: 4 per minute")})
    await queue.enqueue([a_request("j")])
    async with running(a_worker(url, recorder)):
        await until(lambda: _is_delayed(queue, "j"))
    detail = await queue.detail("j")
    assert detail is not None
    assert detail.view.reason == "notion: 4 per minute"
    assert detail.view.until_ms is not None
    assert abs(detail.view.until_ms / 1000 - until_then.timestamp()) < 1
    assert detail.view.delays == 1
    for key in await redis.keys("*"):
        assert await redis.pttl(key) == -1 or b"worker" in key


@pytest.mark.spec("QU-06")
async def test_a_delay_into_the_past_runs_at_once_and_a_naive_time_is_a_failing_attempt(
    queue: FleetQueue, url: str
) -> None:
    detail, recorder = await run_to_end(
        queue,
        url,
        [DelayJob(datetime(2020, 1, 1, tzinfo=UTC), "late"), DelayJob(datetime(2020, 1, 1), "naive"), Completed()],
    )
    assert detail.view.state is JobState.COMPLETED
    assert (detail.view.attempts, detail.view.delays, len(recorder.runs)) == (1, 1, 3)


@pytest.mark.spec("QU-07")
async def test_unrecoverable_fails_at_once(queue: FleetQueue, url: str) -> None:
    detail, recorder = await run_to_end(queue, url, Unrecoverable("no such source"))
    assert (detail.view.state, len(recorder.runs)) == (JobState.FAILED, 1)
    assert detail.view.error is not None
    assert detail.view.error["message"] == "no such source"


@pytest.mark.spec("QU-07")
@pytest.mark.parametrize(
    "end",
    [ProviderBusy("slow", 5.0), asyncio.CancelledError(), SystemExit(3), "nonsense", None, GeneratorExit()],
    ids=["domain error", "own cancellation", "exit", "nonsense", "none", "generator exit"],
)
async def test_whatever_a_handler_raises_or_returns_is_a_failing_attempt_and_the_worker_lives(
    queue: FleetQueue, url: str, end: Any
) -> None:
    detail, recorder = await run_to_end(queue, url, lambda job: end)
    assert (detail.view.state, len(recorder.runs)) == (JobState.FAILED, 3)


@pytest.mark.spec("QU-07")
async def test_results_and_errors_that_cannot_be_stored_never_lose_the_outcome(
    queue: FleetQueue, url: str, redis: Redis
) -> None:
    """A10"""
    cycle: dict[str, object] = {}
    cycle["me"] = cycle
    ends: dict[str, Any] = {
        "nan": Completed({"x": float("nan"), "y": {1, 2}}),
        "cycle": Completed(cycle),
        "big": Completed({"x": "y" * 200_000}),
        "text": Unrecoverable("e" * 5_000_000),
        "skipped": SkippedJob({"status": "skipped", "reason": "paused"}),
        "good": Completed({"n": 1}),
    }
    recorder = Recorder(ends)
    await queue.enqueue([a_request(job_id) for job_id in ends])
    async with running(a_worker(url, recorder)):
        details = {job_id: await ended(queue, job_id) for job_id in ends}
    assert {job_id: detail.view.state.value for job_id, detail in details.items()} == {
        "nan": "completed", "cycle": "completed", "big": "completed", "text": "failed",
        "skipped": "skipped", "good": "completed",
    }  # fmt: skip
    assert details["nan"].result["not_storable"]
    assert details["big"].result["cut"] is True
    assert details["good"].result == {"n": 1}
    assert details["skipped"].result == {"status": "skipped", "reason": "paused"}
    assert len(await redis.get("arq:result:text")) < 20_000
    assert json.loads(await redis.get("arq:result:nan"))[0] == "c"


@pytest.mark.spec("QU-05")
async def test_a_time_out_is_a_failing_attempt(queue: FleetQueue, url: str) -> None:
    detail, recorder = await run_to_end(queue, url, lambda job: asyncio.sleep(30), job_timeout_s=0.1)
    assert (detail.view.state, detail.view.attempts, len(recorder.runs)) == (JobState.FAILED, 3, 3)
    assert detail.errors[0]["message"] == "timed out after 0.1 s"


@pytest.mark.spec("QU-05")
async def test_each_of_many_jobs_times_out_at_its_own_time_and_short_ones_are_left_alone(
    queue: FleetQueue, url: str
) -> None:
    ends = {f"slow{number}": lambda job: asyncio.sleep(30) for number in range(3)}
    recorder = Recorder(ends)
    async with running(a_worker(url, recorder, job_timeout_s=0.3, max_attempts=1)):
        for number in range(3):
            await queue.enqueue([a_request(f"slow{number}"), a_request(f"quick{number}")])
            await asyncio.sleep(0.05)
        for number in range(3):
            slow = (await ended(queue, f"slow{number}")).view
            assert (slow.ended_ms or 0) - (slow.started_ms or 0) in range(290, 1000)
            assert (await ended(queue, f"quick{number}")).view.state is JobState.COMPLETED


@pytest.mark.spec("QU-05", "QU-08")
async def test_a_run_that_swallows_its_time_out_loses_its_lease_and_the_job_runs_elsewhere(
    queue: FleetQueue, url: str
) -> None:
    first = True

    async def stubborn(job: RunningJob) -> JobEnd:
        nonlocal first
        if not first:
            return Completed()
        first = False
        deadline = time.monotonic() + 2.5
        while time.monotonic() < deadline:
            try:
                await asyncio.sleep(0.1)
            except asyncio.CancelledError:
                continue
        return Completed({"late": True})

    await queue.enqueue([a_request("j")])
    async with running(a_worker(url, stubborn, job_timeout_s=0.2, lease_s=0.4, concurrency=2)):
        detail = await ended(queue)
    assert detail.result == {}
    assert detail.view.stalls == 1


@pytest.mark.spec("QU-07")
async def test_a_reporter_that_raises_does_not_harm_the_job(queue: FleetQueue, url: str) -> None:
    heard: list[str] = []

    def on_error(job: RunningJob, error: BaseException) -> None:
        heard.append(str(error))
        raise RuntimeError("the reporter is broken")

    detail, _ = await run_to_end(queue, url, lambda job: ValueError("x"), on_error=on_error)
    assert detail.view.state is JobState.FAILED
    assert heard == ["x", "x", "x"]
