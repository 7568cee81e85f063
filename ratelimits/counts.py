"""How many data sources are closed now: one command (RL-07)."""

from __future__ import annotations

from redis.asyncio import Redis

from ratelimits.scope import CLOSURES_KEY
from ratelimits.scripts import translated


async def open_closures(redis: Redis, now_ms: int) -> int:
    """Raises QueueUnavailable."""
    with translated():
        return int(await redis.zcount(CLOSURES_KEY, f"({now_ms}", "+inf"))
