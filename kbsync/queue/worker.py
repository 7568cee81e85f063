"""The worker of one queue: claims in batches, runs a task a job, reports ends in batches (QU-05 to QU-12, QU-20 to QU-28).

        BLPOP wake 10 ; exchange(want)    armed: only while nothing more is ready; its slots stay reserved
                    |                                  timer: ms to the next due time, lease end or limiter window
                    v                                             |
    exchange lane 1 <--+                                          v
    exchange lane 2 <--+-- pump: finishes so far + want = min(free, half the concurrency) while more is ready
                    |           ^
                    v           | a job's end appends its finish and schedules the pump, once a loop turn
              a task per job ---+                    `Tender`: peek, beat, progress, health, owed ends, retention sweep

Nothing that a handler, a hook or Redis does ends the loop; only `request_stop` (or a signal) does.
"""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import signal
import socket
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import arq
import arq.worker
import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError

from kbsync.domain.errors import SettingsError
from kbsync.queue.connect import open_redis
from kbsync.queue.ends import (
    Finish,
    RetryPolicy,
    finish_cancelled,
    finish_of_error,
    finish_of_value,
    finish_put_back,
    finish_refused,
)
from kbsync.queue.exchange import Retention
from kbsync.queue.jobs import Abandoned, Handler, RunningJob
from kbsync.queue.keys import QueueKeys, id_text
from kbsync.queue.lanes import FIRST_PAUSE_S, LONGEST_PAUSE_S, Claimed, Lanes, LaneSettings
from kbsync.queue.running import Interrupt, Run
from kbsync.queue.tending import Tender

FLUSH_S = 5.0

log = structlog.get_logger("kbsync.queue")

OnError = Callable[[RunningJob, BaseException], None]


class FleetWorker(arq.Worker):
    """Runs the jobs of `queue_name` whose kind is in `handlers`; a job of another kind ends failed (payload_refused).

    `abandoned` is told, at least once and durably, of ends that no handler saw (QU-31). `on_error` hears of every failing
    attempt; whatever it raises is logged. A client given instead of a URL stays open."""

    def __init__(
        self,
        redis: str | Redis,
        queue_name: str,
        handlers: Mapping[str, Handler],
        *,
        concurrency: int,
        job_timeout_s: float,
        lease_s: float = 15,
        max_attempts: int = 3,
        max_stalls: int = 3,
        first_backoff_s: float = 60,
        backoff_jitter: float = 0.0,
        drain_s: float = 10,
        abandoned: Abandoned | None = None,
        on_error: OnError | None = None,
        version: str = "",
        host: str = "",
        retention: Retention | None = None,
        handle_signals: bool = False,
    ) -> None:
        if concurrency < 1 or job_timeout_s <= 0 or lease_s <= 0 or max_attempts < 1:
            raise SettingsError("concurrency, max_attempts, job_timeout_s and lease_s are positive")
        super().__init__(
            functions=[_known_to_arq(kind) for kind in handlers or ("none",)],
            queue_name=queue_name,
            max_jobs=concurrency,
            job_timeout=job_timeout_s,
            max_tries=max_attempts,
            handle_signals=False,  # arq's own handlers cancel without putting back
        )
        self.handlers = handlers
        self.keys = QueueKeys(queue_name)
        self.concurrency = concurrency
        self.timeout_s = job_timeout_s
        self.lease_s = lease_s
        self.lease_ms = int(lease_s * 1000)
        self.max_stalls = max_stalls
        self.policy = RetryPolicy(max_attempts, first_backoff_s, backoff_jitter)
        self.retention = retention or Retention()
        self.drain_s = drain_s
        self.abandoned = abandoned
        self.on_error = on_error
        self.version = version
        self.host = host or socket.gethostname()
        self.worker_id = f"{self.host}:{os.getpid()}:{secrets.token_hex(4)}"
        self.redis = open_redis(redis) if isinstance(redis, str) else redis
        self._closes_redis = isinstance(redis, str)
        self._wants_signals = handle_signals
        self.runs: dict[str, Run] = {}  # by start, oldest first
        self.stop_requests = 0
        self._timeout_timer: asyncio.TimerHandle | None = None
        self._timeouts_at = float("inf")
        self._stopping = asyncio.Event()
        self._now = asyncio.Event()
        self.tender = Tender(self)
        settings = LaneSettings(self.keys, concurrency, self.lease_ms, max_stalls, self.retention)
        self.lanes = Lanes(settings, self.runs.__len__, self._start, self.tender.count_stale)

    # Life

    async def run(self) -> None:  # type: ignore[override]  # arq's is a plain function that owns the loop
        """Works until `request_stop`, through every loss of Redis. Returns when all is put back or finished.

        Raises SettingsError when a stock arq worker runs on this queue."""
        self.loop = asyncio.get_running_loop()
        self.lanes.begin()
        if self._wants_signals:
            for number in (signal.SIGTERM, signal.SIGINT):
                self.loop.add_signal_handler(number, self.request_stop)
        serving = asyncio.create_task(self._stay_connected())
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                await serving  # refused to start
        except asyncio.CancelledError:  # whoever runs us is leaving: as after the second signal
            self.request_stop()
            self.request_stop()
            raise
        finally:
            await self._drain()
            for task in (serving, stopping):
                task.cancel()
            await asyncio.gather(serving, stopping, return_exceptions=True)
            await self._leave()

    async def async_run(self) -> None:
        await self.run()

    def request_stop(self) -> None:
        """First call: no new claims, a drain grace, then unfinished jobs go back untouched. Second: back at once."""
        self.stop_requests += 1
        self.lanes.accepting = False
        self._stopping.set()
        if self.stop_requests > 1:
            self._now.set()

    @property
    def stopping(self) -> bool:
        return self.stop_requests > 0

    async def _stay_connected(self) -> None:
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                await self.lanes.connect(self.redis.connection_pool)
                pause_s = FIRST_PAUSE_S
                assert self.lanes.link is not None
                assert self.lanes.armed_link is not None
                await self.tender.run(self.lanes.link, self.lanes.armed_link)
                log.warning("redis_lost", queue=self.queue_name)
            except (RedisError, OSError, TimeoutError) as error:
                log.warning("redis_unreachable", queue=self.queue_name, error=f"{type(error).__name__}: {error}")
            finally:
                self.lanes.disconnect()
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)

    # Jobs

    def _start(self, token: str, jobs: Iterable[Claimed]) -> None:
        if self.stopping:
            for raw_id, _, _ in jobs:
                self.lanes.finish(finish_put_back(id_text(raw_id), token))
            return
        runs = self.runs
        if not runs:
            self.tender.first_run_started()
        self.lanes.idle.clear()
        started_ms = self.lanes.redis_ms()
        deadline = self.loop.time() + self.timeout_s
        create_task, changed, most = self.loop.create_task, self.tender.progress_changed, self.policy.max_attempts
        for raw_id, payload, meta in jobs:
            job_id = id_text(raw_id)
            run = Run(job_id, token, payload or b"", meta, most, started_ms, changed)
            run.deadline = deadline
            if job_id in runs:  # a run that lost its lease and has not ended yet; the order is by start
                del runs[job_id]
            runs[job_id] = run
            run.task = create_task(self._perform(run))
        if deadline < self._timeouts_at:
            self._sweep_timeouts_at(deadline)

    async def _perform(self, run: Run) -> None:
        finish: Finish | None
        try:
            handler = self.handlers.get(run.kind)
            if run.refusal is not None or handler is None:
                finish = self._refuse(run)
            else:
                try:
                    finish = finish_of_value(run, await handler(run), self.lanes.redis_ms())
                except BaseException as error:  # SystemExit of a handler included: it ends the attempt, not the worker
                    finish = self._finish_of_raised(run, error)
        except BaseException as error:  # our own fault must not lose the job: its attempt fails
            log.exception("run_failed", queue=self.queue_name, job_id=run.job_id)
            finish = finish_of_error(run, error, self.lanes.redis_ms(), self.policy, random.random())
        held = self.runs.get(run.job_id) is run
        if held:
            del self.runs[run.job_id]
        if held and finish is not None and run.interrupt is not Interrupt.LEASE_LOST:
            self.lanes.finish(finish)
        else:
            self.lanes.kick()

    def _refuse(self, run: Run) -> Finish:
        refusal: Exception = run.refusal or LookupError(f"no handler for kind {run.kind!r} in queue {self.queue_name}")
        self._tell(run, refusal)
        return finish_refused(run, refusal, self.lanes.redis_ms())

    def _finish_of_raised(self, run: Run, error: BaseException) -> Finish | None:
        now_ms = self.lanes.redis_ms()
        match run.interrupt:
            case Interrupt.LEASE_LOST:
                return None
            case Interrupt.STOPPING:
                return finish_put_back(run.job_id, run.lease_token)
            case Interrupt.CANCELLED:
                return finish_cancelled(run, now_ms)
            case Interrupt.TIMED_OUT:
                error = TimeoutError(f"timed out after {self.timeout_s:g} s")
        self._tell(run, error)
        return finish_of_error(run, error, now_ms, self.policy, random.random())

    def _tell(self, run: Run, error: BaseException) -> None:
        if self.on_error is None:
            return
        try:
            self.on_error(run, error)
        except Exception:  # a reporter's fault is not the job's
            log.exception("on_error_failed", queue=self.queue_name, job_id=run.job_id)

    def _sweep_timeouts_at(self, at: float) -> None:
        if self._timeout_timer is not None:
            self._timeout_timer.cancel()
        self._timeouts_at = at
        self._timeout_timer = self.loop.call_at(at, self._sweep_timeouts)

    def _sweep_timeouts(self) -> None:
        """All jobs of a queue have one time-out, so the oldest run comes first: no timer a job."""
        now = self.loop.time()
        self._timeouts_at = float("inf")
        overdue = False
        for run in self.runs.values():
            if run.deadline > now:
                self._sweep_timeouts_at(min(run.deadline, now + 1.0) if overdue else run.deadline)
                return
            run.stop(Interrupt.TIMED_OUT, now)  # again each second for one that swallows it
            overdue = True
        if overdue:
            self._sweep_timeouts_at(now + 1.0)

    # Stop

    async def _drain(self) -> None:
        self.lanes.release_armed_claim()
        if self.runs:
            await self._wait_idle(self.drain_s, also=self._now)
        now = self.loop.time()
        for run in list(self.runs.values()):
            run.stop(Interrupt.STOPPING, now)
        await self._wait_idle(1.0)
        for run in list(self.runs.values()):  # it does not stop: its job goes back, its late end is refused
            self.lanes.finish(finish_put_back(run.job_id, run.lease_token))
            run.interrupt = Interrupt.LEASE_LOST
        self.runs.clear()
        deadline = self.loop.time() + FLUSH_S
        while self.lanes.unsettled and self.lanes.link is not None and self.loop.time() < deadline:
            self.lanes.release_armed_claim()  # again: a BLPOP that was still on its way could not be ended
            await self._wait_idle(0.05)

    async def _wait_idle(self, seconds: float, also: asyncio.Event | None = None) -> None:
        self.lanes.idle.clear()
        self.lanes.kick()
        waits = [asyncio.ensure_future(event.wait()) for event in (self.lanes.idle, also) if event is not None]
        await asyncio.wait(waits, timeout=seconds, return_when="FIRST_COMPLETED")
        for wait in waits:
            wait.cancel()

    async def _leave(self) -> None:
        self.lanes.stop_timers()
        if self._timeout_timer is not None:
            self._timeout_timer.cancel()
        await self.tender.forget_health()
        if self._closes_redis:
            await self.redis.connection_pool.disconnect()


def _known_to_arq(kind: str) -> arq.worker.Function:
    async def run_by_arq(ctx: dict[Any, Any]) -> None:
        raise RuntimeError("jobs of this queue are run by FleetWorker.run")

    return arq.worker.func(run_by_arq, name=kind)
