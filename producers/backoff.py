"""How long to wait for a server that is away."""

from __future__ import annotations


class Backoff:
    """`first_s`, twice that, ... at most `most_s`; `reset()` when it answers again."""

    def __init__(self, first_s: float, most_s: float) -> None:
        self._first_s = first_s
        self._most_s = most_s
        self._failures = 0

    def next_s(self) -> float:
        wait_s = min(self._most_s, self._first_s * 2.0 ** min(self._failures, 30))
        self._failures += 1
        return wait_s

    def reset(self) -> None:
        self._failures = 0
