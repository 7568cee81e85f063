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
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import arq
import arq.worker
import structlog
from arq.constants import health_check_key_suffix
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
from kbsync.queue.exchange import Exchanged, Retention, exchange_arguments, read_exchange
from kbsync.queue.jobs import Abandoned, Handler, RunningJob
from kbsync.queue.keys import QueueKeys
from kbsync.queue.link import Link, MustReconnect, NoScript, Reply, raise_if_error
from kbsync.queue.running import Interrupt, Run
from kbsync.queue.scripts import script
from kbsync.queue.tending import Tender

LANES = 2
MAX_FINISHES = 100  # an exchange stays under 2 ms
MAX_FINISH_BYTES = 1024 * 1024
ARMED_S = 10
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 2.0
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
        self._cap = max(1, -(-concurrency // 2))
        self._token_head = secrets.token_hex(8)
        self._token_number = 0
        self._exchange = script("exchange")

        self.runs: dict[str, Run] = {}  # by start, oldest first
        self.stop_requests = 0
        self.link: Link | None = None
        self._armed_link: Link | None = None
        self._ended: list[Finish] = []
        self._in_flight = 0
        self._reserved = 0
        self._armed = False
        self._more = False
        self._pump_scheduled = False
        self._held_until = 0.0
        self._pause_s = FIRST_PAUSE_S
        self._unsure: list[str] = []  # tokens of exchanges whose answer was lost
        self._clock_offset_ms = 0.0
        self._look_timer: asyncio.TimerHandle | None = None
        self._timeout_timer: asyncio.TimerHandle | None = None
        self._timeouts_at = float("inf")
        self._stopping = asyncio.Event()
        self._now = asyncio.Event()
        self._idle = asyncio.Event()
        self.tender = Tender(self)

    # Life

    async def run(self) -> None:  # type: ignore[override]  # arq's is a plain function that owns the loop
        """Works until `request_stop`, through every loss of Redis. Returns when all is put back or finished.

        Raises SettingsError when a stock arq worker runs on this queue."""
        self.loop = asyncio.get_running_loop()
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
        self._stopping.set()
        if self.stop_requests > 1:
            self._now.set()

    @property
    def stopping(self) -> bool:
        return self.stop_requests > 0

    def redis_ms(self) -> int:
        """Redis's clock, as far as the last answer tells."""
        return int(time.time() * 1000 + self._clock_offset_ms)

    async def _stay_connected(self) -> None:
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                await self._connect()
                pause_s = FIRST_PAUSE_S
                assert self.link is not None
                assert self._armed_link is not None
                self._kick()
                await self.tender.run(self.link, self._armed_link)
                log.warning("redis_lost", queue=self.queue_name)
            except (RedisError, OSError, TimeoutError) as error:
                log.warning("redis_unreachable", queue=self.queue_name, error=f"{type(error).__name__}: {error}")
            finally:
                self._disconnect()
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)

    async def _connect(self) -> None:
        self.link = await Link.open(self.redis.connection_pool)
        self._armed_link = await Link.open(self.redis.connection_pool)
        self._client_id = raise_if_error(await self._armed_link.call("CLIENT", "ID"))
        if raise_if_error(await self.link.call("EXISTS", self.queue_name + health_check_key_suffix)):
            raise SettingsError(
                f"a stock arq worker runs on queue {self.queue_name} (or did within the hour): it takes jobs unfenced. "
                f"Stop it and delete the key {self.queue_name}{health_check_key_suffix}"
            )
        for name in ("exchange", "peek", "beat"):
            raise_if_error(await self.link.call("SCRIPT", "LOAD", script(name).text))
        if self._unsure:
            await self._recover()
        self._more = True
        self._held_until = 0.0

    def _disconnect(self) -> None:
        for link in (self.link, self._armed_link):
            if link is not None:
                link.abort()
        self.link = self._armed_link = None

    async def _recover(self) -> None:
        assert self.link is not None
        tokens, self._unsure = self._unsure, []
        text = script("recover").text
        try:
            call = self.link.call("EVAL", text, len(self.keys.all), *self.keys.all, self.lease_ms, *tokens)
            reply = raise_if_error(await call)
        except (RedisError, OSError):
            self._unsure = tokens
            raise
        for at in range(0, len(reply), 4):
            self._start(reply[at].decode(), reply[at + 1].decode(), reply[at + 2], reply[at + 3])

    # Pump

    def _kick(self) -> None:
        if not self._pump_scheduled:
            self._pump_scheduled = True
            self.loop.call_soon(self._pump)

    def _pump(self) -> None:
        self._pump_scheduled = False
        if self.link is None or self.link.closed.done() or self.loop.time() < self._held_until:
            return
        while self._in_flight < LANES:
            free = self.concurrency - len(self.runs) - self._reserved
            want = min(free, self._cap) if self._more and not self.stopping and free > 0 else 0
            if not self._ended and not want:
                break
            self._send_exchange(self._take_finishes(), want)
        if not self._armed and not self._more and not self.stopping and not self._in_flight:
            self._arm()
        if not self.runs and not self._ended and not self._in_flight:
            self._idle.set()

    def _take_finishes(self) -> list[Finish]:
        count, size = 0, 0
        for finish in self._ended[:MAX_FINISHES]:
            size += len(finish.value)
            if count and size > MAX_FINISH_BYTES:
                break
            count += 1
        finishes = self._ended[:count]
        del self._ended[:count]
        return finishes

    def _command(self, token: str, want: int, finishes: Sequence[Finish], *, whole: bool = False) -> tuple[Any, ...]:
        head = ("EVAL", self._exchange.text) if whole else ("EVALSHA", self._exchange.sha)
        arguments = exchange_arguments(token, self.lease_ms, want, finishes, self.max_stalls, self.retention)
        return (*head, len(self.keys.all), *self.keys.all, *arguments)

    def _next_token(self) -> str:
        self._token_number += 1
        return f"{self._token_head}{self._token_number:x}"

    def _send_exchange(self, finishes: list[Finish], want: int, *, whole: bool = False) -> None:
        if self.link is None:
            self._ended[:0] = finishes
            return
        token = self._next_token()
        self._in_flight += 1
        self._reserved += want
        future = self.link.call(*self._command(token, want, finishes, whole=whole))
        future.add_done_callback(lambda done: self._exchanged(done, token, finishes, want))

    def _exchanged(self, done: asyncio.Future[Reply], token: str, finishes: list[Finish], want: int) -> None:
        self._in_flight -= 1
        self._reserved -= want
        try:
            reply = raise_if_error(done.result())
        except NoScript:
            self._send_exchange(finishes, want, whole=True)
            return
        except (RedisError, OSError) as error:
            self._ended[:0] = finishes
            self._hold(error, token if want else None)
            return
        self._pause_s = FIRST_PAUSE_S
        answer = read_exchange(reply)
        for at in answer.stale:
            self.tender.count_stale(finishes[at].job_id)
        self._take_in(answer, token, asked=want > 0)

    def _take_in(self, answer: Exchanged, token: str, *, asked: bool) -> None:
        self._clock_offset_ms = answer.now_ms - time.time() * 1000
        claimed = answer.claimed
        for at in range(0, len(claimed), 3):
            self._start(claimed[at].decode("utf-8", "surrogateescape"), token, claimed[at + 1], claimed[at + 2])
        if asked or answer.more:
            self._more = answer.more
        self.look_in(answer.next_ms)
        self._kick()

    def _hold(self, error: BaseException, unsure: str | None) -> None:
        """An exchange failed: wait, then pump again. What it finished is told again; a second telling is refused."""
        if unsure is not None and isinstance(error, OSError):
            self._unsure.append(unsure)
        self._more = True
        log.warning("exchange_failed", queue=self.queue_name, error=f"{type(error).__name__}: {error}"[:300])
        if isinstance(error, MustReconnect) and self.link is not None:
            self.link.abort()
        self._held_until = self.loop.time() + self._pause_s
        self.loop.call_later(self._pause_s + 0.001, self._kick)
        self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)

    # Armed claim

    def _arm(self) -> None:
        free = self.concurrency - len(self.runs) - self._reserved
        want = min(free, self._cap)
        if want < 1 or self._armed_link is None or self._armed_link.closed.done():
            return
        token = self._next_token()
        self._armed = True
        self._reserved += want
        commands: list[tuple[Any, ...]] = [("BLPOP", self.keys.wake, ARMED_S), self._command(token, want, ())]
        _, claim = self._armed_link.calls(commands, timeout_s=ARMED_S + 5)
        claim.add_done_callback(lambda done: self._armed_answered(done, token, want))

    def _armed_answered(self, done: asyncio.Future[Reply], token: str, want: int) -> None:
        self._armed = False
        self._reserved -= want
        try:
            reply = raise_if_error(done.result())
        except NoScript:  # the BLPOP has eaten the token: claim at once
            self._more = True
            if self.link is not None and not self.link.closed.done() and not self.stopping:
                self._send_exchange([], want, whole=True)
            return
        except (RedisError, OSError) as error:
            self._hold(error, token)
            return
        self._take_in(read_exchange(reply), token, asked=True)

    def look_in(self, ms: int) -> None:
        """Looks at the queue again after `ms` (Redis's relative time); an earlier look stays."""
        if ms < 0:
            return
        at = self.loop.time() + max(ms, 1) / 1000 + 0.0005
        if self._look_timer is not None and not self._look_timer.cancelled():
            if self._look_timer.when() <= at:
                return
            self._look_timer.cancel()
        self._look_timer = self.loop.call_at(at, self._look)

    def _look(self) -> None:
        self._look_timer = None
        self.look()

    def look(self) -> None:
        """Reclaims and promotes what is due now; what becomes ready is claimed here or wakes an idle worker."""
        if self.link is None or self.link.closed.done() or self.loop.time() < self._held_until:
            return
        free = self.concurrency - len(self.runs) - self._reserved
        if free > 0 and not self.stopping:
            self._more = True
            self._kick()
        elif self._in_flight < LANES:
            self._send_exchange(self._take_finishes(), 0)

    # Jobs

    def _start(self, job_id: str, token: str, payload: bytes, meta: bytes) -> None:
        if self.stopping:
            self._ended.append(finish_put_back(job_id, token))
            return
        run = Run(job_id, token, payload, meta, self.policy.max_attempts, self.redis_ms(), self.tender.progress_changed)
        self._idle.clear()
        self.runs[job_id] = run
        run.deadline = self.loop.time() + self.timeout_s
        if run.deadline < self._timeouts_at:
            self._sweep_timeouts_at(run.deadline)
        run.task = self.loop.create_task(self._perform(run))

    async def _perform(self, run: Run) -> None:
        finish: Finish | None
        try:
            finish = await self._finish_of(run)
        except BaseException as error:  # our own fault must not lose the job: its attempt fails
            log.exception("run_failed", queue=self.queue_name, job_id=run.job_id)
            finish = finish_of_error(run, error, self.redis_ms(), self.policy, random.random())
        if self.runs.get(run.job_id) is run:
            del self.runs[run.job_id]
            if finish is not None:
                self._ended.append(finish)
        self._kick()

    async def _finish_of(self, run: Run) -> Finish | None:
        handler = self.handlers.get(run.kind)
        if run.refusal is not None:
            self._tell(run, run.refusal)
            return finish_refused(run, run.refusal, self.redis_ms())
        if handler is None:
            unknown = LookupError(f"no handler for kind {run.kind!r} in queue {self.queue_name}")
            self._tell(run, unknown)
            return finish_refused(run, unknown, self.redis_ms())
        try:
            finish = finish_of_value(run, await handler(run), self.redis_ms())
        except BaseException as error:  # SystemExit of a handler included: it ends the attempt, not the worker
            return self._finish_of_raised(run, error)
        return None if run.interrupt is Interrupt.LEASE_LOST else finish

    def _finish_of_raised(self, run: Run, error: BaseException) -> Finish | None:
        now_ms = self.redis_ms()
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
        self._release_armed_claim()
        if self.runs:
            await self._wait_idle(self.drain_s, also=self._now)
        now = self.loop.time()
        for run in list(self.runs.values()):
            run.stop(Interrupt.STOPPING, now)
        await self._wait_idle(1.0)
        for run in list(self.runs.values()):  # it does not stop: its job goes back, its late end is refused
            self._ended.append(finish_put_back(run.job_id, run.lease_token))
            run.interrupt = Interrupt.LEASE_LOST
        self.runs.clear()
        deadline = self.loop.time() + FLUSH_S
        while (self._ended or self._in_flight or self._armed) and self.link is not None and self.loop.time() < deadline:
            self._idle.clear()
            self._kick()
            await self._wait_idle(0.05)

    async def _wait_idle(self, seconds: float, also: asyncio.Event | None = None) -> None:
        self._idle.clear()
        self._kick()
        waits = [asyncio.ensure_future(event.wait()) for event in (self._idle, also) if event is not None]
        await asyncio.wait(waits, timeout=seconds, return_when="FIRST_COMPLETED")
        for wait in waits:
            wait.cancel()

    def _release_armed_claim(self) -> None:
        """Ends the BLPOP; what the claim after it takes is put back (`_start` while stopping)."""
        if self._armed and self.link is not None:
            self.link.call("CLIENT", "UNBLOCK", self._client_id)

    async def _leave(self) -> None:
        for timer in (self._look_timer, self._timeout_timer):
            if timer is not None:
                timer.cancel()
        await self.tender.forget_health()
        if self._closes_redis:
            await self.redis.connection_pool.disconnect()


def _known_to_arq(kind: str) -> arq.worker.Function:
    async def run_by_arq(ctx: dict[Any, Any]) -> None:
        raise RuntimeError("jobs of this queue are run by FleetWorker.run")

    return arq.worker.func(run_by_arq, name=kind)
