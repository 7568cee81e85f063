"""Whether a soak's samples grew: the middle of its last quarter over the middle of its second one. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from ops.bench.figures import Bar, Check

# What is sampled, by the first word of its name: how much more it may be at the end, and what is too small to matter.
ALLOWED: Mapping[str, tuple[float, float]] = {
    "memory": (1.10, 2.0),  # MB
    "keys": (1.10, 200.0),
    "connections": (1.10, 3.0),
    "dead": (1.50, 2_000.0),  # tuples: autovacuum saws
    "jobs": (1.50, 200.0),  # not ended yet: a backlog would grow
}


def growth(values: Sequence[float], small: float) -> float | None:
    """None for fewer than eight samples. A difference up to `small` is no growth."""
    if len(values) < 8:
        return None
    quarter = len(values) // 4
    before, after = median(values[quarter : 2 * quarter]), median(values[-quarter:])
    if after - before <= small:
        return min(1.0, after / before) if before else 1.0
    return after / before if before else float("inf")


def checks(series: Mapping[str, Sequence[float]]) -> tuple[Check, ...]:
    """A check for each series: how often its earlier value it is at the end."""
    found = []
    for name, values in series.items():
        allowed, small = ALLOWED[name.split(" ", 1)[0]]
        found.append(Check(f"x {name}", growth(values, small), allowed, Bar.AT_MOST))
    return tuple(found)
