"""How figures read: one line a target, and their sections of RESULTS.md. Pure text in, text out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ops.bench.figures import Bar, Check, Figure, Row

TITLE = "# Measured"
INTRO = (
    "Written by `make bench`; a run of some targets replaces their lines only. Numbers are medians. Wherever the machine's\n"
    "speed would decide, the bar is a ratio against a peer or a baseline of the same run."
)
_WORDS = {Bar.AT_LEAST: "target", Bar.AT_MOST: "target at most", Bar.ABOVE: "target over", Bar.BELOW: "target under"}
_SECTION = re.compile(r"^## (?=[A-Z]{2}-\d\d)", re.MULTILINE)


@dataclass(frozen=True)
class Circumstances:
    """Where and how a run was made; the same for all its figures."""

    date: str
    command: str
    versions: Sequence[str]


def number(value: float) -> str:
    """Three figures that matter, thousands with commas."""
    size = abs(value)
    if size >= 100:
        return f"{value:,.0f}"
    text = f"{value:.1f}" if size >= 10 else f"{value:.2f}"
    return text.rstrip("0").rstrip(".")


def check_text(check: Check) -> str:
    unit, _, rest = check.says.partition(" ")  # "x BullMQ Node" is glued to its number, " ms p99" is not
    bar = f"{check.bar:,g}{unit}"
    said = "not measured" if check.value is None else number(check.value) + unit
    return f"{said} {rest} ({_WORDS[check.kind]} {bar})" if rest else f"{said} ({_WORDS[check.kind]} {bar})"


def line(figure: Figure) -> str:
    """`PF-01 drain: 3.4x BullMQ Node (target 3x), 41x arq (target 30x)  ok`"""
    checks = ", ".join(check_text(check) for check in figure.checks) or "nothing"
    return f"{figure.id} {figure.name}: {checks}  {figure.verdict}"


def section(figure: Figure, run: Circumstances, known: str = "") -> str:
    """A figure's part of RESULTS.md, from its heading on. `known`: what its profile shows and what was tried, in prose."""
    parts = [f"## {figure.id} {figure.name}", "", f"    {line(figure)}", ""]
    if figure.rows:
        parts += ["| what | median | lowest | highest | rounds |", "| --- | --- | --- | --- | --- |"]
        parts += [_row(row) for row in figure.rows] + [""]
    parts += [f"- {note}" for note in figure.notes]
    parts += [f"- {run.date}, `{run.command}`", f"- {'; '.join(run.versions)}", ""]
    parts += [known.strip(), ""] if known else []
    return "\n".join(parts)


def _row(row: Row) -> str:
    if row.text:
        return f"| {row.what} | {row.text} | | | 1 |"
    if row.sample is None:
        return f"| {row.what} | not measured{f': {row.note}' if row.note else ''} | | | |"
    one = row.sample
    unit = f" {one.unit}" if one.unit else ""
    what = f"{row.what} ({row.note})" if row.note else row.what
    return f"| {what} | {number(one.median)}{unit} | {number(one.low)} | {number(one.high)} | {len(one.values)} |"


def merged(old: str, sections: Sequence[str]) -> str:
    """RESULTS.md with `sections` in the place of their elders of the same id; everything else of it stays."""
    kept = {_id(text): text for text in _sections(old)} | {_id(text): text for text in sections}
    ordered = [kept[spec_id].rstrip() + "\n" for spec_id in sorted(kept)]
    summary = [text.split("\n", 3)[2] for text in ordered]
    return "\n".join([TITLE, "", INTRO, "", *summary, "", *ordered])


def _sections(text: str) -> Iterator[str]:
    starts = [found.start() for found in _SECTION.finditer(text)]
    for place, start in enumerate(starts):
        yield text[start : starts[place + 1] if place + 1 < len(starts) else len(text)]


def _id(section_text: str) -> str:
    return section_text.split(" ", 2)[1]
