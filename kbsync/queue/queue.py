"""One queue as producers and readers see it (QU-02, QU-04, QU-18)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from redis.asyncio import Redis

from kbsync.domain.states import JobState
from kbsync.queue.encoding import PRIORITY_NUMBER, encode_request, tenant_key
from kbsync.queue.jobs import Enqueued, EnqueueOutcome, JobRequest
from kbsync.queue.keys import QueueKeys
from kbsync.queue.records import LETTER_OF
from kbsync.queue.scripts import Argument, run_scripts

MAX_GROUP = 250
MAX_GROUP_BYTES = 1024 * 1024
SPLIT_GROUP = 100  # of a batch over 250: a script of 100 stays under 2 ms

_OUTCOMES = {
    "c": EnqueueOutcome.CREATED,
    "q": EnqueueOutcome.ALREADY_QUEUED,
    "a": EnqueueOutcome.ALREADY_QUEUED,
    "r": EnqueueOutcome.REPLACED,
    "d": EnqueueOutcome.ALREADY_DONE,
}


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


class FleetQueue:
    """`redis` is shared and stays open; its errors come out as redis-py raises them."""

    def __init__(self, redis: Redis, name: str) -> None:
        self.redis = redis
        self.name = name
        self.keys = QueueKeys(name)

    async def enqueue(self, requests: Sequence[JobRequest]) -> list[Enqueued]:
        """Takes requests in, answers one outcome each, in order.

        Up to 250 requests and 1 MiB are all or nothing; more are split, in one round trip, and repeating is safe.
        Raises PayloadTooLarge or PayloadRefused before anything is written."""
        if not requests:
            return []
        now = int(time.time() * 1000)  # shown only; scores use Redis's clock
        encoded = [(request.job_id, encode_request(request, now), _options(request)) for request in requests]
        letters: list[str] = []
        for reply in await run_scripts(self.redis, "enqueue", self.keys.all, list(_groups(encoded))):
            assert isinstance(reply, bytes)
            letters.extend(reply.decode())
        return [
            Enqueued(request.job_id, _OUTCOMES[letter], rerun=letter == "a")
            for request, letter in zip(requests, letters, strict=True)
        ]

    async def counts(self) -> QueueCounts:
        pipe = self.redis.pipeline(transaction=True)
        pipe.zcount(self.name, "-inf", "(0")
        pipe.zcount(self.name, "0", "+inf")
        pipe.zcard(self.keys.active)
        for state in (JobState.COMPLETED, JobState.SKIPPED, JobState.CANCELLED, JobState.FAILED):
            pipe.xlen(self.keys.index(LETTER_OF[state]))
        pipe.hexists(self.keys.cfg, "paused")
        waiting, delayed, active, completed, skipped, cancelled, failed, paused = await pipe.execute()
        return QueueCounts(waiting, delayed, active, completed, skipped, cancelled, failed, bool(paused))


def _options(request: JobRequest) -> str:
    modes = ("-", "r") if request.replace_finished else ("k", "b")
    mode = modes[request.rerun_if_active]
    return f"{PRIORITY_NUMBER[request.priority]}|{request.delay_ms}|{mode}|{tenant_key(request.tenant)}"


def _groups(encoded: list[tuple[str, bytes, str]]) -> Iterator[list[Argument]]:
    size = sum(len(payload) for _, payload, _ in encoded)
    most = MAX_GROUP if len(encoded) <= MAX_GROUP and size <= MAX_GROUP_BYTES else SPLIT_GROUP
    group: list[Argument] = []
    used = 0
    for job_id, payload, options in encoded:
        if group and (len(group) >= 3 * most or used + len(payload) > MAX_GROUP_BYTES):
            yield group
            group, used = [], 0
        group += [job_id, payload, options]
        used += len(payload)
    yield group
