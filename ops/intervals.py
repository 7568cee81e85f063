"""How often, as people write it: 30m, 6h, 2d."""

from __future__ import annotations

import re

from kbsync.domain.errors import SettingsError

_UNITS = {"m": 60, "h": 3_600, "d": 86_400}
_WRITTEN = re.compile(r"(\d{1,5})\s*([mhd])")
SHORTEST_S, LONGEST_S = 300, 31_536_000


def seconds_of(text: str) -> int:
    """Raises SettingsError for what is no interval between five minutes and a year."""
    found = _WRITTEN.fullmatch(text.strip().lower())
    seconds = int(found[1]) * _UNITS[found[2]] if found else 0
    if not SHORTEST_S <= seconds <= LONGEST_S:
        raise SettingsError(f"{text[:40]!r} is no interval from 5m to 365d: write 30m, 6h or 2d")
    return seconds


def written(seconds: int) -> str:
    """The shortest way to write it."""
    for unit, size in (("d", 86_400), ("h", 3_600)):
        if seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds // 60}m"
