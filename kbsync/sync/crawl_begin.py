"""A source that is read by a crawl: its sync makes the crawl, whose end is the listing."""

from __future__ import annotations

from kbsync.domain.outcomes import Done, Outcome, RecordMissing
from kbsync.domain.requests import StartCrawl
from kbsync.library import crawl_tasks, unit_requests
from kbsync.library.sources import SourceRow
from kbsync.sync.context import Units


async def begin_crawl(units: Units, source: SourceRow) -> Outcome:
    """Before: the source is `syncing`. After: it has one live crawl (a live one is taken up again), which is asked for."""
    organization_id = source.organization_id
    async with units.database.organization(organization_id) as connection:
        found = await crawl_tasks.create_or_find_live(
            connection, organization_id, source.id, str(source.config.get("start_url", ""))
        )
        if found is None:
            return RecordMissing("source")
        task_id, is_new = found
        request = StartCrawl(organization_id=organization_id, crawl_task_id=task_id)
        await unit_requests.register(connection, organization_id, [request])
    return Done((request,), summary={"status": "crawling", "crawl_task_id": task_id, "resumed": not is_new})
