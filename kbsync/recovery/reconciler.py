"""Reconciliation: what Postgres says is owed and Redis has forgotten is enqueued again from its row (QR-01, QR-05, QR-08).

Any number of reconcilers may run: ids dedupe. Under the kill switch library kinds are not looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kbsync.db.pool import Database
from kbsync.domain.errors import PayloadRefused
from kbsync.domain.ids import job_id
from kbsync.domain.requests import Priority, Scan, SyncSource, UnitRequest
from kbsync.library import due
from kbsync.queue.jobs import Enqueued, EnqueueOutcome, Enqueuer
from kbsync.queue.units import enqueue_units
from kbsync.recovery.kinds import KINDS, REDRIVEN, Candidate, DurableKind, Unreadable
from kbsync.recovery.promises import accept_units
from kbsync.telemetry import log

AT_ONCE = 500  # requests of one enqueue call: everybody else waits for Redis meanwhile


class PauseView(Protocol):
    async def paused(self, organization_id: int | None) -> bool: ...


@dataclass
class KindCount:
    """What a pass did with one kind. `looked_at` = live + paused + settled (its row said so when read again) + requeued
    + refused (a request that this version can't read)."""

    looked_at: int = 0
    live: int = 0
    paused: int = 0
    settled: int = 0
    requeued: int = 0
    refused: int = 0


@dataclass
class Reconciled:
    kinds: dict[str, KindCount] = field(default_factory=dict)
    interrupted_sources: int = 0
    stood_down: bool = False

    @property
    def requeued(self) -> int:
        return sum(kind.requeued for kind in self.kinds.values())


@dataclass(frozen=True)
class Reconciler:
    """`grace_s`: how old a row must be before its job may be missed (QR-07)."""

    database: Database
    enqueuer: Enqueuer
    kill_switch: PauseView
    grace_s: float = 60.0
    kinds: Sequence[DurableKind] = KINDS

    async def once(self) -> Reconciled:
        """One reconciliation. Raises ServerUnavailable; what it did so far stands, and the next one does the rest."""
        if await self.kill_switch.paused(None):
            return Reconciled(stood_down=True)
        done = await self._run(self.kinds, self.grace_s)
        done.interrupted_sources = await self._fail_interrupted_sources()
        return done

    async def redrive(self) -> Reconciled:
        """What a pause has ended: skipped units, unfinished crawl URLs and crawls that were never started (KS-03)."""
        return await self._run(REDRIVEN, 0.0)

    async def _run(self, kinds: Sequence[DurableKind], grace_s: float) -> Reconciled:
        done = Reconciled()
        for kind in kinds:
            count = done.kinds[kind.name] = KindCount()
            async for page in kind.pages(self.database, grace_s):
                await self._reconcile_page(kind, page, count)
        return done

    async def _reconcile_page(self, kind: DurableKind, page: list[Candidate], count: KindCount) -> None:
        count.looked_at += len(page)
        runnable = await self._not_paused(page)
        count.paused += len(page) - len(runnable)
        live = await self.enqueuer.live_job_ids([candidate.job_id for candidate in runnable])
        missing = [candidate for candidate in runnable if candidate.job_id not in live]
        count.live += len(runnable) - len(missing)
        if not missing:
            return
        async with self.database.fleet() as connection:
            wanted = await kind.still_wanted(connection, missing)
        count.settled += len(missing) - len(wanted)
        requests = _built(wanted)
        count.refused += len(wanted) - len(requests)
        for start in range(0, len(requests), AT_ONCE):
            batch = requests[start : start + AT_ONCE]
            try:
                answers = await self._enqueue(kind, batch)
            except PayloadRefused:
                answers = await self._enqueue_one_by_one(kind, batch, count)
            count.requeued += sum(
                answer.outcome in (EnqueueOutcome.CREATED, EnqueueOutcome.REPLACED) for answer in answers
            )

    async def _not_paused(self, page: list[Candidate]) -> list[Candidate]:
        organizations = {candidate.organization_id for candidate in page}
        paused = {
            # A scan is of no organization: it is paused with everybody.
            organization: await self.kill_switch.paused(
                None if organization == due.FLEET_ORGANIZATION else organization
            )
            for organization in organizations
        }
        return [candidate for candidate in page if not paused[candidate.organization_id]]

    async def _enqueue_one_by_one(
        self, kind: DurableKind, requests: list[UnitRequest], count: KindCount
    ) -> list[Enqueued]:
        """One that the queue will not take must not hold back the others."""
        answers: list[Enqueued] = []
        for request in requests:
            try:
                answers += await self._enqueue(kind, [request])
            except PayloadRefused as error:
                count.refused += 1
                log.error("reconcile_refused", job_id=job_id(request), reason=str(error))
        return answers

    async def _enqueue(self, kind: DurableKind, requests: list[UnitRequest]) -> list[Enqueued]:
        """A scan that ended is never run again from here: its failure is for a person."""
        scans = [request for request in requests if isinstance(request, Scan)]
        units = [request for request in requests if not isinstance(request, Scan)]
        if kind.registers:
            answers = await accept_units(self.database, self.enqueuer, units, priority=Priority.NORMAL)
        else:
            answers = await enqueue_units(self.enqueuer, units, priority=Priority.NORMAL)
        answers += await enqueue_units(self.enqueuer, scans, priority=Priority.BACKGROUND, replace_finished=False)
        return answers

    async def _fail_interrupted_sources(self) -> int:
        """`syncing` with no job that is live or owed: its run is gone, and the row says so (LS-12)."""
        failed = after = 0
        while True:
            async with self.database.fleet() as connection:
                sources = await due.sources_syncing(connection, self.grace_s, after)
            if not sources:
                return failed
            after = sources[-1].id
            jobs = {
                job_id(SyncSource(organization_id=source.organization_id, source_id=source.id)): source
                for source in sources
            }
            live = await self.enqueuer.live_job_ids(list(jobs))
            gone = {job: source for job, source in jobs.items() if job not in live}
            async with self.database.fleet() as connection:
                owed = await due.standing_of(connection, list(gone))
                for job, source in gone.items():
                    if (job not in owed or not owed[job].open) and await due.fail_source_if_still_syncing(
                        connection, source
                    ):
                        failed += 1
                        log.warning("source_interrupted", source_id=source.id, organization_id=source.organization_id)


def _built(candidates: Sequence[Candidate]) -> list[UnitRequest]:
    built = []
    for candidate in candidates:
        try:
            built.append(candidate.build())
        except Unreadable as error:
            log.error("reconcile_refused", job_id=candidate.job_id, reason=str(error))
    return built


def totals(done: Reconciled) -> Counter[str]:
    """The pass in flat counters, for logs and metrics."""
    flat: Counter[str] = Counter(interrupted_sources=done.interrupted_sources)
    for name, count in done.kinds.items():
        for what, number in vars(count).items():
            flat[f"{name}_{what}"] += number
    return flat
