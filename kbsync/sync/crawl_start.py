"""The unit that starts a crawl: read robots and sitemaps, claim the seeds, ask for them (LS-14)."""

from __future__ import annotations

from collections.abc import Sequence

from kbsync.db.errors import retry_on_conflict
from kbsync.db.pool import Connection
from kbsync.domain.outcomes import Done, Outcome, RecordMissing
from kbsync.domain.requests import StartCrawl
from kbsync.domain.states import CrawlStatus
from kbsync.library import crawl_tasks, crawl_urls, source_runs, sources, unit_requests
from kbsync.library.crawl_tasks import CrawlTaskRow
from kbsync.library.crawl_urls import Link
from kbsync.providers.contract import CrawlPlan
from kbsync.sync.context import Run, Units
from kbsync.sync.crawl_claim import Caps, as_links, claim_links, requests_of
from kbsync.sync.crawl_end import complete_crawl
from kbsync.sync.follow_ups import PAGE, Pages


async def start_crawl(units: Units, request: StartCrawl, run: Run) -> Outcome:
    """Before: the crawl may be in any status. After: a pending one is `running` with its seeds claimed; a running one asks
    for its seeds again, from the ledger. A crawl whose plan is blocked is `failed`, and so is its source.

    Raises ProviderError: the crawl stays pending, and a retry claims what is missing."""
    organization_id = request.organization_id
    async with units.database.organization(organization_id) as connection:
        task = await crawl_tasks.get(connection, organization_id, request.crawl_task_id)
        source = await sources.get(connection, organization_id, task.source_id) if task else None
    if task is None or source is None:
        return RecordMissing("crawl")
    if task.status is CrawlStatus.PENDING:
        async with units.crawler_of(source) as provider:
            caps = Caps(provider.max_urls, provider.max_depth, provider.max_urls_per_pattern)
            plan = await provider.crawl_plan()
        if plan.blocked is not None:
            return await _fail(units, task, plan.blocked)
        await _claim_seeds(units, task, plan, caps)
        await retry_on_conflict(lambda: _run(units, task, plan, run))
    elif task.status is not CrawlStatus.RUNNING:
        return Done(summary={"status": str(task.status)})
    return Done(summary={"status": "running"}, follow_up_pages=lambda: _seeds(units, task))


async def _claim_seeds(units: Units, task: CrawlTaskRow, plan: CrawlPlan, caps: Caps) -> None:
    seeds = as_links(plan.seeds)
    # The first seed is the start page: alone, so that it has the lowest id.
    batches = [seeds[:1], *(seeds[at : at + PAGE] for at in range(1, len(seeds), PAGE))]
    for batch in batches:
        await retry_on_conflict(lambda batch=batch: _claim_batch(units, task, plan, batch, caps))  # type: ignore[misc]


async def _claim_batch(units: Units, task: CrawlTaskRow, plan: CrawlPlan, seeds: Sequence[Link], caps: Caps) -> None:
    organization_id = task.organization_id
    async with units.database.organization(organization_id) as connection:
        locked = await crawl_tasks.lock(connection, organization_id, task.id)
        if locked is None or locked.status is not CrawlStatus.PENDING:
            return
        claims = await claim_links(connection, locked, seeds, caps, parent_url=None, depth=0)
        await unit_requests.register(
            connection, organization_id, requests_of(organization_id, task.id, (link.url for link in claims.links))
        )
        await crawl_tasks.count_claimed(
            connection,
            organization_id,
            task.id,
            len(claims.links),
            (*plan.incomplete_reasons, *claims.reasons),
            (*plan.notes, *claims.notes),
        )


async def _run(units: Units, task: CrawlTaskRow, plan: CrawlPlan, run: Run) -> None:
    """From here a count of 0 ends the crawl; seeds that were all finished meanwhile, or none at all, end it here."""
    async with units.database.organization(task.organization_id) as connection:
        pending = await crawl_tasks.run_if_pending(connection, task.organization_id, task.id, plan.crawl_delay_s)
        if pending == 0:
            await complete_crawl(connection, task.organization_id, task.id, run)


async def _fail(units: Units, task: CrawlTaskRow, reason: str) -> Outcome:
    async with units.database.organization(task.organization_id) as connection:
        await fail_crawl(connection, task.organization_id, task.id, reason)
    return Done(summary={"status": "blocked", "reason": reason})


async def fail_crawl(connection: Connection, organization_id: int, task_id: int, reason: str) -> None:
    """A crawl that never started ends as `failed` with what it claimed, and its source says why. One that runs goes on."""
    source_id = await crawl_tasks.fail_if_pending(connection, organization_id, task_id, reason)
    if source_id is not None:
        await sources.fail(connection, organization_id, source_id, reason)
        await source_runs.fail(connection, organization_id, source_id, reason)


async def _seeds(units: Units, task: CrawlTaskRow) -> Pages:
    after_id: int | None = 0
    while after_id is not None:
        async with units.database.organization(task.organization_id) as connection:
            page = await crawl_urls.seeds_after(connection, task.organization_id, task.id, after_id, PAGE)
        if page.urls:
            yield requests_of(task.organization_id, task.id, page.urls)
        after_id = page.last_id
