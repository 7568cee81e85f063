"""Which measurements there are. A measurement is a module of ops.bench with one function:

    def measure(options: Options) -> list[Figure]           # or async def

It starts what it needs below `options.folder`, leaves nothing running, and returns a Figure for the spec ids it stands for.
Modules are imported when they run, so the table costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kbsync.domain.errors import SettingsError


@dataclass(frozen=True)
class Options:
    """`quick`: small counts and one round, to see that it works; its figures mean little and are not kept.
    `folder` is the run's own, empty, gone afterwards. `say` prints one line of progress."""

    folder: Path
    quick: bool = False
    rounds: int = 3
    minutes: float = 30.0
    say: Callable[[str], None] = print

    def count(self, full: int, quick: int) -> int:
        return quick if self.quick else full


@dataclass(frozen=True)
class Measurement:
    """`by_default` False: runs only when asked for by id."""

    id: str
    module: str
    by_default: bool = True


TABLE: tuple[Measurement, ...] = (
    Measurement("PF-01", "ops.bench.draining"),
    Measurement("PF-02", "ops.bench.io_jobs"),
    Measurement("PF-03", "ops.bench.pick_up"),
    Measurement("PF-04", "ops.bench.enqueueing"),
    Measurement("PF-05", "ops.bench.api_rate"),
    Measurement("PF-06", "ops.bench.memory"),
    Measurement("PF-07", "ops.bench.million"),
    Measurement("PF-08", "ops.bench.throttling"),
    Measurement("PF-09", "ops.bench.crash"),
    Measurement("PF-10", "ops.bench.crawl"),
    Measurement("PF-11", "ops.bench.library"),
    Measurement("PF-13", "ops.bench.recovery"),
    Measurement("PF-14", "ops.bench.resting"),
    Measurement("PF-15", "ops.bench.search"),
    Measurement("RB-05", "ops.bench.soak", by_default=False),
)


def chosen(only: str, table: Sequence[Measurement] = TABLE) -> list[Measurement]:
    """The measurements of a comma-separated list of ids, or all that run by default. Raises SettingsError."""
    wanted = [part.strip().upper() for part in only.split(",") if part.strip()]
    unknown = sorted(set(wanted) - {one.id for one in table})
    if unknown:
        raise SettingsError(f"nothing measures {', '.join(unknown)}; there are {', '.join(one.id for one in table)}")
    return [one for one in table if one.id in wanted or (not wanted and one.by_default)]
