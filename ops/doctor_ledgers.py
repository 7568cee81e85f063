"""What must hold in every ledger, and what to do where it does not. Each check is one bounded read in its own transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from kbsync.db.pool import Connection
from kbsync.domain.chunking import chunk
from kbsync.domain.errors import FlagStoreUnavailable
from kbsync.domain.ids import job_id
from kbsync.domain.requests import SyncSource
from kbsync.library import due, observations
from kbsync.library.due import FLEET_ORGANIZATION, OpenUnit, SyncingSource
from kbsync.library.observations import Broken, Row
from kbsync.telemetry import log
from ops.findings import Finding, Patient, Severity

# Rows that a check reads at most, and how many of them a finding names.
MOST, SHOWN = 200, 5
OPEN_TOO_LONG_S = 3_600.0
OUTBOX_TOO_LONG_S = 300.0
PAGES = 20
UNITS, OUTBOX, SOURCES = "unit_requests", "outbox", "sources"

T = TypeVar("T")


@dataclass(frozen=True)
class Invariant:
    """`shown` are the columns that name a row to a person."""

    check: Broken
    must_hold: str
    shown: tuple[str, ...]
    cure: str


INVARIANTS = (
    Invariant(
        Broken.CRAWLS_MISCOUNTED,
        "urls_pending is the number of a live crawl's unfinished URLs, and 0 at its end",
        ("id", "organization_id", "status", "urls_pending", "unfinished"),
        "set the crawl's status to failed in knowledge_base_crawl_tasks, then sync its source again: `kbsync source sync`",
    ),
    Invariant(
        Broken.CRAWLS_ENDED_UNFINISHED,
        "an ended crawl has no unfinished URL",
        ("id", "organization_id", "unfinished"),
        "sync its source again: `kbsync source sync`; a new crawl makes a new ledger",
    ),
    Invariant(
        Broken.DOUBLE_CHUNKS,
        "a document has one chunk a position",
        ("organization_id", "document_id", "position", "chunks"),
        "ask for its chunks again, which replaces the whole set: `kbsync enqueue` with type document_chunks",
    ),
    Invariant(
        Broken.CHUNKS_WITHOUT_DOCUMENT,
        "chunks belong to a kept document of their organization",
        ("organization_id", "document_id", "chunks"),
        "delete these rows of document_chunks: they are found by searches",
    ),
    Invariant(
        Broken.SEARCH_ROWS_WITHOUT_DOCUMENT,
        "a row of pg_search_documents names a kept document",
        ("id", "organization_id", "document_id"),
        "delete these rows of pg_search_documents: they are found by searches",
    ),
)


class TookTooLong(Exception):
    """Postgres did not answer a check in time."""


async def examine_ledgers(patient: Patient) -> list[Finding]:
    """Every invariant of the Library's ledgers. Those that need the queues are left out while Redis is away."""
    checks: list[tuple[str, Callable[[Patient], Awaitable[list[Finding]]]]] = [
        (invariant.check.value, partial(_broken, invariant=invariant)) for invariant in INVARIANTS
    ]
    checks += [(Broken.DOCUMENTS_MISSING_CHUNKS.value, _documents_missing_chunks), (OUTBOX, _outbox)]
    if patient.redis_is_up:
        checks += [(UNITS, _forgotten_units), (SOURCES, _interrupted_sources)]
    findings: list[Finding] = []
    for name, check in checks:
        try:
            findings += await check(patient)
        except TookTooLong:
            what = f"not looked at: Postgres took longer than {observations.WITHIN_S:g} s"
            findings.append(Finding(name, Severity.WARNING, what, "ask again in a quiet hour; is autovacuum running?"))
        except FlagStoreUnavailable:
            log.info("not_looked_at", check=name)  # it has its own finding; nobody knows now what is paused
    return findings


async def _broken(patient: Patient, *, invariant: Invariant) -> list[Finding]:
    rows = await _read(patient, lambda connection: observations.broken(connection, invariant.check, MOST))
    if not rows:
        return []
    what = f"not true that {invariant.must_hold}: {_shown(rows, invariant.shown)}"
    return [Finding(invariant.check.value, Severity.ERROR, what, invariant.cure)]


async def _documents_missing_chunks(patient: Patient) -> list[Finding]:
    """A text of which nothing can be searched (a comment, say) has no chunks, and none are missing."""
    check, size = Broken.DOCUMENTS_MISSING_CHUNKS, patient.settings.chunk_characters
    suspects = await _read(patient, lambda connection: observations.broken(connection, check, MOST))
    rows = [row for row in suspects if chunk(str(row["text"]), size=size)]
    if not rows:
        return []
    what = f"chunks_synced_at is set, there is text, and no chunk: {_shown(rows, ('organization_id', 'id'))}"
    cure = "ask for their chunks: `kbsync enqueue` with type document_chunks, organization_id and document_id"
    return [Finding(check.value, Severity.ERROR, what, cure)]


async def _outbox(patient: Patient) -> list[Finding]:
    """Rows of a paused organization wait on purpose (LS-23)."""
    if await patient.switch.paused(None):
        return []
    paused = sorted(
        one.organization_id for one in (await patient.switch.describe()).organizations if one.organization_id
    )
    waiting = await _read(
        patient, lambda connection: observations.outbox_waiting(connection, OUTBOX_TOO_LONG_S, paused, MOST)
    )
    rows = [row for row in waiting if not await patient.switch.paused(_organization(row))]
    if not rows:
        return []
    what = f"rows are not relayed after {OUTBOX_TOO_LONG_S / 60:g} minutes: {_shown(rows, ('id', 'organization_id'))}"
    return [
        Finding(OUTBOX, Severity.ERROR, what, "see that a scheduler runs: `kbsync scheduler`; its log says what waits")
    ]


async def _forgotten_units(patient: Patient) -> list[Finding]:
    """Accepted, not ended for an hour, and in no queue: the reconciler gives such units back within a minute or two."""
    found: list[OpenUnit] = []
    after = (due.LONG_AGO, "")
    for _ in range(PAGES):
        units = await _read(patient, partial(due.open_past_grace, grace_s=OPEN_TOO_LONG_S, after=after))
        if not units:
            break
        after = (units[-1].requested_at, units[-1].job_id)
        found += await _without_job(patient, units)
    if not found:
        return []
    ids = ", ".join(unit.job_id for unit in found[:SHOWN])
    what = f"{_number(found)} units are open for over an hour and in no queue: {ids}"
    cure = "see that a scheduler runs: `kbsync scheduler`; its log says reconcile_refused for what it can't give back"
    return [Finding(UNITS, Severity.WARNING, what, cure)]


async def _without_job(patient: Patient, units: Sequence[OpenUnit]) -> list[OpenUnit]:
    runnable = [
        unit
        for unit in units
        if not await patient.switch.paused(unit.organization_id if unit.organization_id != FLEET_ORGANIZATION else None)
    ]
    live = await patient.fleet.live_job_ids([unit.job_id for unit in runnable])
    gone = [unit for unit in runnable if unit.job_id not in live]
    # A job that was just ending when its row was read is over.
    standing = await _read(patient, partial(due.standing_of, job_ids=[unit.job_id for unit in gone]))
    return [unit for unit in gone if unit.job_id in standing and standing[unit.job_id].open]


async def _interrupted_sources(patient: Patient) -> list[Finding]:
    """`syncing` with no job that is live or owed, for longer than recovery takes to say `failed: interrupted` (LS-12).

    Recovery stands down while everybody is paused."""
    if await patient.switch.paused(None):
        return []
    grace_s = patient.settings.reconcile_grace_s + 2 * patient.settings.reconcile_interval_s
    syncing = await _syncing(patient, grace_s)
    jobs = {_job_of(source): source for source in syncing}
    live = await patient.fleet.live_job_ids(list(jobs))
    standing = await _read(patient, partial(due.standing_of, job_ids=list(jobs)))
    gone = [source for job, source in jobs.items() if job not in live and not (job in standing and standing[job].open)]
    still = set(await _syncing(patient, grace_s)) if gone else set()
    stuck = [source for source in gone if source in still]
    if not stuck:
        return []
    ids = ", ".join(f"{source.id} (organization {source.organization_id})" for source in stuck[:SHOWN])
    what = f"{_number(stuck)} sources say syncing and have no job: {ids}"
    return [
        Finding(SOURCES, Severity.ERROR, what, "see that a scheduler runs: `kbsync scheduler`; then sync them again")
    ]


async def _syncing(patient: Patient, grace_s: float) -> list[SyncingSource]:
    return await _read(patient, partial(due.sources_syncing, grace_s=grace_s, after_id=0))


def _job_of(source: SyncingSource) -> str:
    return job_id(SyncSource(organization_id=source.organization_id, source_id=source.id))


async def _read(patient: Patient, read: Callable[[Connection], Awaitable[T]]) -> T:
    """Raises TookTooLong."""
    async with patient.database.fleet() as connection:
        try:
            return await asyncio.wait_for(read(connection), observations.WITHIN_S)
        except TimeoutError as error:
            raise TookTooLong from error


def _organization(row: Row) -> int:
    value = row["organization_id"]
    assert isinstance(value, int)
    return value


def _number(rows: Sequence[object]) -> str:
    return str(len(rows)) if len(rows) < MOST else f"{MOST} or more"


def _shown(rows: Sequence[Row], columns: Sequence[str]) -> str:
    named = "; ".join(", ".join(f"{column} {row[column]}" for column in columns) for row in rows[:SHOWN])
    more = f" (the first {SHOWN} of {_number(rows)})" if len(rows) > SHOWN else ""
    return f"{named}{more}"
