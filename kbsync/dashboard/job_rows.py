"""Jobs as rows of a list: bounded in size, whatever the jobs hold (PF-07)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kbsync.dashboard.acting import job_path, key_of
from kbsync.dashboard.ask import Ask
from kbsync.dashboard.job_life import bounded
from kbsync.dashboard.job_words import kind_words, short_reason, why_of
from kbsync.dashboard.words import at_ms
from kbsync.domain.states import JobState
from kbsync.library import organizations
from kbsync.queue import strictjson
from kbsync.queue.queue import FleetQueue
from kbsync.queue.views import JobView

MAX_ID = 1_000  # longer ids are shown, but no address or form can carry them
_ID_BUDGET = 400
_TEXT_BUDGET = 900
_ORGANIZATION = re.compile(r"org-(\d{1,18})")


@dataclass(frozen=True)
class Row:
    """`key` and `path` are empty for an id that is too long for them. `progress` is (done, total or None, note)."""

    job_id: str
    key: str
    path: str
    title: str
    tenant: str
    organization: str | None
    organization_id: int | None
    priority: str
    why: str
    beneath: str
    attempts: int
    at: datetime | None
    took_s: float | None
    until: datetime | None
    progress: tuple[int, int | None, str] | None
    readable: bool


def organization_id_of(tenant: str) -> int | None:
    found = _ORGANIZATION.fullmatch(tenant)
    return int(found[1]) if found else None


async def names_of(ask: Ask, tenants: Sequence[str]) -> dict[int, str]:
    """The names of the organizations among these tenants: one look."""
    ids = sorted({found for tenant in tenants if (found := organization_id_of(tenant)) is not None})
    if not ids:
        return {}
    async with ask.services.database.fleet() as connection:
        return await organizations.names_of(connection, ids)


async def progress_of(queue: FleetQueue, views: Sequence[JobView]) -> dict[str, tuple[int, int | None, str]]:
    """What active jobs report, of those that report anything."""
    if not views:
        return {}
    pipe = queue.redis.pipeline(transaction=False)
    pipe.hmget(queue.keys.progress, [view.job_id for view in views])
    (found,) = await pipe.execute()
    read = {view.job_id: read_progress(data) for view, data in zip(views, found, strict=True) if data}
    return {job_id: shown for job_id, shown in read.items() if shown is not None}


def read_progress(data: bytes | Mapping[str, Any] | None) -> tuple[int, int | None, str] | None:
    """(done, total, note); None when there is none, or it is no progress."""
    try:
        value = strictjson.loads(data) if isinstance(data, bytes) else data
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, Mapping) or type(value.get("done")) is not int:
        return None
    total = value.get("total")
    return value["done"], total if type(total) is int and total > 0 else None, cut(value.get("note") or "")


def row_of(
    queue: str, view: JobView, names: Mapping[int, str], progress: Mapping[str, tuple[int, int | None, str]]
) -> Row:
    why, beneath = why_of(view) if view.state is JobState.FAILED else (short_reason(view.reason or ""), "")
    fits = len(view.job_id) <= MAX_ID
    organization_id = organization_id_of(view.tenant)
    moment = view.ended_ms or view.enqueued_ms
    took = (view.ended_ms - view.started_ms) / 1000 if view.ended_ms and view.started_ms else None
    return Row(
        job_id=cut(view.job_id, _ID_BUDGET),
        key=key_of(view.job_id) if fits else "",
        path=job_path(queue, view.job_id) if fits else "",
        title=cut(kind_words(view.kind)) if view.readable else "Unreadable job",
        tenant=cut(view.tenant[:100]),
        organization=names.get(organization_id) if organization_id is not None else None,
        organization_id=organization_id,
        priority=str(view.priority),
        why=cut(str(why)),
        beneath=beneath,
        attempts=view.attempts,
        at=at_ms(moment) if moment else None,
        took_s=took,
        until=at_ms(view.until_ms) if view.until_ms else None,
        progress=progress.get(view.job_id),
        readable=view.readable,
    )


def cut(text: object, budget: int = _TEXT_BUDGET) -> str:
    """`text` up to a size on the page; what was cut ends in three dots."""
    shown, is_cut = bounded(str(text), budget)
    return shown + "…" if is_cut else shown
