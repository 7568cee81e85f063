"""The daily scan: every kept source is asked to sync, every document without chunks is asked for them (LS-03, LS-22).

claim the date -> sources, page by page -> documents, page by page -> finished
after each page the ledger says how far it came: whoever runs the scan next goes on from there
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from kbsync.db.pool import Connection, Database
from kbsync.domain.errors import KbsyncError, LeaseLost, ServerUnavailable
from kbsync.domain.ids import job_id
from kbsync.domain.outcomes import Done, Skipped
from kbsync.domain.requests import DocumentChunks, LibraryRequest, Priority, Scan, SyncSource
from kbsync.domain.retry import Verdict, verdict
from kbsync.domain.states import UnitEnd
from kbsync.library.due import (
    PAGE,
    Row,
    documents_without_chunks_after,
    end_if_open,
    kept_sources_after,
)
from kbsync.library.ticks import (
    Phase,
    TickProgress,
    advance_tick_if_claimed,
    claim_tick_unless_finished,
    clock,
    skip_tick_unless_finished,
)
from kbsync.queue.jobs import Enqueuer
from kbsync.recovery.promises import accept_units
from kbsync.telemetry import log

PAUSED = "paused"
# So many refusals in a row with a server away are an outage, which the scan waits out, not so many bad requests.
OUTAGE_AFTER = 3

Progress = Callable[[int, int | None, str], None]


class PauseView(Protocol):
    async def paused(self, organization_id: int | None) -> bool: ...


@dataclass(frozen=True)
class ScanServices:
    database: Database
    enqueuer: Enqueuer
    kill_switch: PauseView
    page: int = PAGE


def _no_progress(done: int, total: int | None, note: str) -> None:
    return None


async def run_scan(
    services: ScanServices,
    request: Scan,
    *,
    run: str,
    progress: Progress = _no_progress,
    is_final_attempt: bool = False,
) -> Done | Skipped:
    """One run of a scan job. `run` names this run (its lease token): an older run's writes are refused from then on.

    After Done: every kept source and chunkless document of an organization that is not paused is queued, or its failure
    is logged and counted. Raises ServerUnavailable in an outage and LeaseLost when another run took over; the next run
    goes on behind the last whole page."""
    began = time.monotonic()
    async with services.database.fleet() as connection:
        began_at = await clock(connection)
    if await services.kill_switch.paused(None):
        await _skip(services, request, run)
        return Skipped(PAUSED)
    state = await _claim(services, request, run)
    if state is None:
        return Done(summary={"status": "already_finished", "date": request.date.isoformat()})
    scan = _ScanRun(services, request, run, progress, state)
    try:
        if not await scan.through():
            await _skip(services, request, run)
            return Skipped(PAUSED)
    except Exception as error:
        if is_final_attempt and verdict(error) is not Verdict.WAIT:
            await _end_manual(services, request, began_at, UnitEnd.FAILED)
        raise
    await _end_manual(services, request, began_at, UnitEnd.DONE)
    counts = dict(scan.counts)
    log.info("scan_done", date=request.date.isoformat(), seconds=round(time.monotonic() - began, 3), **counts)
    return Done(summary={"status": "done", "date": request.date.isoformat(), **counts})


async def _claim(services: ScanServices, request: Scan, run: str) -> TickProgress | None:
    if request.manual_id is not None:
        return TickProgress()  # by hand: its own work, whatever the clock's scan has done
    async with services.database.fleet() as connection:
        return await claim_tick_unless_finished(connection, request.date, run)


async def _end_manual(services: ScanServices, request: Scan, began_at: datetime, ended_as: UnitEnd) -> None:
    """A scan by hand is a unit in the ledger; the tick's scan is its date there."""
    if request.manual_id is not None:
        async with services.database.fleet() as connection:
            await end_if_open(connection, job_id(request), began_at, ended_as)


async def _skip(services: ScanServices, request: Scan, run: str) -> None:
    async with services.database.fleet() as connection:
        if request.manual_id is None:
            await skip_tick_unless_finished(connection, request.date, run)
        else:
            await end_if_open(connection, job_id(request), await clock(connection), UnitEnd.SKIPPED)


class _ScanRun:
    """One run's walk through both phases."""

    def __init__(
        self, services: ScanServices, request: Scan, run: str, progress: Progress, state: TickProgress
    ) -> None:
        self._services = services
        self._request = request
        self._run = run
        self._progress = progress
        self._state = state
        self.counts: Counter[str] = Counter({"sources": 0, "chunks": 0, "paused": 0, "failed": 0})
        self.counts.update(state.counts or {})

    async def through(self) -> bool:
        """False when the kill switch went on in between; what is done is kept."""
        while self._state.phase != "done":
            if await self._services.kill_switch.paused(None):
                return False
            await self._next_page()
        return True

    async def _next_page(self) -> None:
        phase: Phase = self._state.phase
        async with self._services.database.fleet() as connection:
            rows = await _page(connection, phase, self._state.after_id, self._services.page)
        if not rows:
            await self._advance("chunks" if phase == "sources" else "done", 0)
            return
        asked = await self._not_paused(phase, rows)
        accepted = await enqueue_page(self._services, asked)
        self.counts[phase] += len(accepted)
        self.counts["failed"] += len(asked) - len(accepted)
        await self._advance(phase, rows[-1].id)
        self._progress(self.counts["sources"] + self.counts["chunks"], None, phase)

    async def _not_paused(self, phase: Phase, rows: Sequence[Row]) -> list[LibraryRequest]:
        paused = {
            organization: await self._services.kill_switch.paused(organization)
            for organization in {row.organization_id for row in rows}
        }
        self.counts["paused"] += sum(paused[row.organization_id] for row in rows)
        return [_request(phase, row) for row in rows if not paused[row.organization_id]]

    async def _advance(self, phase: Phase, after_id: int) -> None:
        self._state = TickProgress(phase, after_id, dict(self.counts))

        if self._request.manual_id is not None:
            return
        async with self._services.database.fleet() as connection:
            claimed = await advance_tick_if_claimed(connection, self._request.date, self._run, self._state)
        if not claimed:
            raise LeaseLost(f"another run has taken over the scan of {self._request.date.isoformat()}")


async def enqueue_page(services: ScanServices, requests: Sequence[LibraryRequest]) -> list[LibraryRequest]:
    """The requests that the queue took: all in one batch, else one by one with each failure logged (LS-03).

    Raises ServerUnavailable when the queue does not answer at all."""
    if not requests:
        return []
    try:
        await accept_units(services.database, services.enqueuer, requests, priority=Priority.BACKGROUND)
        return list(requests)
    except KbsyncError as error:
        log.warning("scan_batch_refused", requests=len(requests), error=str(error))
    accepted: list[LibraryRequest] = []
    in_a_row = 0
    for request in requests:
        try:
            await accept_units(services.database, services.enqueuer, [request], priority=Priority.BACKGROUND)
        except KbsyncError as error:
            in_a_row = in_a_row + 1 if isinstance(error, ServerUnavailable) else 0
            if in_a_row >= OUTAGE_AFTER or len(requests) == in_a_row:
                raise
            log.error("scan_request_failed", job_id=job_id(request), error=str(error))
        else:
            in_a_row = 0
            accepted.append(request)
    return accepted


async def _page(connection: Connection, phase: Phase, after_id: int, limit: int) -> list[Row]:
    if phase == "sources":
        return await kept_sources_after(connection, after_id, limit)
    return await documents_without_chunks_after(connection, after_id, limit)


def _request(phase: Phase, row: Row) -> LibraryRequest:
    if phase == "sources":
        return SyncSource(organization_id=row.organization_id, source_id=row.id)
    return DocumentChunks(organization_id=row.organization_id, document_id=row.id)
