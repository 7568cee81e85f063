"""The whole pipeline in one process: toy provider, real Postgres and Redis, and a list for a queue."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from redis.asyncio import Redis

from kbsync.db.pool import Database
from kbsync.domain.errors import KbsyncError, QueueUnavailable
from kbsync.domain.outcomes import Done, Outcome
from kbsync.domain.requests import Priority, Scan, UnitRequest
from kbsync.providers.contract import Provider
from kbsync.queue.jobs import DelayJob, Enqueued, EnqueueOutcome, JobEnd, JobRequest, RunningJob, Unrecoverable
from kbsync.queue.units import job_request
from ratelimits.host import HostGate
from ratelimits.throttle import Throttle
from ratelimits.waits import ProviderWaits
from tests.sync.toy import Tenant, make_tenant
from workers.run_unit import UnitRunner
from workers.windows import HostManners, Windows

MAX_ATTEMPTS = 3


@dataclass
class ListEnqueuer:
    """Holds what was enqueued, one job an id. `refuses` counts the calls that will fail before one works."""

    waiting: deque[JobRequest] = field(default_factory=deque)
    refuses: int = 0
    calls: int = 0

    async def enqueue(self, queue: str, requests: list[JobRequest]) -> list[Enqueued]:
        self.calls += 1
        if self.refuses:
            self.refuses -= 1
            raise QueueUnavailable("Redis is away")
        there = {job.job_id for job in self.waiting}
        self.waiting += [request for request in requests if request.job_id not in there]
        return [Enqueued(request.job_id, EnqueueOutcome.CREATED) for request in requests]

    async def live_job_ids(self, job_ids: list[str]) -> set[str]:
        return {job.job_id for job in self.waiting} & set(job_ids)


@dataclass
class Job:
    """A `RunningJob` of a request."""

    request: JobRequest
    attempt: int = 1
    delays: int = 0
    stalls: int = 0
    lease_token: str = "token"

    @property
    def job_id(self) -> str:
        return self.request.job_id

    @property
    def kind(self) -> str:
        return self.request.kind

    @property
    def payload(self) -> Mapping[str, object]:
        return self.request.payload

    @property
    def tenant(self) -> str:
        return self.request.tenant

    @property
    def priority(self) -> Priority:
        return self.request.priority

    @property
    def is_final_attempt(self) -> bool:
        return self.attempt >= MAX_ATTEMPTS

    def progress(self, done: int, total: int | None = None, note: str = "") -> None:
        return None


def job_of(request: UnitRequest, *, attempt: int = 1, delays: int = 0) -> Job:
    return Job(job_request(request, priority=Priority.NORMAL), attempt, delays)


@dataclass
class Switch:
    """A kill switch; an error is raised instead of an answer."""

    is_on: bool = False
    error: KbsyncError | None = None

    async def paused(self, organization_id: int | None) -> bool:
        if self.error is not None:
            raise self.error
        return self.is_on


@dataclass
class Pipeline:
    tenant: Tenant
    runner: UnitRunner
    enqueuer: ListEnqueuer
    switch: Switch

    async def run(self, request: UnitRequest, *, attempt: int = 1, delays: int = 0) -> JobEnd:
        return await self.runner.run(job_of(request, attempt=attempt, delays=delays))

    async def drain(self) -> list[str]:
        """Runs what waits until nothing does, delays at once; answers the ids of jobs that failed for good."""
        attempts: dict[str, int] = {}
        failed: list[str] = []
        while self.enqueuer.waiting:
            job = self.enqueuer.waiting.popleft()
            attempt = attempts.get(job.job_id, 1)
            try:
                end = await self.runner.run(Job(job, attempt))
            except Unrecoverable:
                failed.append(job.job_id)
            except Exception:
                attempts[job.job_id] = attempt + 1
                if attempt < MAX_ATTEMPTS:
                    self.enqueuer.waiting.append(job)
                else:
                    failed.append(job.job_id)
            else:
                attempts.pop(job.job_id, None)
                if isinstance(end, DelayJob):
                    self.enqueuer.waiting.append(job)
        return failed


async def no_scan(request: Scan, job: RunningJob) -> Outcome:
    return Done(summary={"scanned": request.date.isoformat()})


async def make_pipeline(database: Database, redis: Redis, provider: Provider, **config: object) -> Pipeline:
    tenant = await make_tenant(database, provider, config=config)
    enqueuer, switch = ListEnqueuer(), Switch()
    windows = Windows(Throttle(redis), HostGate(redis), ProviderWaits(redis), HostManners(1_000_000, 1_000))
    runner = UnitRunner(database, tenant.units, windows, switch, enqueuer, no_scan)
    return Pipeline(tenant, runner, enqueuer, switch)
