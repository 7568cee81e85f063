"""PF-10: the PostgreSQL manual from a loopback server: crawled, stored, chunked and searchable by the worker that ships,
against Scrapy that fetches and parses the same pages at the same concurrency and stores nothing."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from kbsync.db.pool import Database
from kbsync.db.statements import Statements
from kbsync.domain.ids import QueueName
from kbsync.domain.requests import Priority, SyncSource
from kbsync.library import organizations, sources
from kbsync.queue.fleet import Fleet
from kbsync.recovery.promises import accept_units
from ops.bench import contestants
from ops.bench.contestants import Contestant
from ops.bench.figures import Check, Figure, Row, ratio, sample
from ops.bench.processes import environment, kbsync_up, postgres_up, redis_up
from ops.bench.table import Options
from ops.embedded import process

MANUAL = Path("/usr/share/doc/postgresql-doc-15/html")
CONCURRENCY = 16
WITHIN_S = 600.0
QUICK_PAGES = 60
ONE_WORKER: Sequence[Sequence[str]] = ((),)
A_WORKER_A_QUEUE: Sequence[Sequence[str]] = tuple((str(queue),) for queue in QueueName)

_SQL = Statements.beside(__file__)


@dataclass(frozen=True)
class Crawled:
    pages: int
    seconds: float

    @property
    def rate(self) -> float:
        return self.pages / self.seconds


def measure(options: Options) -> list[Figure]:
    """Not measured where the manual is not installed (Debian: postgresql-doc-15)."""
    if not (MANUAL / "index.html").exists():
        missing = Check("x Scrapy", None, 1)
        return [Figure("PF-10", "crawl", (missing,), notes=("install postgresql-doc-15 to measure it",))]
    field = contestants.installed("PF-10", options.say, ["scrapy"])
    alone: list[float] = []
    ours: list[float] = []
    theirs: list[float] = []
    with site(MANUAL, options.count(0, QUICK_PAGES)) as url:
        for number in range(options.rounds):
            folder = options.folder / f"round-{number}"
            for workers, rates in ((ONE_WORKER, alone), (A_WORKER_A_QUEUE, ours)):
                crawled = crawl(folder / str(len(workers)), url, workers)
                rates.append(crawled.rate)
                options.say(f"kbsync, {len(workers)} worker(s): {crawled.pages} pages, {crawled.rate:.0f}/s")
            for peer in field.peers:
                seen = crawl_with(peer, url)
                theirs.append(seen.rate)
                options.say(f"{peer.name}: {seen.pages} pages, {seen.rate:.0f}/s")
    own, peers = sample(ours, "pages/s"), sample(theirs, "pages/s")
    rows = (
        Row("kbsync, a worker for each of the two queues: crawled, stored, chunked, searchable", own),
        Row("kbsync, one worker for both queues", sample(alone, "pages/s")),
        Row("Scrapy: fetched and parsed", peers, field.missing.get("Scrapy", "")),
    )
    notes = (f"concurrency {CONCURRENCY}, host throttle raised", *(p.versions for p in field.peers))
    return [Figure("PF-10", "crawl", (ratio("Scrapy", own, peers, 1),), rows, notes)]


@contextmanager
def site(folder: Path, limit: int = 0) -> Iterator[str]:
    """The address of its index, while the block runs."""
    port = process.free_port()
    command = [sys.executable, "-m", "ops.bench.crawl_site", str(folder), str(port), str(limit)]
    serving = subprocess.Popen(command, cwd=contestants.ROOT, preexec_fn=process.die_with_parent)
    try:
        deadline = time.monotonic() + 20
        while not process.accepts_connections(port):
            if serving.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the site did not start")
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/index.html"
    finally:
        serving.terminate()
        serving.wait(10)


def crawl(folder: Path, url: str, workers: Sequence[Sequence[str]]) -> Crawled:
    """Servers and workers (each with the queues it serves) as they ship; from the request of the sync until the last
    document has its chunks."""
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    folder.parent.chmod(0o755)
    with postgres_up(folder) as database_url, redis_up(folder) as redis:
        settings = {
            "KBSYNC_DATABASE_URL": database_url,
            "KBSYNC_REDIS_URL": redis.url,
            "KBSYNC_SYNC_CONCURRENCY": str(CONCURRENCY),
            "KBSYNC_FETCH_AT_ONCE": str(4 * CONCURRENCY),
            "KBSYNC_FETCH_PER_SECOND": "100000",
            "KBSYNC_FETCH_ALLOW_ADDRESSES": '["127.0.0.1"]',
        }
        with ExitStack() as running:
            for queues in workers:
                running.enter_context(kbsync_up(folder, "worker", *queues, **settings))
            return asyncio.run(_sync(database_url, redis.url, url))


async def _sync(database_url: str, redis_url: str, url: str) -> Crawled:
    database, fleet = await Database.open(database_url, max_size=2), Fleet(redis_url)
    try:
        async with database.fleet() as connection:
            organization_id = await organizations.create(connection, "Bench")
        async with database.organization(organization_id) as connection:
            source_id = await sources.create(connection, organization_id, type="website", config={"start_url": url})
        assert source_id is not None
        begun = time.perf_counter()
        request = SyncSource(organization_id=organization_id, source_id=source_id)
        await accept_units(database, fleet, [request], priority=Priority.NORMAL)
        while True:
            await asyncio.sleep(0.1)
            async with database.organization(organization_id) as connection:
                row = await connection.fetchrow(_SQL["crawled"], organization_id, source_id)
            took = time.perf_counter() - begun
            assert row is not None
            if row["sync_status"] == "failed" or took > WITHIN_S:
                raise RuntimeError(f"the crawl did not end well: {row['sync_status']} {row['sync_error']}")
            if row["sync_status"] == "synced" and row["without_chunks"] == 0:
                return Crawled(row["documents"], took)
    finally:
        await fleet.close()
        await database.close()


def crawl_with(peer: Contestant, url: str) -> Crawled:
    """Raises RuntimeError when it reports nothing."""
    done = subprocess.run(
        [*peer.command, url, str(CONCURRENCY)],
        cwd=contestants.ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    for line in done.stdout.splitlines():
        if line.startswith("@pages "):
            _, pages, seconds = line.split()
            return Crawled(int(pages), float(seconds))
    raise RuntimeError(f"{peer.name} reported nothing: {done.stderr.strip()[-300:]}")
