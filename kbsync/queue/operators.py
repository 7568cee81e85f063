"""What an operator may do to a queue (QU-13, QU-14, QU-19, QU-25, QU-29). Every action is safe to repeat."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from kbsync.domain.errors import PayloadRefused, SettingsError
from kbsync.domain.states import ENDED_JOB_STATES, JobState
from kbsync.queue import strictjson
from kbsync.queue.encoding import PRIORITY_NUMBER, tenant_key
from kbsync.queue.exchange import Retention
from kbsync.queue.keys import id_bytes, result_key
from kbsync.queue.queue import FleetQueue
from kbsync.queue.records import JobRecord, decode_record
from kbsync.queue.scripts import Argument, run_script
from kbsync.queue.views import JobFilter

BATCH = 100
EXAMPLES = 20


class Action(StrEnum):
    RETRY = "retry"  # a failed, skipped or cancelled job waits again, its counts at zero
    PROMOTE = "promote"
    REMOVE = "remove"
    CANCEL = "cancel"
    DRAIN = "drain"  # remove, said to `abandoned` as drained


# Per action: what each letter of its script means. None is "done".
_MEANING: dict[Action, dict[str, str | None]] = {
    Action.RETRY: {"c": None, "r": None, "q": "already waiting", "n": "changed meanwhile"},
    Action.PROMOTE: {"y": None, "w": "already waiting", "n": "not delayed"},
    Action.REMOVE: {"y": None, "e": None, "a": "active", "n": "not here"},
    Action.DRAIN: {"y": None, "e": None, "a": "active", "n": "not here"},
    Action.CANCEL: {"y": None, "a": None, "e": "ended already", "n": "not here"},
}


@dataclass
class Report:
    """What an action did. `refused` counts the reasons; `examples` holds some (job id, reason)."""

    action: Action
    matched: int = 0
    done: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    examples: list[tuple[str, str]] = field(default_factory=list)

    def add(self, job_id: str, refusal: str | None) -> None:
        self.matched += 1
        if refusal is None:
            self.done += 1
            return
        self.refused[refusal] += 1
        if len(self.examples) < EXAMPLES:
            self.examples.append((job_id, refusal))


@dataclass(frozen=True)
class QueueLimits:
    paused: bool
    max_active: int | None
    limit: int | None
    window_ms: int | None


# (action, queue, what it was asked, the report or None): called after the action.
Audit = Callable[[str, str, str, Report | None], Awaitable[None]]
Progress = Callable[[Report], Awaitable[None]]


class QueueOperator:
    """`audit` is called after each action that an operator asked for; it may raise, then so does the action."""

    def __init__(self, queue: FleetQueue, audit: Audit | None = None, retention: Retention | None = None) -> None:
        self.queue = queue
        self._audit = audit
        self._retention = retention or Retention()

    # The queue as a whole

    async def pause(self) -> bool:
        """Nothing is handed out until `resume`. False when it was paused already."""
        return await self._configure("paused", ("paused", "1"))

    async def resume(self) -> bool:
        return await self._configure("resumed", ("paused", ""))

    async def set_max_active(self, most: int | None) -> bool:
        """How many may be active fleet-wide; None lifts it. What runs already is left to end."""
        if most is not None and most < 1:
            raise SettingsError("max_active is at least 1; pause the queue to stop it")
        return await self._configure("configured", ("max_active", "" if most is None else str(most)))

    async def set_limiter(self, limit: int | None, window_ms: int = 60_000) -> bool:
        """At most `limit` claims a window, fleet-wide; None lifts it."""
        if limit is not None and (limit < 1 or window_ms < 1):
            raise SettingsError("a limiter has at least 1 claim a window of at least 1 ms")
        window = "" if limit is None else str(window_ms)
        return await self._configure("configured", ("limit", "" if limit is None else str(limit)), ("window", window))

    async def limits(self) -> QueueLimits:
        names = ["paused", "max_active", "limit", "window"]
        pipe = self.queue.redis.pipeline(transaction=False)
        pipe.hmget(self.queue.keys.cfg, names)
        ((paused, most, limit, window),) = await pipe.execute()
        numbers = [int(value) if value is not None else None for value in (most, limit, window)]
        return QueueLimits(paused is not None, *numbers)

    async def _configure(self, event: str, *fields: tuple[str, str]) -> bool:
        flat = [part for field in fields for part in field]
        changed = await run_script(self.queue.redis, "configure", self.queue.keys.all, [event, *flat])
        await self._note(event, " ".join(flat), None)
        return bool(changed == 1)

    # Jobs by id

    async def act(self, action: Action, job_ids: Sequence[str]) -> Report:
        """The action on these jobs; each is done or refused with a reason."""
        report = Report(action)
        for at in range(0, len(job_ids), BATCH):
            await self._act_on(report, list(job_ids[at : at + BATCH]))
        await self._note(action, f"{len(job_ids)} jobs: {' '.join(job_ids[:EXAMPLES])}", report)
        return report

    async def _act_on(self, report: Report, job_ids: list[str]) -> None:
        if report.action is Action.RETRY:
            records = await self.queue.redis.mget([result_key(job_id) for job_id in job_ids])
            pairs = [(job_id, _record(job_id, data)) for job_id, data in zip(job_ids, records, strict=True)]
            await self._retry(report, pairs)
            return
        head: list[Argument] = []
        if report.action is Action.CANCEL:
            head = list(self._retention.arguments())
        elif report.action is not Action.PROMOTE:
            head = ["drained" if report.action is Action.DRAIN else "removed"]
        name = "remove" if report.action is Action.DRAIN else report.action.value
        letters = await run_script(self.queue.redis, name, self.queue.keys.all, [*head, *map(id_bytes, job_ids)])
        self._count(report, job_ids, letters)

    async def _retry(self, report: Report, pairs: Sequence[tuple[str, JobRecord | None]]) -> None:
        arguments: list[Argument] = []
        ids: list[str] = []
        for job_id, record in pairs:
            if record is None:
                report.add(job_id, "no ended job that can be read")
            elif record.request is None:
                report.add(job_id, f"{record.state}: its request is not kept")
            else:
                ids.append(job_id)
                options = f"{PRIORITY_NUMBER[record.priority]}|0|f|{tenant_key(record.tenant)}|{record.index_id}"
                arguments += [options, 1, id_bytes(job_id), strictjson.dumps(record.request)]
        if ids:
            letters = await run_script(self.queue.redis, "enqueue", self.queue.keys.all, arguments)
            self._count(report, ids, letters)

    def _count(self, report: Report, job_ids: Sequence[str], letters: object) -> None:
        assert isinstance(letters, bytes)
        for job_id, letter in zip(job_ids, letters.decode(), strict=True):
            report.add(job_id, _MEANING[report.action][letter])

    # Everything that matches

    async def act_on_all(
        self, action: Action, state: JobState, where: JobFilter | None = None, progress: Progress | None = None
    ) -> Report:
        """The action on every job of `state` that matches, in batches; `progress` hears after each batch.

        Jobs that enter the state meanwhile are left alone."""
        report = Report(action)
        where = where or JobFilter()
        batches = (
            self._ended_batches(state, where) if state in ENDED_JOB_STATES else self._live_batches(report, state, where)
        )
        async for batch in batches:
            if action is Action.RETRY:
                await self._retry(report, batch)
            elif batch:
                await self._act_on(report, [job_id for job_id, _ in batch])
            if progress:
                await progress(report)
        await self._note(action, f"all {state} {where}", report)
        return report

    async def move_failed_to_waiting(self, where: JobFilter | None = None) -> Report:
        return await self.act_on_all(Action.RETRY, JobState.FAILED, where)

    async def drain(self, *, delayed: bool = False) -> list[Report]:
        """Removes every waiting job, and with `delayed` every delayed one; each is said to `abandoned`."""
        states = [JobState.WAITING, JobState.DELAYED] if delayed else [JobState.WAITING]
        return [await self.act_on_all(Action.DRAIN, state) for state in states]

    async def _ended_batches(
        self, state: JobState, where: JobFilter
    ) -> AsyncIterator[list[tuple[str, JobRecord | None]]]:
        batch: list[tuple[str, JobRecord | None]] = []
        async for _, view, record in self.queue.listing.ended(state):
            if where.matches(view):
                batch.append((view.job_id, record))
            if len(batch) == BATCH:
                yield batch
                batch = []
        if batch:
            yield batch

    async def _live_batches(
        self, report: Report, state: JobState, where: JobFilter
    ) -> AsyncIterator[list[tuple[str, JobRecord | None]]]:
        """Then, after a removal from waiting, sets the flows right behind what is left of them."""
        removes = report.action in (Action.REMOVE, Action.DRAIN, Action.CANCEL) and state is JobState.WAITING
        left: dict[str, float | None] = {}
        starts = await self._flow_starts() if removes else {}
        async for chunk in self.queue.listing.scan_live(state):
            batch: list[tuple[str, JobRecord | None]] = []
            for view, score in chunk:
                flow = f"{PRIORITY_NUMBER[view.priority]}{view.tenant}"
                if where.matches(view):
                    batch.append((view.job_id, None))
                    left.setdefault(flow, None)
                elif removes:
                    left[flow] = max(left.get(flow) or score, score)
            for at in range(0, len(batch), BATCH):
                yield batch[at : at + BATCH]
        if removes and report.done:
            await self._settle_flows(left, starts)

    async def _flow_starts(self) -> dict[str, float]:
        """Read before the scan: a flow that moved on since then was enqueued to, and must be left alone."""
        redis, tags = self.queue.redis, self.queue.keys.tags
        return {flow.decode("utf-8", "replace"): start async for flow, start in redis.zscan_iter(tags, count=500)}

    async def _settle_flows(self, left: dict[str, float | None], starts: dict[str, float]) -> None:
        arguments: list[Argument] = []
        for flow, last in left.items():
            for tag in (flow, flow + "\0r"):
                if tag in starts:
                    arguments += [tag, f"{starts[tag]:.17g}", "" if last is None else f"{last:.17g}"]
        for first in range(0, len(arguments), 3 * BATCH):
            part = arguments[first : first + 3 * BATCH]
            await run_script(self.queue.redis, "settle_tags", self.queue.keys.all, part)

    async def _note(self, action: str, asked: str, report: Report | None) -> None:
        if self._audit is not None:
            await self._audit(action, self.queue.name, asked, report)


def _record(job_id: str, data: bytes | None) -> JobRecord | None:
    try:
        return decode_record(job_id, data) if data else None
    except PayloadRefused:
        return None
