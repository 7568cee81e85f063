"""Counts how the runs of this process end, and adds the counts to the hourly counters (OP-16).

A job pays one addition in memory. Every 10 s, and at the stop, one transaction writes what came together since: a crash
loses at most that window, an outage of Postgres delays it. The hour is the one in which it is written.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping

from kbsync.db.pool import Database
from kbsync.domain.errors import LeaseLost, PayloadRefused, ServerUnavailable
from kbsync.library.counters import Counted, MissingRecord, add_many, elsewhere_many, remove_older
from kbsync.queue.jobs import Abandoned, Completed, DelayJob, Handler, JobEnd, RunningJob, SkippedJob, Unrecoverable
from kbsync.telemetry import log
from workers.handlers import KINDS
from workers.run_unit import WaitedTooOften

FLUSH_EVERY_S = 10.0
FLUSH_WITHIN_S = 5.0
# Look-ups of missing records a flush; what is over is counted as missing, and not looked up.
MOST_MISSING = 1_000
STALLED = "stalled_too_often"
RECORD_MISSING = "record-missing"  # the status in the result of a unit whose record is gone

_KNOWN_KINDS = frozenset(kind for kinds in KINDS.values() for kind in kinds)
_ROW_FIELDS = ("source_id", "document_id", "crawl_task_id")
# A delay that a server made begins with its error's name, any other is a provider's window or wait (run_unit).
_SERVER_ERRORS: tuple[type[Exception], ...] = (ServerUnavailable, *ServerUnavailable.__subclasses__(), LeaseLost)
_SERVER_WAITS = tuple(f"{error.__name__}: " for error in _SERVER_ERRORS)


def is_server_wait(reason: str) -> bool:
    """Whether a delay's reason is a server that was away, not a provider's window or wait."""
    return reason.startswith(_SERVER_WAITS)


def is_the_end(job: RunningJob, error: BaseException) -> bool:
    """Whether this failing attempt fails the job for good."""
    # The worker's own refusals fail a job at once: a payload that can't be read, a kind without a handler.
    refused = isinstance(error, Unrecoverable | PayloadRefused) or type(error) is LookupError
    return refused or job.is_final_attempt


class RunCounters:
    """One for each process, shared by its workers."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.amounts: Counter[tuple[str, str]] = Counter()
        self._missing: list[MissingRecord] = []

    def keys_of(self, kind: str) -> tuple[tuple[str, str], tuple[str, str]]:
        """Where the executions and the completions of a kind are counted in `amounts`."""
        known = kind if kind in _KNOWN_KINDS else "unknown"
        return (known, Counted.EXECUTIONS), (known, Counted.COMPLETED)

    def note(self, kind: str, name: Counted, amount: int = 1) -> None:
        """`kind` may come from hostile bytes: one that no worker runs is counted as `unknown`."""
        self.amounts[kind if kind in _KNOWN_KINDS else "unknown", name] += amount

    def ended(self, job: RunningJob, end: JobEnd) -> None:
        if job.stalls and not isinstance(end, DelayJob):
            self.note(job.kind, Counted.STALLS, job.stalls)
        match end:
            case Completed(result=result):
                self.note(job.kind, Counted.COMPLETED)
                if result.get("status") == RECORD_MISSING:
                    self._record_missing(job)
            case SkippedJob():
                self.note(job.kind, Counted.SKIPPED)
            case DelayJob(reason=reason):
                self.note(job.kind, Counted.DELAYS)
                if not is_server_wait(reason):
                    self.note(job.kind, Counted.THROTTLE_DELAYS)

    def attempt_failed(self, job: RunningJob, error: BaseException) -> None:
        """What a worker calls for each failing attempt: time-outs and refused payloads too, which no handler reports."""
        self.note(job.kind, Counted.FAILED_ATTEMPTS)
        if isinstance(error, WaitedTooOften):
            self.note(job.kind, Counted.THROTTLE_FAILURES)
        if is_the_end(job, error):
            self.note(job.kind, Counted.FAILED)
            if job.stalls:
                self.note(job.kind, Counted.STALLS, job.stalls)

    def _record_missing(self, job: RunningJob) -> None:
        self.note(job.kind, Counted.RECORD_MISSING)
        organization_id = job.payload.get("organization_id")
        row_id = next((job.payload[field] for field in _ROW_FIELDS if field in job.payload), None)
        if isinstance(organization_id, int) and isinstance(row_id, int) and len(self._missing) < MOST_MISSING:
            self._missing.append(MissingRecord(job.kind, organization_id, row_id))

    async def flush(self) -> None:
        """Writes what was counted and forgets it. Raises DatabaseUnavailable: then it is kept for the next flush."""
        if not self.amounts:
            return
        amounts, self.amounts = self.amounts, Counter()
        missing, self._missing = self._missing, []
        try:
            async with self._database.fleet() as connection:
                elsewhere = await elsewhere_many(connection, missing) if missing else {}
                await add_many(connection, amounts | _named(elsewhere))
                await remove_older(connection)
        except BaseException:
            self.amounts.update(amounts)
            self._missing = (missing + self._missing)[:MOST_MISSING]
            raise

    async def keep_flushing(self, every_s: float = FLUSH_EVERY_S) -> None:
        """Until cancelled. `flush` once more after the workers have stopped."""
        while True:
            await asyncio.sleep(every_s)
            await self.flush_or_say()

    async def flush_or_say(self) -> None:
        """As flush; a failure is logged, and a Postgres that hangs is not waited for: statistics stop no worker."""
        try:
            async with asyncio.timeout(FLUSH_WITHIN_S):
                await self.flush()
        except (ServerUnavailable, TimeoutError) as error:
            log.warning("counters_wait", error=f"{type(error).__name__}: {error}")
        except Exception:
            log.exception("counters_not_written")


def _named(elsewhere: Mapping[str, int]) -> Counter[tuple[str, str]]:
    return Counter({(kind, Counted.RECORD_MISSING_ELSEWHERE): requests for kind, requests in elsewhere.items()})


def counted(handler: Handler, counters: RunCounters) -> Handler:
    """`handler`, with each run and how it returned counted. What it raises the worker tells `attempt_failed`."""

    keys: dict[str, tuple[tuple[str, str], tuple[str, str]]] = {}

    async def run(job: RunningJob) -> JobEnd:
        executions, completed = keys.get(job.kind) or keys.setdefault(job.kind, counters.keys_of(job.kind))
        counters.amounts[executions] += 1
        end = await handler(job)
        if type(end) is Completed and not job.stalls and end.result.get("status") != RECORD_MISSING:
            counters.amounts[completed] += 1  # most do: the quick way
        else:
            counters.ended(job, end)
        return end

    return run


def counted_abandoned(abandoned: Abandoned, counters: RunCounters) -> Abandoned:
    """`abandoned`, with jobs that stalled too often counted as failed: nobody else sees them fail."""

    async def tell(job_id: str, kind: str, payload: Mapping[str, object] | None, reason: str) -> None:
        await abandoned(job_id, kind, payload, reason)
        if reason == STALLED:
            counters.note(kind, Counted.FAILED)

    return tell
