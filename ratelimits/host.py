"""Politeness to a website's host, fleet-wide: so many fetches a second, so many at once (page "Provider throttles").

    enter --a slot is free and it is time--> Entered(token) --fetch--> leave(token)
      '----no---> ComeBackAt(a time of the job's own): the slowest of pace, free slots and a closure

A refused job gets a time that no other job got, so a thousand waiting jobs wake one after another and not in a herd. A
holder that dies frees its slot by the end of its lease.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from redis.asyncio import Redis

from ratelimits.scope import HostScope
from ratelimits.scripts import Script, clock_argument, instant, text
from ratelimits.throttle import MAX_REASON, ComeBackAt

DEFAULT_PER_SECOND = 10.0
DEFAULT_AT_ONCE = 8
LEASE_S = 120.0


@dataclass(frozen=True)
class Entered:
    """A slot is held under `token` until `leave`, or until the lease ends."""

    token: str


def polite_rate(per_second: float, crawl_delay_s: float | None) -> float:
    """The setting, or what robots.txt asks for where that is slower. A delay that is no positive number asks nothing."""
    if crawl_delay_s is None or not math.isfinite(crawl_delay_s) or crawl_delay_s <= 0:
        return per_second
    return min(per_second, 1 / crawl_delay_s)


class HostGate:
    """Every call is one round trip, and raises QueueUnavailable when Redis does not answer it (RL-08).

    `lease_s` must be longer than the longest fetch, time-outs and redirects included. `now_us` is for tests in simulated
    time; without it every clock is Redis's own."""

    def __init__(self, redis: Redis, *, lease_s: float = LEASE_S) -> None:
        self._lease_ms = math.ceil(lease_s * 1000)
        self._enter = Script(redis, "enter_host")
        self._leave = Script(redis, "leave_host")
        self._close = Script(redis, "close_host")

    async def enter(
        self,
        host: HostScope,
        per_second: float = DEFAULT_PER_SECOND,
        at_once: int = DEFAULT_AT_ONCE,
        *,
        job_id: str,
        now_us: int | None = None,
    ) -> Entered | ComeBackAt:
        """Entered: fetch, then `leave`. ComeBackAt: ask again then, under the same job id; nothing is held."""
        if per_second <= 0 or at_once < 1:
            raise ValueError("per_second and at_once must be more than nothing")
        token = secrets.token_hex(8)
        reply = await self._enter(
            [host.key, f"{host.key}:slots", f"{host.key}:job:{job_id}"],
            [1_000_000 / per_second, at_once, token, self._lease_ms, clock_argument(now_us)],
        )
        assert isinstance(reply, Sequence)
        answer = text(reply[0])
        if answer == "entered":
            return Entered(token)
        due = datetime.fromtimestamp(int(reply[1]) / 1_000_000, UTC)
        match answer:
            case "full":
                return ComeBackAt(due, f"{host.host} has {at_once} fetches under way")
            case "paced":
                return ComeBackAt(due, f"{host.host} is asked {per_second:g} times a second")
            case _:
                return ComeBackAt(due, f"{host.host}: {text(reply[2])}", closed=True)

    async def leave(self, host: HostScope, token: str, *, now_us: int | None = None) -> bool:
        """Frees the token's slot; False when it was free already (the lease had ended). Safe to repeat."""
        keys = [host.key, f"{host.key}:slots"]
        return bool(await self._leave(keys, [token, self._lease_ms, clock_argument(now_us)]))

    async def close(self, host: HostScope, wait_s: float, reason: str, *, now_us: int | None = None) -> datetime:
        """A 429 or 503 slows the whole host, whichever organization crawls it. Returns when it opens again."""
        why = " ".join(reason.split())[:MAX_REASON].encode("utf-8", "replace")
        wait_ms = max(1, math.ceil(wait_s * 1000))
        until = await self._close([host.key], [wait_ms, why, clock_argument(now_us)])
        assert isinstance(until, (bytes, str))
        return instant(until)
