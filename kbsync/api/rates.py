"""How much one token may ask for in a second: a fixed window a token, in this process (LS-01's 429)."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass
class _Window:
    second: int
    used: int


class TokenRates:
    """Not shared between processes: it keeps one caller from filling a process, it is no quota."""

    def __init__(self, per_second: int, max_tokens: int = 10_000) -> None:
        self._per_second = per_second
        self._max_tokens = max_tokens
        self._windows: dict[int, _Window] = {}

    def take(self, token_id: int, amount: int, now_s: float) -> float | None:
        """None when `amount` fits into this second, else the seconds until the next one (nothing is taken then).

        An amount over the limit still fits into an empty window: a batch must be possible at any setting."""
        second = math.floor(now_s)
        window = self._windows.get(token_id)
        if window is None or window.second != second:
            if len(self._windows) >= self._max_tokens:
                self._windows = {k: w for k, w in self._windows.items() if w.second == second}
            window = self._windows[token_id] = _Window(second, 0)
        if window.used and window.used + amount > self._per_second:
            return second + 1 - now_s
        window.used += amount
        return None
