"""A deployment with something of everything, made by the real parts: what the browser tests look at."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from kbsync.domain.ids import QueueName
from kbsync.domain.requests import Priority, SyncSource
from kbsync.library import data_sources, organizations, sources
from kbsync.queue.jobs import DelayJob, JobEnd, JobRequest, RunningJob, Unrecoverable
from kbsync.queue.worker import FleetWorker
from kbsync.recovery.promises import accept_units
from ops.serve.workers import scan
from tests.acceptance.deployment import until
from tests.dashboard.conftest import Dashboard
from tests.queue.support import a_request
from tests.website.fake_site import FakeSite, Reply

HOSTILE = '<img src=x onerror="alert(1)">\u202eevil\u0007</script>'
NOTION_401 = "Notion refused the token (401). Give the source a new token, then retry."


@dataclass
class Scene:
    organization: int
    folder_source: int
    site_source: int
    failed_source: int
    document: int
    crawl: int
    failed_job: str
    hostile_job: str
    site: FakeSite


def _write_folder(folder: Path) -> None:
    for number in range(1, 31):
        path = folder / f"guide-{number % 3}" / f"page-{number}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# Refund policy {number}\n\nRefunds are paid within {number} days of the return.\n")


def _build_site(site: FakeSite) -> None:
    links = "".join(f'<li><a href="/docs/{n}">Page {n}</a></li>' for n in range(1, 13))
    site.page("/", f"<main><h1>Docs</h1><ul>{links}<li><a href='/docs/gone'>gone</a></li></ul></main>")
    for n in range(1, 13):
        site.page(f"/docs/{n}", f"<main><h1>Chapter {n}</h1><p>Vacuuming, part {n}, with freeze limits.</p></main>")
    site.on("/docs/gone", Reply(404))


@asynccontextmanager
async def workers(dashboard: Dashboard, *queues: QueueName) -> AsyncIterator[list[FleetWorker]]:
    """Real workers over the dashboard's runtime, until the block ends."""
    runner = dashboard.runtime.unit_runner(scan)
    made = [dashboard.runtime.worker(queue, runner) for queue in queues or (QueueName.SYNC, QueueName.CHUNKS)]
    tasks = [asyncio.create_task(worker.run()) for worker in made]
    try:
        yield made
    finally:
        for worker in made:
            worker.request_stop()
        await asyncio.gather(*tasks)


@asynccontextmanager
async def scene(dashboard: Dashboard, folder: Path) -> AsyncIterator[Scene]:
    """Two organizations, a synced folder, a crawled site, a source that failed, and jobs in every state."""
    _write_folder(folder)
    runtime = dashboard.runtime
    async with FakeSite() as site:
        _build_site(site)
        async with runtime.database.fleet() as connection:
            acme = await organizations.create(connection, "Søndergaard & Børn A/S")
            await organizations.create(connection, "Globex")
        async with runtime.database.organization(acme) as connection:
            folder_source = await sources.create(
                connection, acme, type="files", name="Handbook", config={"path": str(folder)}
            )
            site_source = await sources.create(
                connection, acme, type="website", name="docs.acme.example", config={"start_url": site.url + "/"}
            )
            connected = await data_sources.create(connection, acme, provider="notion", name="Company wiki")
            failed_source = await sources.create(
                connection, acme, type="notion", name="Company wiki", data_source_id=connected
            )
            assert folder_source is not None
            assert site_source is not None
            assert failed_source is not None
            await sources.begin_run(connection, acme, failed_source)
            await sources.fail(connection, acme, failed_source, NOTION_401)
        requests = [SyncSource(organization_id=acme, source_id=one) for one in (folder_source, site_source)]
        async with workers(dashboard):
            await accept_units(
                runtime.database, runtime.fleet, requests, priority=Priority.NORMAL, rerun_if_active=True
            )

            async def both_synced() -> bool:
                query = "select count(*) from knowledge_base_sources where sync_status = 'synced'"
                async with runtime.database.fleet() as connection:
                    synced: int = await connection.fetchval(query)
                return synced == 2

            await until(both_synced, "both sources synced")
            await until(lambda: _idle(dashboard), "no job left")
        failed_job, hostile_job = await _jobs_in_every_state(dashboard, acme)
        async with runtime.database.fleet() as connection:
            document = await connection.fetchval(
                "select min(id) from knowledge_base_documents where source_id = $1", folder_source
            )
            crawl = await connection.fetchval("select max(id) from knowledge_base_crawl_tasks")
        yield Scene(acme, folder_source, site_source, failed_source, document, crawl, failed_job, hostile_job, site)


async def _idle(dashboard: Dashboard) -> bool:
    for name in (QueueName.SYNC, QueueName.CHUNKS):
        counts = await dashboard.fleet.queue(name).counts()
        if counts.waiting + counts.active + counts.delayed:
            return False
    return True


async def _jobs_in_every_state(dashboard: Dashboard, organization: int) -> tuple[str, str]:
    """Failed ones of two errors and a hostile one, delayed ones with a reason, waiting ones: as a worker leaves them."""
    queue = dashboard.fleet.queue(QueueName.SYNC)
    tenant = f"org-{organization}"

    def requests(head: str, count: int) -> list[JobRequest]:
        payload = {"type": "sync_document", "organization_id": organization}
        return [
            a_request(f"{head}{n}", kind="sync_document", tenant=tenant, payload={**payload, "document_id": n})
            for n in range(1, count + 1)
        ]

    async def run(job: RunningJob) -> JobEnd:
        if job.job_id.startswith("kb-document-sync-9"):
            raise Unrecoverable(NOTION_401)
        if job.job_id.startswith("kb-document-sync-8"):
            raise Unrecoverable("The page’s table can’t be read")
        if job.job_id.startswith("kb-document-sync-7"):
            return DelayJob(datetime.now(UTC) + timedelta(hours=1), "notion document_sync window is full (4 per 60 s)")
        raise Unrecoverable(HOSTILE)

    hostile = "<img/src=x/onerror=alert(1)>\u202eevil</script>-job"
    payload = {"type": "sync_document", "name": HOSTILE, "url": "javascript:alert(1)", "big": "x" * 200_000}
    await queue.enqueue([a_request(hostile, kind="sync_document", tenant="org-x", payload=payload)])
    for head, count in (("kb-document-sync-9", 14), ("kb-document-sync-8", 3), ("kb-document-sync-7", 6)):
        await queue.enqueue(requests(head, count))
    worker = FleetWorker(queue.redis, QueueName.SYNC, {"sync_document": run}, concurrency=10, job_timeout_s=60)
    task = asyncio.create_task(worker.run())

    async def all_ran() -> bool:
        counts = await queue.counts()
        return (counts.delayed, counts.failed) == (6, 18)

    await until(all_ran, "18 failed and 6 delayed jobs")
    worker.request_stop()
    await task
    await queue.enqueue(requests("kb-document-sync-6", 60))
    return "kb-document-sync-91", hostile
