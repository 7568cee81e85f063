"""Real worker processes: killed, frozen, signalled, and killed by their own job."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbsync.domain.states import JobState
from kbsync.queue.queue import FleetQueue
from tests.queue.support import Recorder, a_request, a_worker, running, until
from tests.queue.test_ends import ended

ROOT = Path(__file__).parents[2]


class Processes:
    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, **options: object) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.queue.worker_process", self.url, str(self.folder), json.dumps(options)]
        process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
        self.started.append(process)
        return process

    def runs(self, job_id: str) -> list[list[str]]:
        """Per run: pid, attempt, stalls."""
        return [path.read_text().split() for path in sorted(self.folder.glob(f"{job_id}.*")) if path.read_text()]


@pytest.fixture
def processes(url: str, tmp_path: Path) -> Iterator[Processes]:
    found = Processes(url, tmp_path)
    yield found
    for process in found.started:
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait(5)


@pytest.mark.spec("QU-08", "PF-09")
async def test_the_job_of_a_killed_worker_runs_elsewhere_within_its_lease(
    queue: FleetQueue, processes: Processes, url: str
) -> None:
    """A03: the longest time-out of the worker (an hour here) plays no part."""
    doomed = processes.start(lease_s=0.6, job_timeout_s=3600)
    await queue.enqueue([a_request("j", payload={"do": "sleep"})])
    await until(lambda: len(processes.runs("j")) == 1)
    recorder = Recorder()
    async with running(a_worker(url, recorder, lease_s=0.6, job_timeout_s=3600)):
        await asyncio.sleep(0.2)  # an idle worker, blocked in its armed claim, that has not seen this lease
        doomed.kill()
        killed_at = time.monotonic()
        await until(lambda: recorder.runs == ["j"])
        took = time.monotonic() - killed_at
        detail = await ended(queue)
    assert took < 0.6 + 0.5
    assert (detail.view.stalls, detail.view.attempts) == (1, 0)
    assert (recorder.jobs[0].stalls, recorder.jobs[0].attempt) == (1, 1)


@pytest.mark.spec("QU-08")
async def test_a_worker_frozen_past_its_lease_cannot_finish_what_another_took_over(
    queue: FleetQueue, processes: Processes, url: str
) -> None:
    """A05: its late finish is refused, and what the new run stored stays."""
    frozen = processes.start(lease_s=0.4)
    await queue.enqueue([a_request("j", payload={"do": "block"})])
    await until(lambda: len(processes.runs("j")) == 1)
    frozen.send_signal(signal.SIGSTOP)
    recorder = Recorder()
    async with running(a_worker(url, recorder, lease_s=0.4)):
        await until(lambda: recorder.runs == ["j"])
        await ended(queue)
        (processes.folder / "release").touch()
        frozen.send_signal(signal.SIGCONT)
        frozen.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(frozen.wait, 10) == 0
    detail = await ended(queue)
    assert detail.result == {}  # the frozen one would have stored its pid
    counts = await queue.counts()
    assert (counts.completed, counts.active, counts.waiting) == (1, 0, 0)


@pytest.mark.spec("QU-12")
async def test_sigterm_puts_unfinished_jobs_back_untouched_and_exits_zero(
    queue: FleetQueue, processes: Processes
) -> None:
    process = processes.start(drain_s=0.3, concurrency=4)
    await queue.enqueue([a_request(f"j{number}", payload={"do": "sleep"}) for number in range(8)])
    await until(lambda: all(processes.runs(f"j{number}") for number in range(4)))
    started = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(process.wait, 10) == 0
    assert 0.3 <= time.monotonic() - started < 3
    counts = await queue.counts()
    assert (counts.waiting, counts.active, counts.delayed, counts.failed) == (8, 0, 0, 0)
    for number in range(8):
        detail = await queue.detail(f"j{number}")
        assert detail is not None
        assert (detail.view.attempts, detail.view.stalls, detail.view.delays) == (0, 0, 0)
    assert await queue.workers() == []


@pytest.mark.spec("QU-12")
async def test_a_second_signal_puts_back_at_once_and_a_draining_worker_finishes_what_it_can(
    queue: FleetQueue, processes: Processes
) -> None:
    process = processes.start(drain_s=30)
    await queue.enqueue(
        [a_request("long", payload={"do": "sleep"}), a_request("short", payload={"do": "sleep", "seconds": 0.5})]
    )
    await until(lambda: bool(processes.runs("long")) and bool(processes.runs("short")))
    process.send_signal(signal.SIGTERM)
    await ended(queue, "short")
    await queue.enqueue([a_request("later")])
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert await asyncio.to_thread(process.wait, 5) == 0
    assert (await queue.counts()).waiting == 2
    assert processes.runs("later") == []


@pytest.mark.spec("QU-09")
async def test_a_job_that_kills_its_worker_is_set_aside_and_the_others_finish(
    queue: FleetQueue, processes: Processes
) -> None:
    """A11: a supervisor restarts the worker at once; after max_stalls the poison job is failed."""
    await queue.enqueue([a_request("poison", payload={"do": "exit"})])
    await queue.enqueue([a_request(f"ok{number}", payload={"do": "nothing"}) for number in range(10)])
    restarts = 0
    process = processes.start(lease_s=0.3, max_stalls=2, concurrency=2)
    deadline = time.monotonic() + 30
    while (await queue.counts()).completed < 10 or (await queue.counts()).failed < 1:
        assert time.monotonic() < deadline
        if process.poll() is not None:
            restarts += 1
            process = processes.start(lease_s=0.3, max_stalls=2, concurrency=2)
        await asyncio.sleep(0.02)
    assert restarts == 3
    detail = await ended(queue, "poison")
    assert (detail.view.state, detail.view.stalls, detail.view.attempts) == (JobState.FAILED, 3, 0)
    assert detail.view.reason == "stalled_too_often"
    assert detail.request == {"do": "exit"}  # an operator can see and retry it
    assert (await queue.counts()).completed == 10
