"""A worker's line to Redis: two lanes of exchanges and one armed claim (drawn in worker.py).

Connections come and go; what ended is kept until an exchange took it, and what a lost answer claimed is asked for again.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import structlog
from arq.constants import health_check_key_suffix
from redis.asyncio.connection import ConnectionPool
from redis.exceptions import RedisError

from kbsync.domain.errors import SettingsError
from kbsync.queue.ends import Finish
from kbsync.queue.exchange import Exchanged, Retention, exchange_arguments, read_exchange
from kbsync.queue.keys import QueueKeys
from kbsync.queue.link import Link, MustReconnect, NoScript, Reply, raise_if_error
from kbsync.queue.scripts import script

LANES = 2
MAX_FINISHES = 100  # an exchange stays under 2 ms
MAX_FINISH_BYTES = 1024 * 1024
ARMED_S = 10
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 2.0

log = structlog.get_logger("kbsync.queue")

Claimed = tuple[bytes, bytes | None, bytes | None]  # id, payload, meta


@dataclass(frozen=True)
class LaneSettings:
    keys: QueueKeys
    concurrency: int
    lease_ms: int
    max_stalls: int
    retention: Retention


class Lanes:
    """`running` says how many jobs run now; `start` (token, jobs) takes claimed ones; `refused` hears the id of a finish
    that came too late. `accepting` false: nothing more is claimed. `idle` is set when nothing runs, ended or is on its
    way."""

    def __init__(
        self,
        settings: LaneSettings,
        running: Callable[[], int],
        start: Callable[[str, Iterable[Claimed]], None],
        refused: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._keys = settings.keys
        self._running = running
        self._start = start
        self._refused = refused
        self._cap = max(1, -(-settings.concurrency // 2))
        self._token_head = secrets.token_hex(8)
        self._token_number = 0
        self._exchange = script("exchange")
        self.accepting = True
        self.idle = asyncio.Event()
        self.link: Link | None = None
        self.armed_link: Link | None = None
        self.armed = False
        self._ended: list[Finish] = []
        self._in_flight = 0
        self._reserved = 0
        self._more = False
        self._pump_scheduled = False
        self._held_until = 0.0
        self._pause_s = FIRST_PAUSE_S
        self._unsure: list[str] = []  # tokens of exchanges whose answer was lost
        self._clock_offset_ms = 0.0
        self._look_timer: asyncio.TimerHandle | None = None

    @property
    def unsettled(self) -> bool:
        """Whether something is still on its way to Redis or back."""
        return bool(self._ended or self._in_flight or self.armed)

    def redis_ms(self) -> int:
        """Redis's clock, as far as the last answer tells."""
        return int(time.time() * 1000 + self._clock_offset_ms)

    def finish(self, finish: Finish) -> None:
        self._ended.append(finish)
        if not self._pump_scheduled:
            self._pump_scheduled = True
            self.loop.call_soon(self._pump)

    # Connections

    def begin(self) -> None:
        """Once, in the loop that everything else is called in."""
        self.loop = asyncio.get_running_loop()

    async def connect(self, pool: ConnectionPool) -> None:
        """Raises RedisError or OSError, and SettingsError when a stock arq worker runs on this queue."""
        self.link = await Link.open(pool)
        self.armed_link = await Link.open(pool)
        self._client_id = raise_if_error(await self.armed_link.call("CLIENT", "ID"))
        queue = self._keys.queue
        if raise_if_error(await self.link.call("EXISTS", queue + health_check_key_suffix)):
            raise SettingsError(
                f"a stock arq worker runs on queue {queue} (or did within the hour): it takes jobs unfenced. "
                f"Stop it and delete the key {queue}{health_check_key_suffix}"
            )
        for name in ("exchange", "peek", "beat"):
            raise_if_error(await self.link.call("SCRIPT", "LOAD", script(name).text))
        if self._unsure:
            await self._recover()
        self._more = True
        self._held_until = 0.0
        self.kick()

    def disconnect(self) -> None:
        for link in (self.link, self.armed_link):
            if link is not None:
                link.abort()
        self.link = self.armed_link = None

    async def _recover(self) -> None:
        assert self.link is not None
        tokens, self._unsure = self._unsure, []
        text = script("recover").text
        try:
            call = self.link.call("EVAL", text, len(self._keys.all), *self._keys.all, self._settings.lease_ms, *tokens)
            reply = raise_if_error(await call)
        except (RedisError, OSError):
            self._unsure = tokens
            raise
        for at in range(0, len(reply), 4):
            self._start(reply[at + 1].decode(), [(reply[at], reply[at + 2], reply[at + 3])])

    # Pump

    def kick(self) -> None:
        if not self._pump_scheduled:
            self._pump_scheduled = True
            self.loop.call_soon(self._pump)

    def _pump(self) -> None:
        self._pump_scheduled = False
        if self.link is None or self.link.closed.done() or self.loop.time() < self._held_until:
            return
        while self._in_flight < LANES:
            free = self._free()
            want = min(free, self._cap) if self._more and self.accepting and free > 0 else 0
            if not self._ended and not want:
                break
            self._send_exchange(self._take_finishes(), want)
        if not self.armed and not self._more and self.accepting and not self._in_flight:
            self._arm()
        if not self._running() and not self._ended and not self._in_flight:
            self.idle.set()

    def _free(self) -> int:
        return self._settings.concurrency - self._running() - self._reserved

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
        arguments = exchange_arguments(
            token, self._settings.lease_ms, want, finishes, self._settings.max_stalls, self._settings.retention
        )
        return (*head, len(self._keys.all), *self._keys.all, *arguments)

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
            self._refused(finishes[at].job_id)
        self._take_in(answer, token, asked=want > 0)

    def _take_in(self, answer: Exchanged, token: str, *, asked: bool) -> None:
        self._clock_offset_ms = answer.now_ms - time.time() * 1000
        if answer.ids:
            metas = answer.metas or repeat(None, len(answer.ids))
            self._start(token, zip(answer.ids, answer.payloads, metas, strict=True))
        if asked or answer.more:
            self._more = answer.more
        self.look_in(answer.next_ms)
        self.kick()

    def _hold(self, error: BaseException, unsure: str | None) -> None:
        """An exchange failed: wait, then pump again. What it finished is told again; a second telling is refused."""
        if unsure is not None and isinstance(error, OSError):
            self._unsure.append(unsure)
        self._more = True
        log.warning("exchange_failed", queue=self._keys.queue, error=f"{type(error).__name__}: {error}"[:300])
        if isinstance(error, MustReconnect) and self.link is not None:
            self.link.abort()
        self._held_until = self.loop.time() + self._pause_s
        self.loop.call_later(self._pause_s + 0.001, self.kick)
        self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)

    # Armed claim

    def _arm(self) -> None:
        free = self._free()
        want = min(free, self._cap)
        if want < 1 or self.armed_link is None or self.armed_link.closed.done():
            return
        token = self._next_token()
        self.armed = True
        self._reserved += want
        commands: list[tuple[Any, ...]] = [("BLPOP", self._keys.wake, ARMED_S), self._command(token, want, ())]
        _, claim = self.armed_link.calls(commands, timeout_s=ARMED_S + 5)
        claim.add_done_callback(lambda done: self._armed_answered(done, token, want))

    def _armed_answered(self, done: asyncio.Future[Reply], token: str, want: int) -> None:
        self.armed = False
        self._reserved -= want
        try:
            reply = raise_if_error(done.result())
        except NoScript:  # the BLPOP has eaten the token: claim at once
            self._more = True
            if self.link is not None and not self.link.closed.done() and self.accepting:
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
        free = self._free()
        if free > 0 and self.accepting:
            self._more = True
            self.kick()
        elif self._in_flight < LANES:
            self._send_exchange(self._take_finishes(), 0)

    def release_armed_claim(self) -> None:
        """Ends the BLPOP; what the claim after it takes goes to `start` as ever."""
        if self.armed and self.link is not None:
            self.link.call("CLIENT", "UNBLOCK", self._client_id)

    def stop_timers(self) -> None:
        if self._look_timer is not None:
            self._look_timer.cancel()
