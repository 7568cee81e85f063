"""What a process tells of the jobs it runs and the requests it makes: counts, log context, traces (OP-08).

A job pays a few microseconds: its children of counters are at hand, and traces cost nothing while they are off.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from structlog.contextvars import bind_contextvars

from kbsync.domain.requests import TRACEPARENT
from kbsync.queue.jobs import (
    Abandoned,
    Completed,
    DelayJob,
    Enqueued,
    EnqueueOutcome,
    Enqueuer,
    Handler,
    JobEnd,
    JobRequest,
    RunningJob,
    SkippedJob,
)
from kbsync.queue.running import Interrupt, Run
from kbsync.queue.worker import FleetWorker
from kbsync.telemetry import metrics, report_failed_attempt, report_lost_job, tracing
from workers.counting import STALLED, is_server_wait, is_the_end
from workers.handlers import KINDS

OUTCOMES = (
    "completed", "record_missing", "skipped", "delayed", "throttled", "retried", "failed", "cancelled", "put_back",
    "lease_lost",
)  # fmt: skip
_INTERRUPTED: Mapping[Interrupt | None, str] = {
    Interrupt.CANCELLED: "cancelled",
    Interrupt.LEASE_LOST: "lease_lost",
    Interrupt.STOPPING: "put_back",
}
_ENDS_THE_JOB = frozenset({"completed", "record_missing", "skipped", "failed", "cancelled"})


class ObservedJobs:
    """What the worker of one queue counts, with every series there from the start."""

    def __init__(self, queue: str) -> None:
        self.queue = queue
        kinds = next((kinds for name, kinds in KINDS.items() if name == queue), ())
        self._kinds = {kind: _Kind(queue, kind) for kind in (*kinds, "unknown")}

    def handler(self, handler: Handler) -> Handler:
        """`handler`, observed. What it raises the worker tells `attempt_failed`."""

        async def run(job: RunningJob) -> JobEnd:
            kind = self._kind(job.kind)
            # A run has a task of its own, so nothing is unbound: what the worker says of its failure has them too.
            bind_contextvars(queue=self.queue, job_id=job.job_id, kind=job.kind, attempt=job.attempt)
            kind.began(job)
            began = time.perf_counter()
            try:
                if tracing.tracing_is_on():
                    end = await self._traced(handler, job)
                else:
                    end = await handler(job)
            except BaseException as error:
                kind.interrupted(job, error)
                raise
            finally:
                kind.seconds.observe(time.perf_counter() - began)
            kind.ended(job, _outcome_of(end))
            return end

        return run

    async def _traced(self, handler: Handler, job: RunningJob) -> JobEnd:
        asker = job.payload.get(TRACEPARENT)
        with tracing.span(
            f"job {job.kind}",
            "consumer",
            asker if isinstance(asker, str) else None,
            queue=self.queue,
            job_id=job.job_id,
            attempt=job.attempt,
        ):
            return await handler(job)

    def attempt_failed(self, job: RunningJob, error: BaseException) -> None:
        """What the worker calls for each failing attempt."""
        is_over = is_the_end(job, error)
        self._kind(job.kind).ended(job, "failed" if is_over else "retried")
        report_failed_attempt(job, error, queue=self.queue, is_over=is_over)

    def abandoned(self, abandoned: Abandoned) -> Abandoned:
        """`abandoned`, with jobs that stalled too often counted and reported: no run saw them fail."""

        async def tell(job_id: str, kind: str, payload: Mapping[str, object] | None, reason: str) -> None:
            await abandoned(job_id, kind, payload, reason)
            if reason == STALLED:
                self._kind(kind).runs["failed"].inc()
                report_lost_job(job_id, kind, reason, queue=self.queue)

        return tell

    def _kind(self, kind: str) -> _Kind:
        return self._kinds.get(kind) or self._kinds["unknown"]


class _Kind:
    """The counters of one kind of job, ready to be used."""

    def __init__(self, queue: str, kind: str) -> None:
        self.runs = {outcome: metrics.JOB_RUNS.labels(queue, kind, outcome) for outcome in OUTCOMES}
        self.seconds = metrics.JOB_RUN_SECONDS.labels(queue, kind)
        self._waits = metrics.JOB_WAIT_SECONDS.labels(queue, kind)
        self._stalls = metrics.JOB_STALLS.labels(queue, kind)

    def began(self, job: RunningJob) -> None:
        if isinstance(job, Run) and job.request and job.attempt == 1 and not (job.delays or job.stalls):
            self._waits.observe(max(0, job.started_ms - job.request.enqueued_ms) / 1000)

    def ended(self, job: RunningJob, outcome: str) -> None:
        self.runs[outcome].inc()
        if job.stalls and outcome in _ENDS_THE_JOB:
            self._stalls.inc(job.stalls)

    def interrupted(self, job: RunningJob, error: BaseException) -> None:
        outcome = _INTERRUPTED.get(job.interrupt) if isinstance(job, Run) else None
        if outcome is not None:
            self.ended(job, outcome)


def _outcome_of(end: JobEnd) -> str:
    match end:
        case Completed(result=result):
            return "record_missing" if result.get("status") == "record-missing" else "completed"
        case SkippedJob():
            return "skipped"
        case DelayJob(reason=reason):
            return "delayed" if is_server_wait(reason) else "throttled"


@dataclass(frozen=True)
class ObservedEnqueuer:
    """`Enqueuer` over another one: counts what the queue answered, and while traces are on says who asked."""

    enqueuer: Enqueuer

    async def enqueue(self, queue: str, requests: list[JobRequest]) -> list[Enqueued]:
        answers = await self.enqueuer.enqueue(queue, _traced(requests) if tracing.tracing_is_on() else requests)
        for outcome, number in Counter(answer.outcome for answer in answers).items():
            metrics.JOBS_ENQUEUED.labels(queue, outcome.value).inc(number)
        return answers

    async def live_job_ids(self, job_ids: list[str]) -> set[str]:
        return await self.enqueuer.live_job_ids(job_ids)


def expect_enqueues() -> None:
    """Every series of `kbsync_jobs_enqueued_total` is there from the start of a process that enqueues."""
    for queue in KINDS:
        for outcome in EnqueueOutcome:
            metrics.JOBS_ENQUEUED.labels(queue, outcome.value)


def _traced(requests: list[JobRequest]) -> list[JobRequest]:
    contexts = [tracing.traceparent_for(request.job_id) for request in requests]
    return [
        request if context is None else replace(request, payload={**request.payload, TRACEPARENT: context})
        for request, context in zip(requests, contexts, strict=True)
    ]


@dataclass(frozen=True)
class WorkerMetrics:
    """What is read of the workers of this process at each scrape."""

    workers: tuple[FleetWorker, ...]

    def collect(self) -> Iterable[Metric]:
        slots = GaugeMetricFamily("kbsync_worker_slots", "Jobs that this process may run at once.", labels=["queue"])
        active = GaugeMetricFamily("kbsync_worker_active", "Jobs that this process runs now.", labels=["queue"])
        lost = CounterMetricFamily(
            "kbsync_worker_lost_leases", "Leases that went to another worker during a run.", labels=["queue"]
        )
        stale = CounterMetricFamily(
            "kbsync_worker_stale_finishes", "Ends that were refused because another run has the job.", labels=["queue"]
        )
        for worker in self.workers:
            queue = [str(worker.queue_name)]
            slots.add_metric(queue, worker.concurrency)
            active.add_metric(queue, len(worker.runs))
            lost.add_metric(queue, worker.tender.lost_leases)
            stale.add_metric(queue, worker.tender.stale_finishes)
        return [slots, active, lost, stale]
