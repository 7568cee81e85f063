"""Lua from lua/, run on Redis; and what Redis's failures are called here (RL-08)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

from redis.asyncio import Redis
from redis.exceptions import RedisError

from kbsync.domain.errors import QueueUnavailable

Reply: TypeAlias = Sequence[bytes | int]
LUA = Path(__file__).parent / "lua"


@contextmanager
def translated() -> Iterator[None]:
    """Whatever Redis answers instead of a result leaves as QueueUnavailable: the caller delays its job."""
    try:
        yield
    except (RedisError, OSError, TimeoutError) as error:
        raise QueueUnavailable(f"Redis is not available ({type(error).__name__}: {error})") from error


class Script:
    """One file of lua/. Calls raise QueueUnavailable on any failure of Redis."""

    def __init__(self, redis: Redis, name: str) -> None:
        self._redis = redis
        self._script = redis.register_script((LUA / f"{name}.lua").read_text(encoding="utf-8"))

    async def __call__(self, keys: Sequence[str], args: Sequence[str | bytes | int | float]) -> Reply | bytes | int:
        with translated():
            answer: Reply | bytes | int = await self._script(keys=list(keys), args=list(args))
        return answer

    async def many(self, calls: Sequence[tuple[Sequence[str], Sequence[str | int]]]) -> list[Reply]:
        """The answers of many calls in one round trip, in order."""
        if not calls:
            return []
        with translated():
            async with self._redis.pipeline(transaction=False) as pipe:
                for keys, args in calls:
                    await self._script(keys=list(keys), args=list(args), client=pipe)
                answers: list[Reply] = await pipe.execute()
        return answers


def text(value: bytes | int | str) -> str:
    """A reply's part as text. A client with decode_responses gives text already."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value)


def instant(ms: bytes | int | str) -> datetime:
    """Milliseconds since the epoch as an aware time."""
    return datetime.fromtimestamp(int(ms) / 1000, UTC)


def clock_argument(now_ms: int | None) -> str:
    """What a script takes for its clock: nothing (Redis's TIME), or a test's simulated time."""
    return "" if now_ms is None else str(now_ms)
