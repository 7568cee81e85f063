"""How a process runs its main coroutine: on uvloop where it is installed."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

# What a run of a job makes is gone when it ends, by its counts alone. Looking for cycles after each 700 objects that live,
# as Python does, costs a worker 8 % of its time; what looks less often is what holds a few batches.
YOUNG_OBJECTS = 20_000


def run(main: Coroutine[Any, Any, T]) -> T:
    """As asyncio.run, on uvloop when importable. Before: what the process imports at its start is imported."""
    gc.collect()
    gc.freeze()  # code and settings stay for good: no collection walks through them again
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)
