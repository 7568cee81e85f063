"""What a measurement says: samples over rounds, each against its bar, and the verdict. Pure: no clock, no servers.

A target is met only by numbers that were measured: a peer that could not be installed or run is a `Check` without a value,
and its figure reads `not measured`, never `ok`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median


class Verdict(StrEnum):
    OK = "ok"
    SHORT = "short"
    NOT_MEASURED = "not measured"


class Bar(StrEnum):
    AT_LEAST = "at least"
    AT_MOST = "at most"
    ABOVE = "above"
    BELOW = "below"


@dataclass(frozen=True)
class Sample:
    """One quantity, a value a round (or of one round, when there was one). `unit` is written after the number."""

    values: tuple[float, ...]
    unit: str = ""

    def __post_init__(self) -> None:
        if not self.values:
            raise ValueError("a sample has at least one value; what was not measured is None")

    @property
    def median(self) -> float:
        return median(self.values)

    @property
    def low(self) -> float:
        return min(self.values)

    @property
    def high(self) -> float:
        return max(self.values)


def sample(values: Sequence[float], unit: str = "") -> Sample | None:
    """None without values: not measured."""
    return Sample(tuple(values), unit) if values else None


@dataclass(frozen=True)
class Check:
    """One number against its bar. `says` follows the number: "x BullMQ Node", "ms p99". `value` None: not measured."""

    says: str
    value: float | None
    bar: float
    kind: Bar = Bar.AT_LEAST

    @property
    def verdict(self) -> Verdict:
        if self.value is None:
            return Verdict.NOT_MEASURED
        met = {
            Bar.AT_LEAST: self.value >= self.bar,
            Bar.AT_MOST: self.value <= self.bar,
            Bar.ABOVE: self.value > self.bar,
            Bar.BELOW: self.value < self.bar,
        }[self.kind]
        return Verdict.OK if met else Verdict.SHORT


@dataclass(frozen=True)
class Row:
    """One line of a figure's table in RESULTS.md: who or what, and its sample (None: not measured, `note` says why).
    `text` stands for a sample that is no number: ">90 s"."""

    what: str
    sample: Sample | None
    note: str = ""
    text: str = ""


@dataclass(frozen=True)
class Figure:
    """What was measured for one spec line. `notes` are sentences for RESULTS.md: payload, counts, settings."""

    id: str
    name: str
    checks: tuple[Check, ...]
    rows: tuple[Row, ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def verdict(self) -> Verdict:
        """Short when any bar is missed, else not measured when any number is missing, else ok."""
        verdicts = {check.verdict for check in self.checks}
        if Verdict.SHORT in verdicts:
            return Verdict.SHORT
        if not verdicts or Verdict.NOT_MEASURED in verdicts:
            return Verdict.NOT_MEASURED
        return Verdict.OK


def ratio(says: str, ours: Sample | None, against: Sample | None, bar: float, kind: Bar = Bar.AT_LEAST) -> Check:
    """Ours over the peer's or baseline's, medians of the same run. Reads "3.4x BullMQ Node (target 3x)"."""
    if ours is None or against is None or against.median == 0:
        return Check(f"x {says}", None, bar, kind)
    return Check(f"x {says}", ours.median / against.median, bar, kind)


def limit(says: str, ours: Sample | None, bar: float, kind: Bar) -> Check:
    """Our median against a plain number: `says` is the unit and more, "ms p99"."""
    return Check(f" {says}", None if ours is None else ours.median, bar, kind)
