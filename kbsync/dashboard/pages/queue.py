"""`/queues/{queue}`: one queue: how it stands, its jobs of a state, why they failed, and what may be done (OP-05, QU-18).

The live stream reads everything anew once a second, but neither errors nor a filtered list: those stand still.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kbsync.dashboard.acting import ACTIONS_OF, DOING, queue_of
from kbsync.dashboard.ask import Access, Ask
from kbsync.dashboard.job_rows import names_of, progress_of, row_of
from kbsync.dashboard.job_words import KINDS
from kbsync.dashboard.look import ROWS, errors_of, page_of
from kbsync.dashboard.page import Page
from kbsync.dashboard.queue_filter import AGES, Shown, shown_of
from kbsync.dashboard.standing import Standing, limits_text, standing_of, verdict_of
from kbsync.domain.states import ENDED_JOB_STATES, JobState
from kbsync.library import bulk_actions
from kbsync.queue.fleet import unavailable_if_redis_fails
from kbsync.queue.queue import FleetQueue

TABS = (
    JobState.WAITING,
    JobState.DELAYED,
    JobState.ACTIVE,
    JobState.FAILED,
    JobState.COMPLETED,
    JobState.SKIPPED,
    JobState.CANCELLED,
)


async def _read(ask: Ask) -> Mapping[str, Any]:
    queue = queue_of(ask)
    streams = "text/event-stream" in ask.request.headers.get("Accept", "")
    standing = await standing_of(queue, ask.services.database)
    shown = shown_of(ask, queue.name, _worth_seeing(standing))
    context: dict[str, Any] = {
        "queue": queue.name,
        "standing": standing,
        "verdict": verdict_of(standing, ask.now),
        "limits_text": limits_text(standing.limits),
        "shown": shown,
        "title": _title(standing),
        "tabs": [(state, standing.counts.of(state)) for state in TABS],
        "kinds": KINDS,
        "ages": AGES,
        "doing": [DOING[action] for action in ACTIONS_OF[shown.state]],
        "errors": [],
        "errors_looked_at": 0,
        "bulk": [],
    }
    # A list that was filtered costs up to 10,000 looks: it is no part of what is read each second.
    is_still = streams and not shown.where.matches_all
    context |= await _rows(ask, queue, shown, is_still=is_still)
    if not streams:
        async with ask.services.database.fleet() as connection:
            context["bulk"] = await bulk_actions.latest(connection, queue.name, 3)
        if shown.state is JobState.FAILED and standing.counts.failed:
            async with unavailable_if_redis_fails(queue.name):
                context["errors"], context["errors_looked_at"] = await errors_of(queue)
    return context


async def _rows(ask: Ask, queue: FleetQueue, shown: Shown, *, is_still: bool) -> dict[str, Any]:
    if is_still:
        return {"rows": [], "older": None, "newer": None, "looked_at": 0, "first": 0}
    async with unavailable_if_redis_fails(queue.name):
        page = await page_of(queue, shown.state, shown.cursor, shown.where)
        progress = await progress_of(queue, page.jobs) if shown.state is JobState.ACTIVE else {}
    names = await names_of(ask, [view.tenant for view in page.jobs])
    at = shown.at if shown.cursor else 0
    return {
        "rows": [row_of(queue.name, view, names, progress) for view in page.jobs],
        "older": shown.path(cursor=page.cursor, at=at + len(page.jobs)) if page.cursor else None,
        "newer": _newer(shown, at),
        "looked_at": page.looked_at,
        "first": at,
    }


def _newer(shown: Shown, at: int) -> str | None:
    """A live state's ranks lead back a page; a stream leads back to its beginning."""
    if shown.cursor is None:
        return None
    rank = int(shown.cursor) - ROWS if shown.state not in ENDED_JOB_STATES and shown.where.matches_all else 0
    return shown.path(cursor=rank, at=max(0, at - ROWS)) if rank > 0 else shown.path()


def _worth_seeing(standing: Standing) -> JobState:
    """What is opened first: failures, else what runs, else the line."""
    counts = standing.counts
    if counts.failed:
        return JobState.FAILED
    return JobState.ACTIVE if counts.active and not counts.waiting else JobState.WAITING


def _title(standing: Standing) -> str:
    if standing.counts.paused:
        return f"{standing.name}: paused"
    if standing.counts.failed:
        return f"{standing.name}: {standing.counts.failed:,} failed"
    return standing.name


PAGES = (Page("/queues/{queue}", "queue.html", _read, Access.LOOK, live=("verdict", "figures", "tabs", "jobs")),)
