"""How website hosts stand, for people: under way, next turn, closed until (RL-07). Writes nothing.

Hosts have no index, so a reader names them: the hosts of the crawls that run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from redis.asyncio import Redis

from ratelimits.scope import HostScope
from ratelimits.scripts import instant, text, translated


@dataclass(frozen=True)
class HostView:
    """`next_at`: when one that asks now would be let in; None: at once."""

    host: str
    under_way: int
    next_at: datetime | None
    closed_until: datetime | None
    reason: str


async def read_hosts(redis: Redis, hosts: Sequence[str]) -> list[HostView]:
    """Those of `hosts` that somebody asked lately, in one round trip. Raises QueueUnavailable."""
    if not hosts:
        return []
    scopes = [HostScope(host) for host in hosts]
    with translated():
        seconds, micros = await redis.time()
        now_ms = seconds * 1000 + micros // 1000
        pipe = redis.pipeline(transaction=False)
        for scope in scopes:
            pipe.hmget(scope.key, ["frontier", "closed", "why"])
            pipe.zcount(f"{scope.key}:slots", f"({now_ms}", "+inf")
        replies = await pipe.execute()
    views = [_view(host, replies[2 * at], replies[2 * at + 1], now_ms) for at, host in enumerate(hosts)]
    return [view for view in views if view is not None]


def _view(host: str, fields: Sequence[bytes | None], under_way: int, now_ms: int) -> HostView | None:
    frontier, closed, why = fields
    if frontier is None and closed is None and not under_way:
        return None
    next_ms = int(float(text(frontier)) / 1000) if frontier is not None else 0
    closed_ms = int(text(closed)) if closed is not None else 0
    is_closed = closed_ms > now_ms
    return HostView(
        host,
        int(under_way),
        datetime.fromtimestamp(next_ms / 1000, UTC) if next_ms > now_ms else None,
        instant(closed_ms) if is_closed else None,
        text(why) if is_closed and why is not None else "",
    )
