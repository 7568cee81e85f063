"""The one pipeline of every unit of work, the same for each queue:

    stand_down_if_paused -> acquire_window -> perform -> record_outcome -> enqueue_follow_ups

A crash between any two steps is safe: a unit's writes and the registration of its follow-ups are one transaction, ids
dedupe what is enqueued twice, and a run that did not end leaves its unit open for recovery.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Protocol, assert_never

from pydantic import ValidationError

from kbsync.db.pool import Database
from kbsync.domain.errors import KbsyncError, PayloadRefused, ProviderBusy, ServerUnavailable
from kbsync.domain.outcomes import Delayed, Done, Outcome, RecordMissing, Skipped
from kbsync.domain.requests import (
    CrawlUrl,
    DocumentChunks,
    LibraryRequest,
    Priority,
    Scan,
    SyncDocument,
    SyncSource,
    UnitRequest,
    unit_request_adapter,
    without_envelope,
)
from kbsync.domain.retry import Verdict, verdict
from kbsync.domain.states import UnitEnd
from kbsync.library import sources, unit_requests
from kbsync.library.known_requests import known_request
from kbsync.library.places import Place, place_of
from kbsync.queue.jobs import Completed, DelayJob, Enqueuer, JobEnd, RunningJob, SkippedJob, Unrecoverable
from kbsync.queue.units import enqueue_units
from kbsync.sync.context import Run, Units
from kbsync.sync.failure import record_abandoned, record_failure
from kbsync.sync.perform import perform
from kbsync.telemetry import log, metrics
from ratelimits.throttle import ComeBackAt
from workers.crawl_places import CrawlPlaces
from workers.windows import Windows, stated_wait_s

SERVER_WAIT_S = 5.0
FOLLOW_UPS_AT_ONCE = 1_000
PAUSED: Mapping[str, object] = {"status": "skipped", "reason": "paused"}

Clock = Callable[[], datetime]
RunScan = Callable[[Scan, RunningJob], Awaitable[Outcome]]


class PauseView(Protocol):
    async def paused(self, organization_id: int | None) -> bool:
        """Raises FlagStoreUnavailable (KS-05)."""
        ...


class FollowUpsNotEnqueued(KbsyncError):
    """The unit's writes are committed; the retry derives the same follow-ups again (LS-05)."""


class WaitedTooOften(KbsyncError):
    """A provider kept asking for waits; from here each one is a failing attempt (RL-05)."""


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class _Unit:
    """One run of one request, located with its tenant."""

    request: LibraryRequest
    job: RunningJob
    place: Place

    @property
    def run(self) -> Run:
        return Run(self.job.job_id, self.place.started_at, self.job.is_final_attempt, self.job.progress)

    @property
    def asks_nobody(self) -> bool:
        """Its source is disabled; chunks of what is stored are cut all the same."""
        return self.place.disabled and isinstance(self.request, SyncSource | SyncDocument)


@dataclass(frozen=True)
class UnitRunner:
    """Runs jobs of the library's queues. `scan` runs the daily scan, which lives with the producers."""

    database: Database
    units: Units
    windows: Windows
    kill_switch: PauseView
    enqueuer: Enqueuer
    scan: RunScan
    clock: Clock = utc_now
    server_wait_s: float = SERVER_WAIT_S

    @cached_property
    def crawl_places(self) -> CrawlPlaces:
        return CrawlPlaces(self.database)

    async def run(self, job: RunningJob) -> JobEnd:
        """One run of a job. Returns how it ends; raises Unrecoverable, or what makes this a failing attempt."""
        request = _parse(job.payload)
        if isinstance(request, Scan):
            return await self._run_scan(request, job)
        try:
            if await self._stand_down_if_paused(request, job):
                return SkippedJob(PAUSED)
            unit = _Unit(request, job, await self._locate(request))
            metrics.work_for_provider(unit.place.provider)
        except ServerUnavailable as error:
            return self._wait(error)
        try:
            return await self._run_unit(unit)
        except Exception as error:
            return await self._end_badly(unit, error)

    async def _run_unit(self, unit: _Unit) -> JobEnd:
        async with self._acquire_window(unit) as come_back:
            if come_back is not None:
                return come_back
            outcome = await self._outcome_of(unit)
        await self._record_outcome(unit, outcome)
        await self._enqueue_follow_ups(unit.job.priority, outcome)
        if unit.job.delays:
            await self.windows.waits.clear(unit.job.job_id)
        return _end_of(outcome)

    async def _outcome_of(self, unit: _Unit) -> Outcome:
        if not unit.place.found:
            return RecordMissing("record")
        if unit.asks_nobody:
            return Done(summary={"status": "disabled"})
        return await perform(self.units, unit.request, unit.run)

    # The steps

    async def _stand_down_if_paused(self, request: LibraryRequest, job: RunningJob) -> bool:
        if not await self.kill_switch.paused(request.organization_id):
            return False
        async with self.database.organization(request.organization_id) as connection:
            await unit_requests.end_now(connection, request.organization_id, job.job_id, UnitEnd.SKIPPED)
        return True

    async def _locate(self, request: LibraryRequest) -> Place:
        if isinstance(request, CrawlUrl):
            return await self.crawl_places.place_of(request)
        if isinstance(request, DocumentChunks):
            return await self.crawl_places.place_of_chunks(request)
        async with self.database.organization(request.organization_id) as connection:
            return await place_of(connection, request)

    @asynccontextmanager
    async def _acquire_window(self, unit: _Unit) -> AsyncIterator[DelayJob | None]:
        """None: go. A slot is asked for only when there is a record to spend it on."""
        if not unit.place.found or unit.asks_nobody:
            yield None
            return
        async with self.windows.acquire(unit.request, unit.place, unit.job.job_id) as answer:
            if not isinstance(answer, ComeBackAt):
                yield None
                return
            wait_s = max(0.0, (answer.until - self.clock()).total_seconds())
            metrics.throttled(unit.place.provider, _cause_of(answer, unit.request), wait_s)
            if answer.closed and await self.windows.must_fail_after_wait(unit.job.job_id, wait_s):
                raise WaitedTooOften(f"The provider kept asking to wait: {answer.reason}")
            yield DelayJob(answer.until, answer.reason)

    async def _record_outcome(self, unit: _Unit, outcome: Outcome) -> None:
        match outcome:
            case Done():
                ended_as = UnitEnd.DONE
            case RecordMissing():
                ended_as = UnitEnd.RECORD_MISSING
            case Skipped():
                ended_as = UnitEnd.SKIPPED
            case Delayed():
                return  # still open
            case _:
                assert_never(outcome)
        if isinstance(unit.request, CrawlUrl | DocumentChunks) and ended_as is UnitEnd.DONE:
            return  # ended in its own transaction, with its count or its chunks
        async with self.database.organization(unit.request.organization_id) as connection:
            await unit_requests.end(
                connection, unit.request.organization_id, unit.job.job_id, unit.place.started_at, ended_as
            )

    async def _enqueue_follow_ups(self, priority: Priority, outcome: Outcome) -> None:
        """Follow-ups inherit the priority of the unit that asks for them. Raises FollowUpsNotEnqueued."""
        if not isinstance(outcome, Done):
            return
        for start in range(0, len(outcome.follow_ups), FOLLOW_UPS_AT_ONCE):
            await self._enqueue(outcome.follow_ups[start : start + FOLLOW_UPS_AT_ONCE], priority)
        if outcome.follow_up_pages is not None:
            async for page in outcome.follow_up_pages():
                await self._enqueue(page, priority)

    async def _enqueue(self, requests: tuple[LibraryRequest, ...], priority: Priority) -> None:
        try:
            await enqueue_units(self.enqueuer, requests, priority=priority)
        except KbsyncError as error:
            raise FollowUpsNotEnqueued(f"{len(requests)} follow-ups could not be enqueued: {error}") from error

    # Ends that are no outcome

    async def _end_badly(self, unit: _Unit, error: Exception) -> JobEnd:
        """WAIT comes back later, GIVE_UP and the final attempt are written down, RETRY is raised as it is."""
        try:
            match verdict(error):
                case Verdict.WAIT if isinstance(error, ProviderBusy):
                    return await self._wait_for_provider(unit, error)
                case Verdict.WAIT:
                    return self._wait(error)
                case Verdict.GIVE_UP:
                    await record_failure(self.units, unit.request, unit.run, error)
                    raise Unrecoverable(str(error)) from error
                case Verdict.RETRY:
                    return await self._fail_attempt(unit, error)
        except ServerUnavailable as unavailable:
            # What should have been written down was not: the same attempt comes back to it.
            return self._wait(unavailable)

    async def _fail_attempt(self, unit: _Unit, error: Exception) -> JobEnd:
        if isinstance(error, ProviderBusy):
            await self.windows.close(unit.request, unit.place, stated_wait_s(error, unit.job.attempt), str(error))
        if unit.job.is_final_attempt and not isinstance(error, FollowUpsNotEnqueued):
            await record_failure(self.units, unit.request, unit.run, error)
        raise error

    async def _wait_for_provider(self, unit: _Unit, error: ProviderBusy) -> JobEnd:
        wait_s = stated_wait_s(error, unit.job.attempt)
        await self.windows.close(unit.request, unit.place, wait_s, str(error))
        if await self.windows.must_fail_after_wait(unit.job.job_id, wait_s, quota=error.quota):
            return await self._fail_attempt(unit, error)
        metrics.throttled(unit.place.provider, "stated", wait_s)
        until = self.clock() + timedelta(seconds=wait_s)
        if error.quota and unit.place.source_id is not None:
            organization_id, source_id = unit.request.organization_id, unit.place.source_id
            async with self.database.organization(organization_id) as connection:
                words = f"quota spent until {until.isoformat(timespec='minutes')}"
                await sources.note_wait(connection, organization_id, source_id, words)
        return DelayJob(until, str(error))

    def _wait(self, error: BaseException) -> DelayJob:
        return DelayJob(self.clock() + timedelta(seconds=self.server_wait_s), f"{type(error).__name__}: {error}")

    # The scan, and ends that no run saw

    async def _run_scan(self, request: Scan, job: RunningJob) -> JobEnd:
        try:
            return _end_of(await self.scan(request, job))
        except Exception as error:
            if verdict(error) is Verdict.WAIT:
                return self._wait(error)
            raise

    async def abandoned(self, job_id: str, kind: str, payload: Mapping[str, object] | None, reason: str) -> None:
        """An end that no run saw (QU-31): the record says so, and the unit is over. Safe to repeat. Raises
        DatabaseUnavailable: then it is told again."""
        request: UnitRequest | None
        async with self.database.fleet() as connection:
            request, now = await known_request(connection, job_id)
        if payload is not None:
            try:
                request = _parse(payload)
            except Unrecoverable:
                log.warning("abandoned_payload_unreadable", job_id=job_id, kind=kind, reason=reason)
        if request is None or isinstance(request, Scan):
            return
        await record_abandoned(self.units, request, Run(job_id, now, is_final_attempt=True), reason)


def _cause_of(answer: ComeBackAt, request: LibraryRequest) -> str:
    if answer.closed:
        return "closed"
    return "host" if isinstance(request, CrawlUrl) else "window"


def _parse(payload: Mapping[str, object]) -> UnitRequest:
    """Raises Unrecoverable from PayloadRefused, with every fault and its place."""
    try:
        return unit_request_adapter.validate_python(without_envelope(payload), strict=False)
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc'])) or 'payload'}: {fault['msg']}" for fault in error.errors()
        )
        refused = PayloadRefused(f"the payload is no request that this version can run ({faults})")
        raise Unrecoverable(str(refused)) from refused


def _end_of(outcome: Outcome) -> JobEnd:
    match outcome:
        case Done(summary=summary):
            return Completed({"status": "done", **summary})
        case RecordMissing(what):
            return Completed({"status": "record-missing", "what": what})
        case Skipped(reason):
            return SkippedJob({"status": "skipped", "reason": reason})
        case Delayed(until, reason):
            return DelayJob(until, reason)
        case _:
            assert_never(outcome)
