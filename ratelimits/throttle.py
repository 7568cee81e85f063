"""Provider throttles: fixed windows in Redis, shared by the whole fleet, that delay and never fail (RL-01 .. RL-08).

    take --room--> Go
      |---full----> ComeBackAt(reserved slot) --sleeps--> take in the reserved window --> Go (counted already)
      '---closed--> ComeBackAt(reserved slot after the closure)

A reservation lives in Redis under scope and job id, so it outlives the worker that got it. A job that comes after its
reserved window starts again; a job that never comes wastes the one slot.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from redis.asyncio import Redis

from ratelimits.limits import Limit, UnitKind
from ratelimits.scope import (
    CLOSURES_KEY,
    INDEX_KEY,
    DataSourceScope,
    ThrottleScope,
    data_source_of_member,
    scope_of_member,
)
from ratelimits.scripts import Reply, Script, clock_argument, instant, text, translated

INDEX_SIZE = 10_000
LOOK_AHEAD = 10_000
MAX_REASON = 500


@dataclass(frozen=True)
class Go:
    """The slot is taken: run now. `at` is when, by Redis's clock."""

    at: datetime | None = field(default=None, compare=False)


@dataclass(frozen=True)
class ComeBackAt:
    """Sleep until `until` (aware, Redis's clock) and ask again; no attempt is used. `reason` is for people.

    `closed`: the provider itself asked for the wait, which is bounded for one job (`waits.py`)."""

    until: datetime
    reason: str
    closed: bool = False


@dataclass(frozen=True)
class WindowView:
    """One active window as the dashboard shows it. `reserved` counts the slots that jobs hold from now on."""

    scope: ThrottleScope
    window_s: float
    limit: int | None
    used: int
    reserved: int
    ends_at: datetime
    closed_until: datetime | None
    closed_reason: str | None


@dataclass(frozen=True)
class Closure:
    """A data source whose provider asked for a wait."""

    scope: DataSourceScope
    until: datetime
    reason: str


def full_window_words(provider: str, kind: UnitKind) -> str:
    """How the reason begins for which jobs wait in a full window: what finds them among the delayed."""
    return f"{provider} {kind} window is full"


class Throttle:
    """Every call is a round trip or two, and raises QueueUnavailable when Redis does not answer it (RL-08).

    `now_ms` is for tests in simulated time; without it every clock is Redis's own."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._take = Script(redis, "take_slot")
        self._close = Script(redis, "close_data_source")
        self._read = Script(redis, "read_window")

    async def take(
        self, scope: ThrottleScope, limit: Limit, job_id: str, *, now_ms: int | None = None
    ) -> Go | ComeBackAt:
        """Go takes a slot of the current window. ComeBackAt has reserved one: ask again then, under the same job id."""
        reply = _list(
            await self._take(
                [scope.key(limit.window_ms), scope.data_source.closed_key, INDEX_KEY],
                [
                    limit.count,
                    limit.window_ms,
                    job_id,
                    scope.member(limit.window_ms),
                    INDEX_SIZE,
                    clock_argument(now_ms),
                ],
            )
        )
        match text(reply[0]):
            case "go":
                return Go(instant(reply[1]))
            case "full":
                return ComeBackAt(instant(reply[1]), f"{full_window_words(scope.provider, scope.unit_kind)} ({limit})")
            case _:
                until = instant(reply[2]).isoformat(timespec="seconds")
                return ComeBackAt(instant(reply[1]), f"{text(reply[3])} (closed until {until})", closed=True)

    async def close(self, scope: DataSourceScope, wait_s: float, reason: str, *, now_ms: int | None = None) -> datetime:
        """Closes every unit kind of the data source for `wait_s` seconds from now (RL-05). A closure that lasts longer
        stays. Returns when it ends."""
        wait_ms = max(1, math.ceil(wait_s * 1000))
        why = " ".join(reason.split())[:MAX_REASON]
        until = await self._close(
            [scope.closed_key, CLOSURES_KEY], [wait_ms, _bytes(why), scope.member, INDEX_SIZE, clock_argument(now_ms)]
        )
        return instant(_scalar(until))

    async def reopen(self, scope: DataSourceScope) -> bool:
        """Lifts a closure early; answers whether there was one. Jobs that sleep until its end stay asleep."""
        with translated():
            async with self._redis.pipeline(transaction=True) as pipe:
                pipe.delete(scope.closed_key)
                pipe.zrem(CLOSURES_KEY, scope.member)
                was_closed, _ = await pipe.execute()
        return bool(was_closed)

    async def closed_until(self, scope: DataSourceScope) -> tuple[datetime, str] | None:
        """When a data source opens again and why it is closed, or None when it is open."""
        with translated():
            value: bytes | str | None = await self._redis.get(scope.closed_key)
        if value is None:
            return None
        until, _, reason = text(value).partition(" ")
        return instant(until), reason

    async def closures(self, at_most: int = 500) -> list[Closure]:
        """The data sources that are closed now, those that open last first (RL-07)."""
        with translated():
            members: list[bytes | str] = await self._redis.zrevrange(CLOSURES_KEY, 0, at_most - 1)
            scopes = [data_source_of_member(text(member)) for member in members]
            values: list[bytes | str | None] = (
                await self._redis.mget([each.closed_key for each in scopes]) if scopes else []
            )
        found = [(scope, *text(value).partition(" ")) for scope, value in zip(scopes, values, strict=True) if value]
        return [Closure(scope, instant(until), reason) for scope, until, _, reason in found]

    async def windows(self, at_most: int = 500, *, now_ms: int | None = None) -> list[WindowView]:
        """The scopes with a window that is used or reserved, those with the longest queue ahead first (RL-07)."""
        with translated():
            members: list[bytes | str] = await self._redis.zrevrange(INDEX_KEY, 0, at_most - 1)
        scopes = [scope_of_member(text(member)) for member in members]
        replies = await self._read.many(
            [
                ([scope.key(ms), scope.data_source.closed_key], [ms, LOOK_AHEAD, clock_argument(now_ms)])
                for scope, ms in scopes
            ]
        )
        views = [_view(scope, ms, reply) for (scope, ms), reply in zip(scopes, replies, strict=True)]
        return [view for view in views if view.used or view.reserved or view.closed_until]


def _view(scope: ThrottleScope, window_ms: int, reply: Reply) -> WindowView:
    used, limit, reserved, until, reason, ends = reply
    closed = int(until) > 0
    return WindowView(
        scope,
        window_ms / 1000,
        int(limit) if limit else None,
        int(used),
        int(reserved),
        instant(ends),
        instant(until) if closed else None,
        text(reason) if closed else None,
    )


def _list(reply: Reply | bytes | int) -> Reply:
    assert isinstance(reply, Sequence)
    assert not isinstance(reply, bytes)
    return reply


def _scalar(reply: Reply | bytes | int) -> bytes | int:
    assert isinstance(reply, (bytes, str, int))
    return reply


def _bytes(value: str) -> bytes:
    return value.encode("utf-8", "replace")
