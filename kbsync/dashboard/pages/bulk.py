"""Actions over everything that matches: first how many there are, then how far it is, then what came of it (QU-19)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from kbsync.dashboard.acting import ACTIONS_OF, DOING, job_path, queue_of, queue_path
from kbsync.dashboard.ask import Access, ActionRefused, Ask, Done, NotHere
from kbsync.dashboard.bulk import BulkRunner, start_cursor
from kbsync.dashboard.look import LOOK_MOST, Wanted, count_matching
from kbsync.dashboard.page import Action as Post
from kbsync.dashboard.page import Page
from kbsync.dashboard.queue_filter import shown_of, words_of
from kbsync.dashboard.words import percent
from kbsync.domain.states import JobState
from kbsync.library import audit, bulk_actions
from kbsync.library.bulk_actions import BulkAction, BulkAsk
from kbsync.queue.fleet import unavailable_if_redis_fails
from kbsync.queue.operators import Action

RUNNER: web.AppKey[BulkRunner] = web.AppKey("dashboard_bulk_runner", BulkRunner)


def allowed(do: str, state: JobState) -> Action | None:
    """The action, when it can be done to all jobs of a state."""
    if do == Action.DRAIN:
        return Action.DRAIN if state is JobState.WAITING else None
    return next((action for action in ACTIONS_OF[state] if action == do), None)


async def _confirm(ask: Ask) -> Mapping[str, Any]:
    """What will be done, to exactly how many: counted now, over what the filter matches."""
    queue = queue_of(ask)
    shown = shown_of(ask, queue.name, JobState.WAITING)
    action = allowed(ask.query("do", 20), shown.state)
    if action is None:
        raise NotHere("There is no such action for jobs of this state.")
    async with unavailable_if_redis_fails(queue.name):
        found = await count_matching(queue, shown.state, shown.where)
    return {
        "queue": queue.name,
        "shown": shown,
        "doing": DOING[action],
        "found": found,
        "look_most": LOOK_MOST,
        "matching": words_of(shown.where, ask.now),
    }


async def _ask_for(ask: Ask) -> Done:
    """Writes it down for the runner. Who asks for the same while it runs is led to the one that runs."""
    queue = queue_of(ask)
    form, back = ask.form, queue_path(queue.name)
    state = JobState(text) if (text := form.get("state", "")) in set(JobState) else None
    action = allowed(form.get("do", ""), state) if state else None
    if state is None or action is None:
        raise ActionRefused("There is no such action for jobs of this state. Nothing was done.", back)
    where = Wanted(
        form.get("kind", "")[:100] or None, form.get("tenant", "")[:100] or None, form.get("error", "")[:300] or None,
        _ms(form.get("after_ms", "")), _ms(form.get("before_ms", "")),
    )  # fmt: skip
    async with unavailable_if_redis_fails(queue.name):
        cursor = await start_cursor(queue, state)
    asked = BulkAsk(
        queue.name, action.value, state.value, ask.principal.name,
        kind=where.kind, tenant=where.tenant, error=where.error, after_ms=where.after_ms, before_ms=where.before_ms,
        expected=_ms(form.get("expected", "")) or 0, cursor=cursor,
    )  # fmt: skip
    async with ask.services.database.fleet() as connection:
        action_id, is_new = await bulk_actions.ask_for(connection, asked)
        if is_new:
            await audit.write(
                connection, actor=ask.principal.name, action=f"queue.{action}", target=f"queue:{queue.name}",
                detail={"asked": f"all {state} jobs{words_of(where, ask.now)}", "bulk_action": action_id},
            )  # fmt: skip
    ask.request.app[RUNNER].wake()
    return Done(
        "" if is_new else "The same is under way already: this is it.", f"/queues/{queue.name}/bulk/{action_id}"
    )


def _ms(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 15 else None


async def _read(ask: Ask) -> Mapping[str, Any]:
    queue = queue_of(ask)
    async with ask.services.database.fleet() as connection:
        found = await bulk_actions.find(connection, queue.name, ask.number("id"))
    if found is None:
        raise NotHere("There is no such action over many jobs.")
    asked = found.asked
    where = Wanted(asked.kind, asked.tenant, asked.error, asked.after_ms, asked.before_ms)
    doing = DOING[Action(asked.action)]
    return {
        "queue": queue.name,
        "bulk": found,
        "doing": doing,
        "matching": words_of(where, ask.now),
        "state_name": "failed" if found.fault else "completed" if found.finished_at else "active",
        "percent": 100 if found.finished_at else min(99, percent(found.tally.matched, max(asked.expected, 1))),
        "refused": sorted(found.tally.refused.items(), key=lambda pair: -pair[1]),
        "job_path": job_path,
        "verdict": _verdict(found, doing.past),
    }


def _verdict(bulk: BulkAction, past: str) -> str:
    tally = bulk.tally
    left = tally.matched - tally.done
    counts = f"{tally.done:,} of {tally.matched:,} {past}"
    if left:
        counts += f", {left:,} left alone for the reasons below"
    if bulk.fault:
        return f"It was stopped by a fault, after {counts}. {bulk.fault[:300]}"
    if bulk.finished_at:
        return f"It is done: {counts}." if tally.matched else "It is done: nothing matched any more."
    if not bulk.held:
        return f"It waits for a process to take it up, within about 15 s. So far {counts}."
    return f"It runs in batches, so that queues keep their pace. So far {counts}."


PAGES = (
    Page("/queues/{queue}/bulk", "bulk_confirm.html", _confirm, Access.ACT),
    Page("/queues/{queue}/bulk/{id}", "bulk.html", _read, Access.LOOK, live=("progress",)),
)
ACTIONS = (Post("/queues/{queue}/bulk", _ask_for, Access.ACT),)
