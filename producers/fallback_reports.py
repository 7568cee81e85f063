"""Tells kbsync how often a producer fell back, best effort: `kbsync observe bake` and an alert ask for it (OP-16).

Fallbacks are counted here, and told when the API has answered something: while it is away there is nobody to tell, and no
caller waits for it. At most one report every ten seconds; one that fails is told with the next.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable

import aiohttp
from yarl import URL

FALLBACKS_PATH = "/internal/knowledge_base_sync/fallbacks"
EVERY_S = 10.0
TIMEOUT_S = 1.0
TAKEN = 204
MOST = 1_000_000


def reason_of(status: int | None) -> str:
    """Why there was no promise, by what the API answered (None: nothing)."""
    if status is None:
        return "no_answer"
    return "server_error" if status >= 500 else "refused"


class FallbackReports:
    """`root` is the API's address. Nothing here raises."""

    def __init__(self, root: URL, token: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._address = root.with_path(root.path.rstrip("/") + FALLBACKS_PATH)
        self._headers = {"Authorization": f"Bearer {token}"}
        self._clock = clock
        self._next_at = 0.0
        self._sending: asyncio.Task[None] | None = None
        self.untold: Counter[str] = Counter()

    def note(self, reason: str) -> None:
        """One more fallback."""
        self.untold[reason] = min(self.untold[reason] + 1, MOST)

    def tell_soon(self) -> None:
        """The API has just answered: what is untold goes out beside whatever the caller does next."""
        if self.untold.total() and self._clock() >= self._next_at and (self._sending is None or self._sending.done()):
            self._next_at = self._clock() + EVERY_S
            self._sending = asyncio.create_task(self._tell())

    async def close(self) -> None:
        """Waits for a report that is on its way, and tries what is left once."""
        if self._sending is not None:
            await asyncio.wait((self._sending,))
        if self.untold.total():
            await self._tell()

    async def _tell(self) -> None:
        with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError, ValueError):
            async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_S)) as session:
                for reason, count in list(self.untold.items()):
                    body = {"count": count, "reason": reason}
                    async with session.post(
                        self._address, json=body, headers=self._headers, allow_redirects=False
                    ) as response:
                        if response.status != TAKEN:
                            return
                    self.untold[reason] -= count
                    if not self.untold[reason]:
                        del self.untold[reason]
