"""The end of a crawl: its last counted URL makes it a listing, complete or not, and the source is settled by it (LS-09)."""

from __future__ import annotations

from kbsync.db.pool import Connection
from kbsync.library import crawl_tasks, crawl_urls, source_runs, sources
from kbsync.sync.context import Run
from kbsync.sync.removal import settle_listing


async def complete_crawl(connection: Connection, organization_id: int, task_id: int, run: Run) -> bool:
    """Before: this transaction made `urls_pending` 0, or found it so. After: the crawl is `completed` and its source
    `synced` (`failed` when not even its start page was seen), by exactly one caller. Whether this was the one."""
    task = await crawl_tasks.complete(connection, organization_id, task_id)
    if task is None:
        return False
    source = await sources.lock(connection, organization_id, task.source_id)
    if source is None:
        return True
    reasons = list(task.incomplete_reasons)
    start = await crawl_urls.start_page(connection, organization_id, task_id)
    if not start.was_read:
        reasons.append("the start page could not be read")
    counts = await settle_listing(
        connection,
        source,
        run=task.id,
        began_at=task.started_at or run.started_at,
        incomplete="; ".join(reasons) or None,
        notes={"urls": task.urls_found},
    )
    if start.detail and not start.was_read and counts["documents"] == counts.get("kept_unseen"):
        # A login, a block, a wrong address: nothing of the site was seen, and what is kept is from before.
        words = f"The start page could not be read ({start.detail}). What was synced before is kept."
        await sources.fail_ended_run(connection, source, words)
        await source_runs.correct(connection, organization_id, source.id, words)
    return True
