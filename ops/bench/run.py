"""Runs measurements one after the other, prints a line a target, and keeps what was measured in RESULTS.md."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import shlex
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from ops.bench import machine, report
from ops.bench.figures import Check, Figure, Verdict
from ops.bench.table import Measurement, Options, chosen

RESULTS = Path(__file__).with_name("RESULTS.md")
KNOWN = Path(__file__).with_name("known")  # a file a target, by hand: why it is where it is


def run_bench(
    only: str = "",
    *,
    quick: bool = False,
    as_json: bool = False,
    rounds: int = 3,
    minutes: float = 30.0,
    results: Path = RESULTS,
) -> int:
    """Answers the exit code: 1 when a target was missed. Only full runs are kept: a quick one's figures mean little."""
    begun = time.monotonic()

    def say(text: str) -> None:
        print(f"[{time.monotonic() - begun:6.1f} s] {text}", file=sys.stderr, flush=True)

    figures: list[Figure] = []
    command = _command(only, quick=quick, rounds=rounds, minutes=minutes)
    for measurement in chosen(only):
        with tempfile.TemporaryDirectory(prefix="kbsync-bench-", ignore_cleanup_errors=True) as folder:
            made = measured(measurement, Options(Path(folder), quick, 1 if quick else rounds, minutes, say))
        figures += made
        if not quick:
            keep(made, report.Circumstances(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC", command, _versions()), results)
    if as_json:
        print(json.dumps([_plain(figure) for figure in figures], indent=2))
    else:
        for figure in figures:
            print(report.line(figure))
    return 1 if any(figure.verdict is Verdict.SHORT for figure in figures) else 0


def measured(measurement: Measurement, options: Options) -> list[Figure]:
    """Its figures. One that breaks down is said and reads `not measured`; the others are run all the same."""
    options.say(f"{measurement.id} begins")
    try:
        made = importlib.import_module(measurement.module).measure(options)
        figures: list[Figure] = asyncio.run(made) if inspect.iscoroutine(made) else made
    except Exception as error:
        traceback.print_exc(file=sys.stderr)
        name = measurement.module.rsplit(".", 1)[1]
        broken = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        figures = [Figure(measurement.id, name, (Check(" broke down", None, 0),), notes=(broken,))]
    for figure in figures:
        options.say(report.line(figure))
    return figures


def keep(figures: Sequence[Figure], run: report.Circumstances, results: Path = RESULTS) -> None:
    """Writes the figures' sections; those of other targets stay as they are."""
    old = results.read_text(encoding="utf-8") if results.exists() else ""
    sections = [report.section(figure, run, known_of(figure.id)) for figure in figures]
    results.write_text(report.merged(old, sections), encoding="utf-8")


def known_of(spec_id: str) -> str:
    file = KNOWN / f"{spec_id}.md"
    return file.read_text(encoding="utf-8") if file.exists() else ""


def _versions() -> list[str]:
    return machine.versions()


def _command(only: str, *, quick: bool, rounds: int, minutes: float) -> str:
    if only == "RB-05":
        return f"make soak MINUTES={minutes:g}"
    chosen_ids = ["--only", only] if only else []
    return shlex.join(["kbsync", "bench", *chosen_ids, "--rounds", str(rounds), *(["--quick"] if quick else [])])


def _plain(figure: Figure) -> dict[str, object]:
    checks = [asdict(check) | {"verdict": check.verdict} for check in figure.checks]
    return asdict(figure) | {"checks": checks, "verdict": figure.verdict, "line": report.line(figure)}
