"""The Lua scripts, read once with their includes, and how redis-py runs one: EVALSHA, falling back on NOSCRIPT (QU-22)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from redis.asyncio import Redis
from redis.exceptions import NoScriptError

_FOLDER = Path(__file__).parent / "lua"
_INCLUDE = re.compile(r"^-- include:(.*)$", re.MULTILINE)

Argument = str | bytes | int


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


async def _execute(redis: Redis, *command: object) -> object:
    reply: object = await redis.execute_command(*command)  # type: ignore[no-untyped-call]  # redis-py has no types for it
    return reply


async def run_script(redis: Redis, name: str, keys: Sequence[str], arguments: Sequence[Argument]) -> object:
    """Runs a script in one round trip; a server that lost its scripts (restart, failover, flush) costs one more."""
    which = script(name)
    try:
        return await _execute(redis, "EVALSHA", which.sha, len(keys), *keys, *arguments)
    except NoScriptError:
        return await _execute(redis, "EVAL", which.text, len(keys), *keys, *arguments)


async def run_scripts(
    redis: Redis, name: str, keys: Sequence[str], batches: Sequence[Sequence[Argument]]
) -> list[object]:
    """The same script several times in one round trip. Each is atomic, together they are not. Raises the first error."""
    if len(batches) == 1:
        return [await run_script(redis, name, keys, batches[0])]
    which = script(name)
    pipe = redis.pipeline(transaction=False)
    for batch in batches:
        pipe.execute_command("EVALSHA", which.sha, len(keys), *keys, *batch)
    replies: list[object] = await pipe.execute(raise_on_error=False)
    for at, reply in enumerate(replies):
        if isinstance(reply, NoScriptError):
            replies[at] = await run_script(redis, name, keys, batches[at])
        elif isinstance(reply, Exception):
            raise reply
    return replies
