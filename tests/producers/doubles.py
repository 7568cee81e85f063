"""A queue in memory that keeps the Enqueuer's promises (QU-02, QU-03), and switches to turn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from kbsync.domain.errors import QueueUnavailable
from kbsync.domain.states import JobState
from kbsync.queue.jobs import Enqueued, EnqueueOutcome, JobRequest


@dataclass
class MemoryQueue:
    """`fail` is asked before each call; the error it answers is raised and nothing is taken."""

    jobs: dict[str, JobRequest] = field(default_factory=dict)
    finished: set[str] = field(default_factory=set)
    active: set[str] = field(default_factory=set)
    reruns: set[str] = field(default_factory=set)
    calls: list[list[str]] = field(default_factory=list)
    lookups: list[int] = field(default_factory=list)
    created: Counter[str] = field(default_factory=Counter)
    fail: Callable[[list[JobRequest]], Exception | None] = lambda _: None

    async def enqueue(self, queue: str, requests: list[JobRequest]) -> list[Enqueued]:
        error = self.fail(requests)
        if error is not None:
            raise error
        self.calls.append([request.job_id for request in requests])
        return [self._take(request) for request in requests]

    def _take(self, request: JobRequest) -> Enqueued:
        job_id = request.job_id
        if job_id in self.finished:
            if not request.replace_finished:
                return Enqueued(job_id, EnqueueOutcome.ALREADY_DONE)
            self.finished.discard(job_id)
            return self._new(request, EnqueueOutcome.REPLACED)
        if job_id in self.jobs:
            rerun = job_id in self.active and request.rerun_if_active
            if rerun:
                self.reruns.add(job_id)
            return Enqueued(job_id, EnqueueOutcome.ALREADY_QUEUED, rerun)
        return self._new(request, EnqueueOutcome.CREATED)

    def _new(self, request: JobRequest, outcome: EnqueueOutcome) -> Enqueued:
        self.jobs[request.job_id] = request
        self.created[request.job_id] += 1
        return Enqueued(request.job_id, outcome)

    def finish(self, job_id: str) -> None:
        self.jobs.pop(job_id)
        self.active.discard(job_id)
        self.finished.add(job_id)

    def lose_everything(self) -> None:
        self.jobs.clear()
        self.finished.clear()
        self.active.clear()

    async def live_job_ids(self, job_ids: list[str]) -> set[str]:
        self.lookups.append(len(job_ids))
        return {job_id for job_id in job_ids if job_id in self.jobs}

    async def ping_write(self) -> None:
        error = self.fail([])
        if error is not None:
            raise error

    def queue(self, name: str) -> MemoryCounts:
        return MemoryCounts(len(self.jobs))


@dataclass(frozen=True)
class MemoryCounts:
    waiting: int
    paused: bool = False

    async def counts(self) -> MemoryCounts:
        return self

    def of(self, state: JobState) -> int:
        return self.waiting if state is JobState.WAITING else 0


def redis_is_down(_: list[JobRequest]) -> Exception:
    return QueueUnavailable("Redis can't be reached")


@dataclass
class Switch:
    """A kill switch: for everybody, or for some organizations. `broken` raises when it is asked."""

    everybody: bool = False
    organizations: set[int] = field(default_factory=set)
    broken: Exception | None = None

    async def paused(self, organization_id: int | None) -> bool:
        if self.broken is not None:
            raise self.broken
        return self.everybody or organization_id in self.organizations
