"""robots.txt as found in the wild, by RFC 9309 (field case D04). Parsing is pure; `RobotsCache` keeps one hour's answers.

Matching is protego's (longest path wins, `*`, `$`, linear in the URL). Before it sees a file, the groups of other robots
are folded into one: their rules don't concern us, and a hostile file must not make us hold them once per name.
"""

from __future__ import annotations

import asyncio
import codecs
import re
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from weakref import WeakKeyDictionary

from protego import Protego

from kbsync.http.client import SafeClient

MAX_ROBOTS_BYTES = 500 * 1024
MAX_CRAWL_DELAY_S = 30.0
_KEPT_S = 3_600.0
_MAX_KEPT = 512
_MAX_SITEMAPS = 100

_LINE_END = re.compile(r"\r\n|\r|\n")
_USER_AGENT = re.compile(r"\s*(?:user-agent|useragent|user agent)(?:\s*:|\s)\s*(.*)", re.IGNORECASE)
_TOKEN_END = re.compile(r"[^a-z0-9_-]")


class RobotsRules:
    """What one origin's robots.txt says to one robot. `sitemaps` are as written; `crawl_delay_s` is capped at 30 s."""

    def __init__(self, text: str, robot: str) -> None:
        self._robot = robot
        self._rules = Protego.parse(_narrowed(text, robot))
        self.sitemaps: tuple[str, ...] = tuple(self._rules.sitemaps)[:_MAX_SITEMAPS]
        delay = self._rules.crawl_delay(robot)
        self.crawl_delay_s: float | None = None if delay is None else min(float(delay), MAX_CRAWL_DELAY_S)

    def allows(self, url: str) -> bool:
        """Whether the robot may fetch `url`; its query counts, its fragment is gone already."""
        return bool(self._rules.can_fetch(url, self._robot))


def parse_robots(body: bytes, robot: str) -> RobotsRules:
    """The rules of a fetched file: the first 500 KiB, any byte order mark, any line ends. A page of HTML has no rules."""
    text = _text(body[:MAX_ROBOTS_BYTES])
    return RobotsRules("" if text.lstrip()[:1] == "<" else text, robot)


def robot_token(user_agent: str) -> str:
    """The product token that robots files name: `kbsync` for `kbsync/0.1 (+https://...)`."""
    return _TOKEN_END.split(user_agent.strip().lower(), maxsplit=1)[0] or "kbsync"


def _text(body: bytes) -> str:
    for mark, name in ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")):
        if body.startswith(mark):
            return body[2:].decode(name, "replace")
    return body.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace").replace("\x00", "").lstrip("\ufeff")


def _narrowed(text: str, robot: str) -> str:
    return "\n".join(_narrowed_line(line.partition("#")[0], robot) for line in _LINE_END.split(text))


def _narrowed_line(line: str, robot: str) -> str:
    match = _USER_AGENT.match(line)
    if match is None:
        return line
    name = match[1].strip().lower()
    if name == "*":
        return "User-agent: *"
    return f"User-agent: {robot if _TOKEN_END.split(name, maxsplit=1)[0] == robot else 'other'}"


class RobotsCache:
    """Rules by key, loaded once however many pages ask at the same time: they share the answer, and a failure. A failure
    is never kept: the next page asks again. Keys carry the source, because its credentials may show it other rules."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[float, RobotsRules]] = OrderedDict()
        self._loading: dict[str, asyncio.Task[RobotsRules]] = {}

    async def rules(
        self, key: str, load: Callable[[], Coroutine[None, None, RobotsRules]], *, now: float, fresh: bool = False
    ) -> RobotsRules:
        """The kept rules if younger than an hour (and not `fresh`), else what `load` answers. `now` is monotonic."""
        kept = self._kept.get(key)
        if kept is not None and kept[0] > now and not fresh:
            return kept[1]
        task = self._loading.get(key)
        if task is None:
            task = asyncio.get_running_loop().create_task(load())
            self._loading[key] = task
            task.add_done_callback(lambda done: self._loaded(key, now, done))
        # One page being cancelled must not take the rules away from the others.
        return await asyncio.shield(task)

    def _loaded(self, key: str, now: float, task: asyncio.Task[RobotsRules]) -> None:
        self._loading.pop(key, None)
        if task.cancelled() or task.exception() is not None:
            return
        self._kept[key] = (now + _KEPT_S, task.result())
        self._kept.move_to_end(key)
        while len(self._kept) > _MAX_KEPT:
            self._kept.popitem(last=False)


_caches: WeakKeyDictionary[SafeClient, RobotsCache] = WeakKeyDictionary()


def cache_of(client: SafeClient) -> RobotsCache:
    """The cache that all providers over one client share: a provider lives for one unit, robots rules for an hour."""
    return _caches.setdefault(client, RobotsCache())
