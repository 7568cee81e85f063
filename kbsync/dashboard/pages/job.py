"""`/queues/{queue}/job?id=`: what happened to a job and what helps, where the time went, its payload (OP-05)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kbsync.dashboard.acting import ACTIONS_OF, DOING, asked_id, job_path, key_of, queue_of
from kbsync.dashboard.ask import Access, Ask, NotHere
from kbsync.dashboard.job_life import PAYLOAD_BUDGET, attempts_of, bounded, payload_text, steps_of
from kbsync.dashboard.job_rows import cut, names_of, organization_id_of, read_progress
from kbsync.dashboard.job_words import kind_words, sentence_of
from kbsync.dashboard.page import Page
from kbsync.dashboard.standing import workers_of
from kbsync.domain.states import JobState
from kbsync.queue.fleet import unavailable_if_redis_fails
from kbsync.queue.operators import QueueOperator
from kbsync.queue.views import JobDetail

_GONE = (
    "There is no job of this id in {queue} (any more). Ended jobs are kept for a day, failed ones for 14 days, and "
    "fewer when there are very many; or somebody removed it; or it never was."
)
_TITLE_BUDGET = 300


async def _read(ask: Ask) -> Mapping[str, Any]:
    queue, job_id = queue_of(ask), asked_id(ask)
    async with unavailable_if_redis_fails(queue.name):
        detail = await queue.detail(job_id)
        paused = (await QueueOperator(queue).limits()).paused
        served = bool(await workers_of(queue))
    streams = "text/event-stream" in ask.request.headers.get("Accept", "")
    if detail is None and not streams:
        raise NotHere(_GONE.format(queue=queue.name))
    context: dict[str, Any] = {
        "queue": queue.name,
        "job_id": cut(job_id, 600),
        "key": key_of(job_id),
        "path": job_path(queue.name, job_id),
        "gone": _GONE.format(queue=queue.name),
        "detail": detail,
    }
    return context if detail is None else context | await _shown(ask, detail, paused=paused, served=served)


async def _shown(ask: Ask, detail: JobDetail, *, paused: bool, served: bool) -> dict[str, Any]:
    view = detail.view
    names = await names_of(ask, [view.tenant])
    organization_id = organization_id_of(view.tenant)
    payload, payload_cut, whole = _payload(ask, detail)
    result = None if detail.result is None or view.state is JobState.FAILED else payload_text(detail.result)
    title = kind_words(view.kind) if view.readable else "Unreadable job"
    return {
        "view": view,
        "title": cut(title, _TITLE_BUDGET),
        "sentence": cut(sentence_of(detail, ask.now, paused=paused, served=served), 4_000),
        "steps": steps_of(detail, ask.now),
        "attempts": attempts_of(detail),
        "progress": read_progress(detail.progress),
        "payload": payload,
        "payload_cut": payload_cut,
        "whole": whole,
        "request": detail.request if isinstance(detail.request, Mapping) else {},
        "result": None if result is None else cut(result, PAYLOAD_BUDGET),
        "follow_ups": _follow_ups(detail),
        "organization": names.get(organization_id) if organization_id is not None else None,
        "tenant": cut(view.tenant, _TITLE_BUDGET),
        "reason": cut(view.reason or "", 2_000),
        "doing": [DOING[action] for action in ACTIONS_OF[view.state]] if ask.may(Access.ACT) else [],
    }


def _payload(ask: Ask, detail: JobDetail) -> tuple[str | None, bool, bool]:
    """The text to show, whether it is cut, and whether it is the whole one, as an admin asked for it."""
    if detail.request is None:
        return None, False, False
    if ask.query("raw", 5) and ask.may(Access.ADMIN):
        return json.dumps(detail.request, ensure_ascii=True), False, True
    text, is_cut = bounded(payload_text(detail.request), PAYLOAD_BUDGET)
    return text, is_cut, False


def _follow_ups(detail: JobDetail) -> list[tuple[str, int]]:
    """The numbers of a result: what a unit found, wrote and asked for, by name."""
    if not isinstance(detail.result, Mapping) or detail.view.state is JobState.FAILED:
        return []
    numbers = [(str(name), value) for name, value in detail.result.items() if type(value) is int]
    return [(cut(name.replace("_", " ").capitalize(), 100), value) for name, value in numbers[:12]]


PAGES = (Page("/queues/{queue}/job", "job.html", _read, Access.LOOK, live=("head", "life", "attempts", "about")),)
