"""PF-11: what a document costs in a library of a thousand, of ten thousand and of a hundred thousand documents.

A provider in this process lists and serves short documents, so that what is measured is ours: source sync of all, document
sync and chunks of some of them, and what the tick and the reconciler pay a row. The queue is a counter.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from statistics import median

from kbsync.db.pool import Database
from kbsync.db.statements import Statements
from kbsync.domain.ids import job_id
from kbsync.domain.requests import DocumentChunks, Scan, SyncDocument, SyncSource
from kbsync.library import organizations, sources
from kbsync.providers.contract import (
    Content,
    DocumentRef,
    ListedDocument,
    ListingEnd,
    ListingPart,
    Unchanged,
)
from kbsync.queue.jobs import Enqueued, EnqueueOutcome, JobRequest
from kbsync.recovery.reconciler import Reconciler
from kbsync.sync.context import Run, Units
from kbsync.sync.perform import perform
from ops.bench.figures import Bar, Check, Figure, Row, sample
from ops.bench.processes import postgres_up
from ops.bench.recovery import resident_mb
from ops.bench.table import Options
from producers.daily_tick import ScanServices, run_scan

SIZES = (1_000, 10_000, 100_000)
SOME = 500  # documents whose own units are run
WITHIN = 1.3

_SQL = Statements.beside(__file__)
_TEXT = "\n\n".join(
    f"## Part {n}\n\n" + "What a reader wants to know of this, said in a few words. " * 8 for n in range(4)
)


@dataclass(frozen=True)
class ManyDocuments:
    """A provider with so many documents; keeps `contract.Provider`."""

    count: int
    name: str = "many"
    listing_brings_content: bool = False
    crawls: bool = False

    async def list_items(self) -> AsyncIterator[ListingPart]:
        for number in range(self.count):
            yield ListedDocument(f"doc-{number}", f"Document {number}", f"https://docs.example/{number}", version="1")
        yield ListingEnd(True)

    async def fetch_document(self, ref: DocumentRef) -> Content | Unchanged:
        return Content(f"# {ref.external_id}\n\n{_TEXT}", ref.external_id)

    async def close(self) -> None:
        return None


@dataclass
class CountingQueue:
    """Takes every job and forgets it."""

    taken: int = 0

    async def enqueue(self, queue: str, requests: list[JobRequest]) -> list[Enqueued]:
        self.taken += len(requests)
        return [Enqueued(request.job_id, EnqueueOutcome.CREATED) for request in requests]

    async def live_job_ids(self, job_ids: list[str]) -> set[str]:
        return set()


class NeverPaused:
    async def paused(self, organization_id: int | None) -> bool:
        return False


@dataclass
class Costs:
    """Microseconds a document by step, and the memory at the end."""

    size: int
    us: dict[str, float] = field(default_factory=dict)
    memory_mb: float = 0.0

    async def timed(self, step: str, documents: int, work: Callable[[], Awaitable[object]]) -> None:
        begun = time.perf_counter()
        await work()
        self.us[step] = (time.perf_counter() - begun) / documents * 1e6


def measure(options: Options) -> list[Figure]:
    sizes = (100, 400) if options.quick else SIZES
    found = []
    for size in sizes:
        folder = options.folder / str(size)
        folder.mkdir()
        folder.chmod(0o755)
        with postgres_up(folder) as database_url:
            costs = asyncio.run(costs_at(database_url, size, min(SOME, size // 2)))
        options.say(f"{size:,} documents: " + ", ".join(f"{step} {us:.0f} us" for step, us in costs.us.items()))
        found.append(costs)
    return [_figure(found)]


async def costs_at(database_url: str, size: int, some: int) -> Costs:
    database, costs, queue = await Database.open(database_url, max_size=4), Costs(size), CountingQueue()
    units = Units(database, lambda _type, _setup: ManyDocuments(size))
    try:
        async with database.fleet() as connection:
            organization_id = await organizations.create(connection, "Bench")
        async with database.organization(organization_id) as connection:
            source_id = await sources.create(connection, organization_id, type="many", config={})
        assert source_id is not None
        source = SyncSource(organization_id=organization_id, source_id=source_id)
        await costs.timed("source sync", size, lambda: run_unit(units, source))
        async with database.organization(organization_id) as connection:
            rows = await connection.fetch(
                _SQL["some_documents"], organization_id, source_id, max(1, size // some), some
            )
        ids = [row["id"] for row in rows]
        syncs = [SyncDocument(organization_id=organization_id, document_id=row) for row in ids]
        await costs.timed("document sync", some, lambda: run_all(units, syncs))
        chunks = [DocumentChunks(organization_id=organization_id, document_id=row) for row in ids]
        await costs.timed("chunks", some, lambda: run_all(units, chunks))
        async with database.fleet() as connection:
            await connection.execute(_SQL["without_chunks"], organization_id)
        scan = Scan(date=date.today())
        services = ScanServices(database, queue, NeverPaused())
        await costs.timed("tick", size, lambda: run_scan(services, scan, run="bench"))
        async with database.fleet() as connection:
            await connection.execute(_SQL["age_units"])
        reconciler = Reconciler(database, queue, NeverPaused(), grace_s=60)
        await costs.timed("reconcile", size, reconciler.once)
        costs.memory_mb = resident_mb()
    finally:
        await database.close()
    return costs


async def run_unit(units: Units, request: SyncSource | SyncDocument | DocumentChunks) -> None:
    """One unit, with its follow-ups read from the ledger and not enqueued."""
    run = Run(job_id(request), datetime.now(UTC))
    outcome = await perform(units, request, run)
    pages = getattr(outcome, "follow_up_pages", None)
    if pages is not None:
        async for _ in pages():
            pass


async def run_all(units: Units, requests: Sequence[SyncDocument | DocumentChunks]) -> None:
    for request in requests:
        await run_unit(units, request)


def _figure(found: Sequence[Costs]) -> Figure:
    steps = list(found[0].us)
    checks = [
        Check(
            f"x the {step} of {found[0].size:,}",
            max(one.us[step] for one in found[1:]) / found[0].us[step],
            WITHIN,
            Bar.AT_MOST,
        )
        for step in steps
    ]
    memory = found[-1].memory_mb / median([one.memory_mb for one in found[:-1]])
    checks.append(Check("x the memory of fewer documents", memory, WITHIN, Bar.AT_MOST))
    rows = [
        Row(f"{step}, {one.size:,} documents, a document", sample([one.us[step]], "us"))
        for step in steps
        for one in found
    ]
    rows += [Row(f"memory, {one.size:,} documents", sample([one.memory_mb], "MB")) for one in found]
    return Figure(
        "PF-11", "library scale", tuple(checks), tuple(rows), ("short documents from a provider in the process",)
    )
