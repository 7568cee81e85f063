"""Runs bulk actions in the background: one at a time a process, each in batches, by whoever is alive (QU-19).

    asked -> held (heartbeat) -> finished           a holder that dies is followed by the next one, which goes on
                 ^        |
                 +--------+ let go: this process stops, or a server is away

Each batch is noted before it is acted on and counted after, in one statement with the next one's note: so matched is done
plus refused at any time, and nothing is counted twice or left out when a process dies in between.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from kbsync.dashboard.bulk_listing import WatchedListing
from kbsync.dashboard.look import Wanted
from kbsync.db.pool import Database
from kbsync.domain.errors import ServerUnavailable
from kbsync.domain.states import ENDED_JOB_STATES, JobState
from kbsync.library import audit, bulk_actions
from kbsync.library.bulk_actions import BulkAction, Tally
from kbsync.queue.fleet import Fleet, unavailable_if_redis_fails
from kbsync.queue.keys import id_bytes, id_text
from kbsync.queue.operators import EXAMPLES, Action, QueueOperator, Report
from kbsync.queue.queue import FleetQueue
from kbsync.queue.views import JobView
from kbsync.telemetry import log

LOOK_EVERY_S = 1.0
STOP_S = 5.0


class _HandedOn(Exception):
    """This process stops, or another one holds the action: not one job more."""


@dataclass
class _Counts:
    """What is settled: before this holder, and what this holder refused without asking the queue."""

    matched: int = 0
    done: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    examples: list[tuple[str, str]] = field(default_factory=list)

    @classmethod
    def of(cls, tally: Tally) -> _Counts:
        return cls(tally.matched, tally.done, Counter(tally.refused), list(tally.examples))

    def refuse(self, job_id: str, why: str) -> None:
        self.matched += 1
        self.refused[why] += 1
        self.examples.append((job_id, why))

    def with_report(self, report: Report | None) -> Tally:
        if report is None:
            return Tally(self.matched, self.done, dict(self.refused), self.examples[:EXAMPLES])
        return Tally(
            self.matched + report.matched,
            self.done + report.done,
            dict(self.refused + report.refused),
            [*self.examples, *report.examples][:EXAMPLES],
        )


class BulkRunner:
    """Runs until closed. `wake` after asking for an action spares its asker a second."""

    def __init__(self, database: Database, fleet: Fleet) -> None:
        self.database = database
        self.fleet = fleet
        self.stopping = False
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    def wake(self) -> None:
        self._woken.set()

    async def close(self) -> None:
        """Lets the batch that runs end, notes it, and lets go."""
        self.stopping = True
        self.wake()
        if self._task is not None:
            with suppress(asyncio.CancelledError, TimeoutError):
                await asyncio.wait_for(self._task, STOP_S)

    async def _run(self) -> None:
        while not self.stopping:
            try:
                if await self.run_next():
                    continue
            except ServerUnavailable as error:
                log.warning("bulk_action_waits", error=str(error))
            except Exception:  # the database refuses: nothing else may stop for it
                log.exception("bulk_actions_fault")
            self._woken.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), LOOK_EVERY_S)

    async def run_next(self) -> bool:
        """Takes up the next action that nobody runs. False when there is none."""
        holder = secrets.token_hex(8)
        async with self.database.fleet() as connection:
            action = await bulk_actions.take_next(connection, holder)
        if action is None:
            return False
        held = _Held(self, action, holder)
        beat = asyncio.create_task(held.keep())
        try:
            await held.run()
        except _HandedOn:
            await held.let_go()
        except ServerUnavailable:
            await held.let_go()
            raise
        except Exception as error:  # this action can't be run; the next one may
            log.exception("bulk_action_fault", action_id=action.id)
            await held.finish(f"{type(error).__name__}: {error}")
        finally:
            beat.cancel()
        return True


class _Held:
    """One action while this process holds it."""

    def __init__(self, runner: BulkRunner, action: BulkAction, holder: str) -> None:
        self.runner = runner
        self.action = action
        self.asked = action.asked
        self.holder = holder
        self.counts = _Counts.of(action.tally)
        self.report: Report | None = None
        self.cursor = action.asked.cursor
        self.lost = False

    async def run(self) -> None:
        async with unavailable_if_redis_fails(self.asked.queue):
            queue = self.runner.fleet.queue(self.asked.queue)
            state, action = JobState(self.asked.state), Action(self.asked.action)
            where = Wanted(
                self.asked.kind, self.asked.tenant, self.asked.error, self.asked.after_ms, self.asked.before_ms
            )
            await self._settle(queue, state)
            watched = FleetQueue(queue.redis, queue.name)
            watched.listing = WatchedListing(
                queue.redis, queue.keys, note=self._note, refuse=self.counts.refuse, where=where, action=action,
                cursor=self.cursor, goes_on=self.action.tally.matched > 0 or bool(self.action.in_hand),
            )  # fmt: skip
            self.report = await QueueOperator(watched).act_on_all(action, state, where, self._heard)
        await self.finish()

    async def _settle(self, queue: FleetQueue, state: JobState) -> None:
        """The jobs that a dead holder was about to act on: what left its state since then is done."""
        for entry in self.action.in_hand:
            ended, _, raw = entry.partition(b":")
            found = await queue.detail(id_text(raw))
            view = found.view if found else None
            untouched = view is not None and view.state is state and str(view.ended_ms or 0).encode() == ended
            if not untouched or (state is JobState.ACTIVE and found is not None and found.stop_asked):
                self.counts.matched += 1
                self.counts.done += 1
        if self.action.in_hand and not await self._write(self.cursor, ()):
            raise _HandedOn

    async def _heard(self, report: Report) -> None:
        self.report = report
        await asyncio.sleep(0)

    async def _note(self, next_jobs: Sequence[JobView], cursor: str | None) -> None:
        """Everything up to `cursor` is counted; `next_jobs` come next, unless this process may not go on."""
        self.cursor = cursor
        stops = self.runner.stopping or self.lost
        in_hand = () if stops else [b"%d:%s" % (view.ended_ms or 0, id_bytes(view.job_id)) for view in next_jobs]
        if not await self._write(cursor, in_hand) or stops:
            raise _HandedOn

    async def _write(self, cursor: str | None, in_hand: Sequence[bytes]) -> bool:
        tally = self.counts.with_report(self.report)
        async with self.runner.database.fleet() as connection:
            return await bulk_actions.note_progress(
                connection, self.action.id, self.holder, tally, cursor, in_hand
            )  # fmt: skip

    async def keep(self) -> None:
        """The heartbeat."""
        while not self.lost:
            await asyncio.sleep(bulk_actions.HELD_S / 4)
            with suppress(ServerUnavailable):
                async with self.runner.database.fleet() as connection:
                    self.lost = not await bulk_actions.hold_on(connection, self.action.id, self.holder)

    async def let_go(self) -> None:
        with suppress(ServerUnavailable):
            async with self.runner.database.fleet() as connection:
                await bulk_actions.let_go(connection, self.action.id, self.holder)

    async def finish(self, fault: str | None = None) -> None:
        tally = self.counts.with_report(self.report)
        async with self.runner.database.fleet() as connection:
            if not await bulk_actions.finish(connection, self.action.id, self.holder, tally, fault):
                return
            await audit.write(
                connection,
                actor=self.asked.actor,
                action=f"queue.{self.asked.action}_ended",
                target=f"queue:{self.asked.queue}",
                detail={
                    "bulk_action": self.action.id, "matched": tally.matched, "done": tally.done,
                    "refused": dict(tally.refused),
                },
            )  # fmt: skip


async def start_cursor(queue: FleetQueue, state: JobState) -> str | None:
    """A place right behind the newest ended job of now: what ends later is left alone. None for live states."""
    if state not in ENDED_JOB_STATES:
        return None
    async for index_id, _, _ in queue.listing.ended(state, chunk=1):
        ms, number = index_id.split("-")
        return f"{ms}-{int(number) + 1}"
    return None
