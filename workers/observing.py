"""What a process tells of the jobs it runs and the requests it makes: counts, log context, traces (OP-08).

A run pays about a microsecond, and traces cost nothing while they are off.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from time import perf_counter

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

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
from kbsync.telemetry.tallies import JobTally
from kbsync.telemetry.work import begin_work
from workers.counting import RECORD_MISSING, STALLED, is_server_wait, is_the_end
from workers.handlers import KINDS

UNKNOWN = "unknown"  # a kind that no worker runs: it may come from hostile bytes
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
        self._tallies = {kind: metrics.JOBS.of(queue, kind) for kind in (*kinds, UNKNOWN)}

    def handler(self, handler: Handler) -> Handler:
        """`handler`, observed. What it raises the worker tells `attempt_failed`."""

        async def run(job: RunningJob) -> JobEnd:
            tally = self._of(job.kind)
            begin_work(self.queue, job)
            if type(job) is Run and job.request and job.attempt == 1 and not (job.delays or job.stalls):
                tally.waits.observe(max(0, job.started_ms - job.request.enqueued_ms) / 1000)
            began = perf_counter()
            try:
                end = await (self._traced(handler, job) if tracing.tracing_is_on() else handler(job))
            except BaseException:
                # A failing attempt the worker tells `attempt_failed`; what it interrupted itself it tells nobody.
                outcome = _INTERRUPTED.get(job.interrupt) if isinstance(job, Run) else None
                if outcome is not None:
                    _ended(tally, job, outcome)
                raise
            finally:
                tally.seconds.observe(perf_counter() - began)
            if type(end) is Completed and not job.stalls and end.result.get("status") != RECORD_MISSING:
                tally.outcomes["completed"] += 1  # most do: the quick way
            else:
                _ended(tally, job, _outcome_of(end))
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
        _ended(self._of(job.kind), job, "failed" if is_over else "retried")
        report_failed_attempt(job, error, queue=self.queue, is_over=is_over)

    def abandoned(self, abandoned: Abandoned) -> Abandoned:
        """`abandoned`, with jobs that stalled too often counted and reported: no run saw them fail."""

        async def tell(job_id: str, kind: str, payload: Mapping[str, object] | None, reason: str) -> None:
            await abandoned(job_id, kind, payload, reason)
            if reason == STALLED:
                self._of(kind).outcomes["failed"] += 1
                report_lost_job(job_id, kind, reason, queue=self.queue)

        return tell

    def _of(self, kind: str) -> JobTally:
        return self._tallies.get(kind) or self._tallies[UNKNOWN]


def _ended(tally: JobTally, job: RunningJob, outcome: str) -> None:
    tally.outcomes[outcome] += 1
    if job.stalls and outcome in _ENDS_THE_JOB:
        tally.stalls += job.stalls


def _outcome_of(end: JobEnd) -> str:
    match end:
        case Completed(result=result):
            return "record_missing" if result.get("status") == RECORD_MISSING else "completed"
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
        request if context is None else request._replace(payload={**request.payload, TRACEPARENT: context})
        for request, context in zip(requests, contexts, strict=True)
    ]


@dataclass(frozen=True)
class WorkerMetrics:
    """What is read of the workers of this process at each scrape."""

    workers: tuple[FleetWorker, ...]

    async def read(self) -> Iterable[Metric]:
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
