"""One queue as producers and readers see it (QU-02, QU-04, QU-18)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis

from kbsync.domain.states import JobState
from kbsync.queue import strictjson
from kbsync.queue.encoding import encode_request
from kbsync.queue.groups import enqueue_arguments
from kbsync.queue.jobs import Enqueued, EnqueueOutcome, JobRequest
from kbsync.queue.keys import QueueKeys, id_bytes
from kbsync.queue.listing import Listing
from kbsync.queue.scripts import run_script, run_scripts
from kbsync.queue.views import JobDetail, JobFilter, Page, ended_detail, live_detail, live_view

_OUTCOMES = {
    ord("c"): EnqueueOutcome.CREATED,
    ord("q"): EnqueueOutcome.ALREADY_QUEUED,
    ord("a"): EnqueueOutcome.ALREADY_QUEUED,
    ord("r"): EnqueueOutcome.REPLACED,
    ord("d"): EnqueueOutcome.ALREADY_DONE,
}
_AGAIN = ord("a")


@dataclass(frozen=True)
class QueueCounts:
    """Exact, each read in O(1) or O(log n)."""

    waiting: int
    delayed: int
    active: int
    completed: int
    skipped: int
    cancelled: int
    failed: int
    paused: bool

    def of(self, state: JobState) -> int:
        count: int = getattr(self, state.value)
        return count


@dataclass(frozen=True)
class MinuteRate:
    """One minute of a queue; `begins` in seconds since 1970, Redis's clock."""

    begins: int
    came_in: int
    ended: int
    failed: int
    delayed: int


class FleetQueue:
    """`redis` is shared and stays open; its errors come out as redis-py raises them."""

    def __init__(self, redis: Redis, name: str) -> None:
        self.redis = redis
        self.name = name
        self.keys = QueueKeys(name)
        self.listing = Listing(redis, self.keys)

    async def enqueue(self, requests: Sequence[JobRequest]) -> list[Enqueued]:
        """Takes requests in, answers one outcome each, in order.

        Up to 250 requests and 1 MiB are all or nothing; more are split, in one round trip, and repeating is safe.
        Raises PayloadTooLarge or PayloadRefused before anything is written."""
        if not requests:
            return []
        now = int(time.time() * 1000)  # shown only; scores use Redis's clock
        encoded = [encode_request(request, now) for request in requests]
        groups = list(enqueue_arguments(requests, encoded))
        letters = b"".join(await run_scripts(self.redis, "enqueue", self.keys.all, groups))
        return [
            Enqueued(request.job_id, _OUTCOMES[letter], letter == _AGAIN)
            for request, letter in zip(requests, letters, strict=True)
        ]

    async def counts(self) -> QueueCounts:
        waiting, delayed, active, completed, skipped, cancelled, failed, paused = await run_script(
            self.redis, "counts", self.keys.all, ()
        )
        return QueueCounts(waiting, delayed, active, completed, skipped, cancelled, failed, bool(paused))

    async def oldest_waiting_ms(self, heads: int = 50) -> int | None:
        """When the oldest waiting job came in (ms since 1970), as far as the first `heads` of each priority show."""
        found = await run_script(self.redis, "oldest", self.keys.all, [heads])
        return None if found < 0 else int(found)

    async def rates(self, minutes: int = 30) -> list[MinuteRate]:
        """How many jobs came in, ended, failed and were delayed in each of the last minutes, oldest first; the last one is
        the minute that runs. At most 60."""
        now_ms, *counts = await run_script(self.redis, "rates", self.keys.all, [minutes])
        first = now_ms // 60_000 - minutes + 1
        return [MinuteRate((first + at) * 60, *counts[4 * at : 4 * at + 4]) for at in range(minutes)]

    async def page(
        self, state: JobState, *, cursor: str | None = None, limit: int = 50, where: JobFilter | None = None
    ) -> Page:
        """One page of a state. Over ended jobs a filter is exact; over live ones a page looks at 10,000 jobs at most."""
        return await self.listing.page(state, cursor, limit, where or JobFilter())

    async def detail(self, job_id: str) -> JobDetail | None:
        """All that is known of a job, live or kept. None when there is none."""
        found = await run_script(self.redis, "detail", self.keys.all, [id_bytes(job_id)])
        raw, kept, token, place, lease, meta, progress, again, stop = found
        score, lease_ends = (None if number is None else float(number) for number in (place, lease))
        if score is None and lease_ends is None:
            return ended_detail(job_id, kept) if kept is not None else None
        state = JobState.ACTIVE if score is None else JobState.WAITING if score < 0 else JobState.DELAYED
        view = live_view(job_id, state, lease_ends or 0 if score is None else score, raw or b"", meta)
        return live_detail(view, raw or b"", meta, progress, token, rerun=again is not None, stop=stop is not None)

    async def workers(self) -> list[dict[str, Any]]:
        """Health records of workers that beat within the last 15 s (QU-28)."""
        ids = [worker_id.decode() for worker_id in await self.redis.zrange(self.keys.workers, 0, 999)]
        records = await self.redis.mget([self.keys.worker(worker_id) for worker_id in ids]) if ids else []
        return [record for data in records if data and isinstance(record := strictjson.loads(data), dict)]

    async def events(self, after: str = "-", limit: int = 100) -> list[tuple[str, dict[str, list[str]]]]:
        """Batches of events after an id, oldest first: entry id, {event: job ids} (QU-26).

        Of a large enqueued batch 20 ids are kept and a last word `+n` for the n others."""
        first = after if after == "-" else f"({after}"
        entries = await self.redis.xrange(self.keys.events, min=first, max="+", count=limit)
        return [
            (entry_id.decode(), {name.decode(): ids.decode("utf-8", "replace").split() for name, ids in fields.items()})
            for entry_id, fields in entries
        ]
