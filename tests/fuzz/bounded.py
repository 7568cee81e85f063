"""Bounds of a fuzz run: the same examples on every machine, few enough for every test run, no clock in the verdict."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from hypothesis import HealthCheck, settings

ROOT = Path(__file__).parents[2]
# KBSYNC_FUZZ=20 looks twenty times as far, with new examples each time.
FACTOR = int(os.environ.get("KBSYNC_FUZZ", "1"))
PATIENCE_S = 120.0

Test = TypeVar("Test", bound=Callable[..., None])


def fuzzed(examples: int) -> Callable[[Test], Test]:
    return settings(
        max_examples=examples * FACTOR,
        derandomize=FACTOR == 1,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


def ends(code: str) -> str:
    """Runs `code` in a process of its own and answers what it prints. One that hangs fails the test instead of the run."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise AssertionError(f"still reading after {PATIENCE_S:.0f} s: {(error.stdout or b'')[-300:]!r}") from None
    assert done.returncode == 0, f"{done.stdout[-300:]}\n{done.stderr[-2_000:]}"
    return done.stdout.strip()
