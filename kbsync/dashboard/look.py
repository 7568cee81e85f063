"""Looking into a queue at bounded cost: one page of a state, how many match, which errors there are (QU-18, PF-07).

An unfiltered page reads its own rows. A filtered one looks at LOOK_MOST jobs at most and says how far it looked; its cursor
looks on from there.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from kbsync.dashboard.job_words import short_type
from kbsync.domain.states import ENDED_JOB_STATES, JobState
from kbsync.queue.listing import CHUNK
from kbsync.queue.queue import FleetQueue
from kbsync.queue.views import JobFilter, JobView, Page

ROWS = 40
LOOK_MOST = 10_000
ERRORS_LOOKED_AT = 300
_ERRORS_AT_ONCE = 50  # a failed job's record may hold a payload of 256 KiB


@dataclass(frozen=True)
class Wanted(JobFilter):
    """A filter that knows ages as well: of when a job ended, or came in when it has not ended."""

    after_ms: int | None = None
    before_ms: int | None = None

    @property
    def matches_all(self) -> bool:
        return super().matches_all and not (self.after_ms or self.before_ms)

    def matches(self, job: JobView) -> bool:
        moment = job.enqueued_ms if job.ended_ms is None else job.ended_ms
        if self.after_ms is not None and moment < self.after_ms:
            return False
        if self.before_ms is not None and moment >= self.before_ms:
            return False
        return super().matches(job)


async def page_of(queue: FleetQueue, state: JobState, cursor: str | None, where: Wanted, rows: int = ROWS) -> Page:
    """One page. `cursor` is what `is_cursor` accepts; the page's own continues, None at the end."""
    if state not in ENDED_JOB_STATES:
        return await queue.page(state, cursor=cursor, limit=rows, where=where)
    jobs: list[JobView] = []
    at, looked = cursor, 0
    chunk = rows + 1 if where.matches_all else CHUNK
    async for index_id, view, _ in queue.listing.ended(state, before=cursor, chunk=chunk):
        if len(jobs) == rows or looked == LOOK_MOST:
            return Page(jobs, at, looked)
        if where.after_ms is not None and view.ended_ms is not None and view.ended_ms < where.after_ms:
            break  # newest first: all the others are older still
        looked += 1
        at = index_id
        if where.matches(view):
            jobs.append(view)
    return Page(jobs, None, looked)


def is_cursor(state: JobState, cursor: str) -> bool:
    """Whether a page of `state` can have given `cursor`: a rank of live jobs, a stream's id of ended ones."""
    parts = cursor.split("-") if state in ENDED_JOB_STATES else [cursor]
    wanted = 2 if state in ENDED_JOB_STATES else 1
    return len(parts) == wanted and all(part.isascii() and part.isdigit() and len(part) <= 15 for part in parts)


@dataclass(frozen=True)
class Matching:
    """How many match. Not `whole`: of the first `looked_at`."""

    many: int
    looked_at: int
    whole: bool


async def count_matching(queue: FleetQueue, state: JobState, where: Wanted) -> Matching:
    """Exact, but over live jobs a filter looks at LOOK_MOST of them."""
    if where.matches_all:
        many = (await queue.counts()).of(state)
        return Matching(many, many, True)
    if state not in ENDED_JOB_STATES:
        page = await queue.page(state, limit=LOOK_MOST, where=where)
        return Matching(len(page.jobs), page.looked_at, page.cursor is None)
    many = looked = 0
    async for _, view, _ in queue.listing.ended(state):
        if where.after_ms is not None and view.ended_ms is not None and view.ended_ms < where.after_ms:
            break
        looked += 1
        many += where.matches(view)
    return Matching(many, looked, True)


@dataclass(frozen=True)
class ErrorGroup:
    """Failed jobs with one error. `search` finds them, as it is part of each one's error; empty when none can be read."""

    label: str
    search: str
    many: int


async def errors_of(queue: FleetQueue) -> tuple[list[ErrorGroup], int]:
    """The most frequent errors of the newest failed jobs, and how many were looked at."""
    found: Counter[str] = Counter()
    labels: dict[str, str] = {}
    looked = 0
    async for _, view, _ in queue.listing.ended(JobState.FAILED, chunk=_ERRORS_AT_ONCE):
        looked += 1
        search, label = _error_of(view)
        found[search] += 1
        labels.setdefault(search, label)
        if looked == ERRORS_LOOKED_AT:
            break
    return [ErrorGroup(labels[search], search, many) for search, many in found.most_common(6)], looked


def _error_of(view: JobView) -> tuple[str, str]:
    """Type and message up to its first number, so that ids in messages don't part what is one error; and what is shown."""
    if not view.error:
        return "", "can’t be read"
    name = str(view.error.get("type") or "")[:100]
    line = str(view.error.get("message") or "").split("\n", 1)[0][:80]
    digit = next((at for at, character in enumerate(line) if character.isdigit() and at > 12), len(line))
    return f"{name}: {line[:digit]}".strip(), line.strip() or short_type(name)
