"""The Lua scripts, read once with their includes, and how a client runs one: EVALSHA, falling back on NOSCRIPT (QU-22)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import redis as redis_py
from redis.asyncio import Redis
from redis.exceptions import NoScriptError, ReadOnlyError, ResponseError

from kbsync.queue.link import pack

_FOLDER = Path(__file__).parent / "lua"
_INCLUDE = re.compile(r"^-- include:(.*)$", re.MULTILINE)

Argument = str | bytes | int
_NAMES_COMMAND = tuple(int(part) for part in redis_py.__version__.split(".")[:2]) < (5, 3)


@dataclass(frozen=True)
class Script:
    name: str
    text: str
    sha: str


@cache
def script(name: str) -> Script:
    """The script lua/<name>.lua with the libraries it names in front."""
    body = (_FOLDER / f"{name}.lua").read_text()
    found = _INCLUDE.search(body)
    parts = [(_FOLDER / f"{part}.lua").read_text() for part in found.group(1).split()] if found else []
    text = "\n".join([*parts, body])
    return Script(name, text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


async def run_script(redis: Redis, name: str, keys: Sequence[str], arguments: Sequence[Argument]) -> Any:
    """Runs a script in one round trip; a server that lost its scripts (restart, failover, flush) costs one more."""
    return (await run_scripts(redis, name, keys, [arguments]))[0]


async def run_scripts(redis: Redis, name: str, keys: Sequence[str], batches: Sequence[Sequence[Argument]]) -> list[Any]:
    """The same script several times in one round trip. Each is atomic, together they are not. Raises the first error."""
    which = script(name)
    commands = [("EVALSHA", which.sha, len(keys), *keys, *batch) for batch in batches]
    replies = await send(redis, commands)
    lost = [at for at, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
    if lost:
        again = await send(redis, [("EVAL", which.text, len(keys), *keys, *batches[at]) for at in lost])
        for at, reply in zip(lost, again, strict=True):
            replies[at] = reply
    for reply in replies:
        if isinstance(reply, Exception):
            raise reply
    return replies


async def send(redis: Redis, commands: Sequence[tuple[Argument, ...]]) -> list[Any]:
    """Commands in one write on a connection of the client's pool; error replies come as values.

    Packed by hiredis: redis-py's own packing costs a third of a bulk enqueue."""
    packed = b"".join([pack(command) for command in commands])
    pool: Any = redis.connection_pool
    connection = await (pool.get_connection("EVALSHA") if _NAMES_COMMAND else pool.get_connection())
    try:
        await connection.send_packed_command(packed)
        replies: list[Any] = [await _reply(connection) for _ in commands]
        if any(isinstance(reply, ReadOnlyError) for reply in replies):
            await connection.disconnect()  # a master that was demoted: the next call finds the new one
    finally:
        await pool.release(connection)
    return replies


async def _reply(connection: Any) -> Any:
    try:
        return await connection.read_response()
    except ResponseError as error:
        return error
