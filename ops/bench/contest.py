"""kbsync and its peers, round after round, and what their figures say together."""

from __future__ import annotations

from collections.abc import Callable

from ops.bench import contestants
from ops.bench.contestants import Contestant
from ops.bench.figures import Bar, Check, Row, Sample, ratio, sample
from ops.bench.processes import NoReport
from ops.bench.report import number
from ops.bench.table import Options


class Contest:
    """The contestants of one measurement, and their values. A peer that is not here, or breaks down, has none."""

    def __init__(self, spec_id: str, options: Options, unit: str) -> None:
        self.options = options
        self.unit = unit
        self.us = contestants.ours()
        self.field = contestants.installed(spec_id, options.say)
        self.broken: dict[str, str] = {}
        self.values: dict[str, list[float]] = {}

    def run(self, once: Callable[[Contestant], float], rounds: int | None = None) -> None:
        """`once` for each, one after the other, again and again: a slow minute of the machine hits everybody. Who breaks
        down is out, but kbsync is not: what it raises ends the measurement."""
        for _ in range(rounds or self.options.rounds):
            for one in [self.us, *self.field.peers]:
                if one.key in self.broken:
                    continue
                try:
                    value = once(one)
                except (NoReport, OSError) as error:
                    if one is self.us:
                        raise
                    self.broken[one.key] = " ".join(str(error).split())[:200]
                    self.options.say(f"{one.name} breaks down: {self.broken[one.key]}")
                    continue
                self.values.setdefault(one.key, []).append(value)
                self.options.say(f"{one.name}: {number(value)} {self.unit}")

    def of(self, key: str) -> Sample | None:
        return None if key in self.broken else sample(self.values.get(key, []), self.unit)

    @property
    def ours(self) -> Sample | None:
        return self.of(self.us.key)

    def rows(self, ours: str = "kbsync") -> list[Row]:
        """A row each, best first among the peers as they stand in peers.toml."""
        rows = [Row(ours, self.ours)]
        rows += [Row(one.name, self.of(one.key), self.broken.get(one.key, "")) for one in self.field.peers]
        return rows + [Row(name, None, why) for name, why in self.field.missing.items()]

    def against_the_best(self, bar: float, kind: Bar) -> tuple[Check, ...]:
        """Ours over the best peer's, where more is better for AT_LEAST and ABOVE, less for the others; and one check that
        is not measured for each peer without a value: the best may be among those."""
        there = {one.name: found for one in self.field.peers if (found := self.of(one.key)) is not None}
        pick = max if kind in (Bar.AT_LEAST, Bar.ABOVE) else min
        checks = []
        if there:
            name = pick(there, key=lambda one: there[one].median)
            checks.append(ratio(f"{name}, the best peer", self.ours, there[name], bar, kind))
        absent = [one.name for one in self.field.peers if self.of(one.key) is None] + list(self.field.missing)
        return (*checks, *(Check(f"x {name}", None, bar, kind) for name in absent))


def settings_notes(field: contestants.Field) -> tuple[str, ...]:
    versions = [f"{one.name}: {one.versions}" for one in field.peers]
    return (
        f"payload {contestants.payload_bytes()} bytes, concurrency {contestants.concurrency()}, ids chosen by the caller; "
        "an embedded server for each, with the settings that kbsync ships; settings of the peers: peers.toml",
        *(["; ".join(versions)] if versions else []),
    )
