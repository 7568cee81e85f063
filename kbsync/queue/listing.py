"""Paged, bounded reading of one state of a queue (QU-18): no KEYS, no unbounded range."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

from redis.asyncio import Redis

from kbsync.domain.errors import PayloadRefused
from kbsync.domain.states import ENDED_JOB_STATES, JobState
from kbsync.queue.keys import QueueKeys, id_text, job_key, result_key
from kbsync.queue.records import LETTER_OF, JobRecord, decode_record
from kbsync.queue.views import HEAD_BYTES, JobFilter, JobView, Page, ended_view, live_view, unreadable_view

SCAN_LIMIT = 10_000  # of waiting, delayed or active jobs, for one filtered page
CHUNK = 200
PLACES = 10_000  # more than the jobs of one index entry
_HEAD = re.compile(rb'^\["([csxf])","(\d+-\d+)"')


@dataclass(frozen=True)
class Listing:
    redis: Redis
    keys: QueueKeys

    async def page(self, state: JobState, cursor: str | None, limit: int, where: JobFilter) -> Page:
        """Ended jobs newest first; waiting and delayed in the order of their turn; active by lease end."""
        if state in ENDED_JOB_STATES:
            return await self._ended_page(state, cursor, limit, where)
        return await self._live_page(state, int(cursor or 0), limit, where)

    async def _live_page(self, state: JobState, offset: int, limit: int, where: JobFilter) -> Page:
        jobs: list[JobView] = []
        looked = 0
        while looked < SCAN_LIMIT:
            size = min(CHUNK if not where.matches_all else limit - len(jobs), SCAN_LIMIT - looked)
            scored = await self._by_rank(state, offset + looked, size)
            views = await self.live_views(state, scored)
            for view in views:
                looked += 1
                if where.matches(view):
                    jobs.append(view)
                if len(jobs) == limit:
                    return Page(jobs, str(offset + looked), looked)
            if len(scored) < size:
                return Page(jobs, None, looked)
        return Page(jobs, str(offset + looked), looked)

    async def _by_rank(self, state: JobState, first: int, size: int) -> list[tuple[bytes, float]]:
        if state is JobState.ACTIVE:
            return list(await self.redis.zrange(self.keys.active, first, first + size - 1, withscores=True))
        waiting = int(await self.redis.zcount(self.keys.queue, "-inf", "(0"))
        if state is JobState.WAITING:
            size = min(size, waiting - first)
            if size <= 0:
                return []
        else:
            first += waiting
        found = await self.redis.zrange(self.keys.queue, first, first + size - 1, withscores=True)
        return [(job_id, score) for job_id, score in found if (score < 0) is (state is JobState.WAITING)]

    async def live_views(self, state: JobState, scored: list[tuple[bytes, float]]) -> list[JobView]:
        """Reads only the head of each payload. A job that left meanwhile is shown as unreadable."""
        if not scored:
            return []
        pipe = self.redis.pipeline(transaction=False)
        ids = [id_text(job_id) for job_id, _ in scored]
        for job_id in ids:
            pipe.getrange(job_key(job_id), 0, HEAD_BYTES - 1)
        pipe.hmget(self.keys.meta, ids)
        *heads, metas = await pipe.execute()
        return [
            live_view(job_id, state, score, await self._whole(job_id, head), meta)
            for job_id, (_, score), head, meta in zip(ids, scored, heads, metas, strict=True)
        ]

    async def _whole(self, job_id: str, head: bytes) -> bytes:
        """A payload that is not kbsync's array has its names anywhere: it is read as a whole."""
        if head[:1] != b"{" or len(head) < HEAD_BYTES:
            return head
        return await self.redis.get(job_key(job_id)) or b""

    async def _ended_page(self, state: JobState, cursor: str | None, limit: int, where: JobFilter) -> Page:
        jobs: list[JobView] = []
        looked = 0
        async for index_id, view, _ in self.ended(
            state, before=cursor, chunk=CHUNK if not where.matches_all else limit
        ):
            looked += 1
            if where.matches(view):
                jobs.append(view)
            if len(jobs) == limit:
                return Page(jobs, index_id, looked)
        return Page(jobs, None, looked)

    async def ended(
        self, state: JobState, *, before: str | None = None, chunk: int = CHUNK
    ) -> AsyncIterator[tuple[str, JobView, JobRecord | None]]:
        """Kept jobs with their places, newest first, from before a place. The record is None when it can't be read."""
        letter = LETTER_OF[state]
        at, upto = _entry_of(before) if before else ("", 0)
        newest, count = at or "+", 2
        while True:
            entries = await self.redis.xrevrange(self.keys.index(letter), max=newest, min="-", count=count)
            jobs = [
                (entry_id, place, job_id)
                for entry_id, fields in entries
                for place, job_id in reversed(list(enumerate(fields)))
                if entry_id.decode() != at or place < upto
            ]
            for first in range(0, len(jobs), chunk):
                part = jobs[first : first + chunk]
                records = await self.redis.mget([result_key(id_text(job_id)) for _, _, job_id in part])
                for (entry_id, place, job_id), data in zip(part, records, strict=True):
                    if data is not None and _is_of(data, letter, entry_id):
                        yield _place(entry_id, place), *_shown(id_text(job_id), state, data)
            if len(entries) < count:
                return
            newest, count = f"({entries[-1][0].decode()}", min(2 * count, chunk)

    async def scan_live(self, state: JobState) -> AsyncIterator[list[tuple[JobView, float]]]:
        """Every job that stays in this state meanwhile, at least once, in chunks and in no order."""
        key = self.keys.active if state is JobState.ACTIVE else self.keys.queue
        cursor = 0
        while True:
            cursor, scored = await self.redis.zscan(key, cursor, count=CHUNK)
            chosen = [
                pair for pair in scored if state is JobState.ACTIVE or (pair[1] < 0) is (state is JobState.WAITING)
            ]
            for part in _chunks(chosen):
                views = await self.live_views(state, part)
                yield [(view, score) for view, (_, score) in zip(views, part, strict=True)]
            if cursor == 0:
                return


def _place(entry_id: bytes, place: int) -> str:
    """Where a job stands in the index, as a cursor of an entry's own form: later ones are greater."""
    ms, number = entry_id.decode().split("-")
    return f"{ms}-{int(number) * PLACES + place}"


def _entry_of(cursor: str) -> tuple[str, int]:
    ms, number = cursor.split("-")
    return f"{ms}-{int(number) // PLACES}", int(number) % PLACES


def _is_of(data: bytes, letter: str, entry_id: bytes) -> bool:
    """False for the record of another end of that id: in another state, or a later one. What can't be read is shown."""
    found = _HEAD.match(data)
    return found is None or (found[1] == letter.encode() and _order(found[2]) <= _order(entry_id))


def _order(entry_id: bytes) -> tuple[int, ...]:
    return tuple(map(int, entry_id.split(b"-")))


def _shown(job_id: str, state: JobState, data: bytes) -> tuple[JobView, JobRecord | None]:
    try:
        record = decode_record(job_id, data)
    except PayloadRefused:
        return unreadable_view(job_id, state), None
    return ended_view(record), record


def _chunks(pairs: list[tuple[bytes, float]]) -> Iterable[list[tuple[bytes, float]]]:
    return (pairs[at : at + CHUNK] for at in range(0, len(pairs), CHUNK))
