"""What a worker does beside its jobs: look ahead, renew leases, report progress and health, hand on owed ends, sweep.

Every step is one script call; a failing step is logged and tried again at its next turn.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import structlog
from redis.exceptions import RedisError

from kbsync.domain.errors import PayloadRefused
from kbsync.queue import strictjson
from kbsync.queue.encoding import decode_request
from kbsync.queue.keys import id_bytes, id_text
from kbsync.queue.link import Link, NoScript, raise_if_error
from kbsync.queue.running import Interrupt, Run
from kbsync.queue.scripts import script

if TYPE_CHECKING:
    from kbsync.queue.worker import FleetWorker

HEALTH_EVERY_S = 5.0
HEALTH_KEPT_MS = 15_000
PROGRESS_EVERY_S = 0.4
SWEEP_EVERY_S = 60.0
OWED_AT_ONCE = 20
OWED_AGAIN_MS = 60_000
BEAT_AT_ONCE = 1_000

log = structlog.get_logger("kbsync.queue")


class Tender:
    def __init__(self, worker: FleetWorker) -> None:
        self.worker = worker
        self.stale_finishes = 0
        self.lost_leases = 0
        self._changed: dict[str, Run] = {}
        self._started_at = time.time()
        self._link: Link | None = None
        self._busy = asyncio.Event()
        self._owed_task: asyncio.Task[None] | None = None

    async def run(self, link: Link, armed: Link) -> None:
        """Until cancelled, or one of the links is gone."""
        self._link = link
        lease_s = self.worker.lease_s
        steps: list[tuple[float, Callable[[], Any]]] = [
            (lease_s / 3, self._beat),
            (HEALTH_EVERY_S, self._health),
            (PROGRESS_EVERY_S, self._progress),
            (SWEEP_EVERY_S, self._sweep),
        ]
        tasks = [asyncio.create_task(self._repeat(seconds, step)) for seconds, step in steps]
        tasks.append(asyncio.create_task(self._peek_often()))
        try:
            await asyncio.wait((link.closed, armed.closed), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            if self._owed_task is not None:
                tasks.append(self._owed_task)
                self._owed_task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _repeat(self, seconds: float, step: Callable[[], Any]) -> None:
        while True:
            await self._attempt(step)
            await asyncio.sleep(seconds)

    async def _peek_often(self) -> None:
        idle_s = min(2.0, self.worker.lease_s / 4)
        while True:
            await self._attempt(self._peek)
            if not self.worker.runs:
                self._busy.clear()
                try:
                    await asyncio.wait_for(self._busy.wait(), idle_s)
                except TimeoutError:
                    continue
            await asyncio.sleep(min(1.0, idle_s))  # a run asked to stop must hear of it within about a second

    async def _attempt(self, step: Callable[[], Any]) -> None:
        try:
            await step()
        except (RedisError, OSError) as error:
            log.warning("tending_failed", step=step.__name__, queue=self.worker.queue_name, error=str(error)[:300])

    async def _script(self, name: str, *arguments: Any) -> Any:
        assert self._link is not None
        keys, which = self.worker.keys.all, script(name)
        try:
            return raise_if_error(await self._link.call("EVALSHA", which.sha, len(keys), *keys, *arguments))
        except NoScript:
            return raise_if_error(await self._link.call("EVAL", which.text, len(keys), *keys, *arguments))

    # Steps

    async def _peek(self) -> None:
        worker = self.worker
        more, next_ms, owed, *stops = await self._script("peek")
        now = worker.loop.time()
        for at in range(0, len(stops), 2):
            run = worker.runs.get(id_text(stops[at]))
            if run is not None and run.lease_token.encode() == stops[at + 1] and run.interrupt is None:
                run.stop(Interrupt.CANCELLED, now)
        if more:
            worker.lanes.look()
        worker.lanes.look_in(next_ms)
        if owed and worker.abandoned is not None and (self._owed_task is None or self._owed_task.done()):
            self._owed_task = asyncio.create_task(self._attempt(self._pay_owed))

    async def _beat(self) -> None:
        worker = self.worker
        now = worker.loop.time()
        # One that does not stop after its time-out is given up: its lease runs out and the job runs elsewhere.
        held = [
            run for run in worker.runs.values() if not run.interrupted_at or now - run.interrupted_at < worker.lease_s
        ]
        for first in range(0, len(held), BEAT_AT_ONCE):
            pairs = [
                part for run in held[first : first + BEAT_AT_ONCE] for part in (id_bytes(run.job_id), run.lease_token)
            ]
            for lost in await self._script("beat", worker.lease_ms, *pairs):
                self._lose(id_text(lost), held)

    def _lose(self, job_id: str, held: list[Run]) -> None:
        run = self.worker.runs.get(job_id)
        if run is not None and run in held:
            self.lost_leases += 1
            log.warning("lease_lost", queue=self.worker.queue_name, job_id=job_id)
            run.stop(Interrupt.LEASE_LOST, self.worker.loop.time())

    def first_run_started(self) -> None:
        self._busy.set()

    def progress_changed(self, run: Run) -> None:
        self._changed[run.job_id] = run

    async def _progress(self) -> None:
        changed, self._changed = self._changed, {}
        arguments: list[Any] = []
        for run in changed.values():
            if self.worker.runs.get(run.job_id) is run:
                shown = {**(run.latest_progress or {}), "at": self.worker.lanes.redis_ms()}
                arguments += (id_bytes(run.job_id), run.lease_token, strictjson.dumps(shown))
        for first in range(0, len(arguments), 900):
            await self._script("progress", *arguments[first : first + 900])

    async def _health(self) -> None:
        assert self._link is not None
        worker = self.worker
        record = {
            "worker_id": worker.worker_id, "queue": worker.queue_name, "concurrency": worker.concurrency,
            "active": len(worker.runs), "version": worker.version, "host": worker.host, "started_at": self._started_at,
            "last_beat": worker.lanes.redis_ms() / 1000, "stopping": worker.stopping, "lost_leases": self.lost_leases,
            "stale_finishes": self.stale_finishes,
        }  # fmt: skip
        now = worker.lanes.redis_ms()
        replies = self._link.calls(
            [
                ("SET", worker.keys.worker(worker.worker_id), strictjson.dumps(record), "PX", HEALTH_KEPT_MS),
                ("ZADD", worker.keys.workers, now, worker.worker_id),
                ("ZREMRANGEBYSCORE", worker.keys.workers, "-inf", now - HEALTH_KEPT_MS),
            ],
            timeout_s=5,
        )
        for reply in await asyncio.gather(*replies):
            raise_if_error(reply)

    async def forget_health(self) -> None:
        worker = self.worker
        try:
            await worker.redis.delete(worker.keys.worker(worker.worker_id))
            await worker.redis.zrem(worker.keys.workers, worker.worker_id)
        except (RedisError, OSError):
            log.info("health_left_to_expire", queue=worker.queue_name)

    async def _sweep(self) -> None:
        for _ in range(1_000):
            if not await self._script("sweep", *self.worker.retention.arguments()):
                return

    async def _pay_owed(self) -> None:
        while entries := await self._script("owed_take", OWED_AT_ONCE, OWED_AGAIN_MS):
            for entry in entries:
                if not await self._pay(entry):
                    return  # it is offered again later

    async def _pay(self, entry: bytes) -> bool:
        """Tells `abandoned`, then acknowledges. False when it failed."""
        worker = self.worker
        assert worker.abandoned is not None
        assert self._link is not None
        job_id, reason, raw = read_owed(entry)
        try:
            stored = decode_request(raw)
            kind, payload = stored.kind, stored.payload
        except PayloadRefused:
            kind, payload = "", None
        try:
            await worker.abandoned(job_id, kind, payload, reason)
        except Exception:  # the ledger may be down: the entry is kept and offered again
            log.exception("abandoned_failed", queue=worker.queue_name, job_id=job_id, reason=reason)
            return False
        await self._link.call("ZREM", worker.keys.owing, entry)
        return True

    def count_stale(self, job_id: str) -> None:
        self.stale_finishes += 1
        log.warning("finish_refused", queue=self.worker.queue_name, job_id=job_id)


def read_owed(entry: bytes) -> tuple[str, str, bytes]:
    """Job id, reason and stored request of an entry of Q:owed (lua/lib_end.lua, `owe`)."""
    _, length, reason, rest = entry.split(b"|", 3)
    size = int(length)
    return id_text(rest[:size]), reason.decode(), rest[size:]
