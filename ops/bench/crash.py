"""PF-09: from SIGKILL of a worker to its job running on another one, with everybody's default settings.

The peers run one kill each, all at once, as nearly all of it is waiting; kbsync runs its kills one after the other meanwhile,
each at another moment of the heartbeat.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from kbsync.settings import load_settings
from ops.bench import contestants
from ops.bench.contestants import Contestant
from ops.bench.figures import Bar, Check, Figure, Row, Sample, limit, ratio, sample
from ops.bench.pick_up import stamps
from ops.bench.processes import Arena, NoReport, arena, redis_up
from ops.bench.table import Options

KILLS = 8
CUT_S = 90.0
SETTLE_S = 2.0  # the second worker is connected and idle by then
BEATS_A_LEASE = 3


@dataclass
class Recoveries:
    """Seconds by peer; `cut`: those that had not recovered when patience ended; `broken`: why there is no figure."""

    after_s: dict[str, float] = field(default_factory=dict)
    cut: set[str] = field(default_factory=set)
    broken: dict[str, str] = field(default_factory=dict)


def measure(options: Options) -> list[Figure]:
    lease_s = load_settings().lease_s
    cut_s = CUT_S if not options.quick else 20.0
    kills = options.count(KILLS, 1)
    field_ = contestants.installed("PF-09", options.say)
    us = contestants.ours()
    found = Recoveries()
    ours: list[float] = []
    with arena(options.folder, contestants.payload_bytes(), contestants.concurrency()) as place:
        waiting = [
            threading.Thread(target=_recover_peer, args=(place, one, cut_s, found, options)) for one in field_.peers
        ]
        for thread in waiting:
            thread.start()
        for number in range(kills):
            beat_s = lease_s / BEATS_A_LEASE
            after_s = recovery(place, us, lease_s + CUT_S, hold_s=beat_s * number / max(kills, 1))
            ours.append(after_s)
            options.say(f"kbsync: {after_s:.1f} s after kill {number + 1}")
        for thread in waiting:
            thread.join()
    mine = sample(ours, "s")
    checks = (
        limit("s after SIGKILL", mine, lease_s + 0.5, Bar.AT_MOST),
        *_against_peers(mine, field_, found, cut_s),
    )
    rows = [Row(f"kbsync, lease {lease_s:g} s, {kills} kills", mine)]
    for one in field_.peers:
        if one.key in found.cut:
            rows.append(Row(one.name, None, text=f">{cut_s:g} s"))
        else:
            after = found.after_s.get(one.key)
            rows.append(Row(one.name, sample([after], "s") if after else None, found.broken.get(one.key, "")))
    rows += [Row(name, None, why) for name, why in field_.missing.items()]
    notes = (
        f"default settings; a job that hangs, one kill each, all at once, cut at {cut_s:g} s; ours at moments spread "
        "over the heartbeat",
    )
    return [Figure("PF-09", "crash recovery", checks, tuple(rows), notes)]


def _against_peers(
    mine: Sample | None, field_: contestants.Field, found: Recoveries, cut_s: float
) -> tuple[Check, ...]:
    """A peer that was cut took at least that long."""
    took = {one.name: found.after_s.get(one.key, cut_s) for one in field_.peers if one.key not in found.broken}
    checks: list[Check] = []
    if took:
        best = min(took, key=lambda name: took[name])
        checks.append(ratio(f"{best}, the best peer", mine, sample([took[best]], "s"), 1, Bar.BELOW))
    absent = [one.name for one in field_.peers if one.key in found.broken] + list(field_.missing)
    return (*checks, *(Check(f"x {name}", None, 1, Bar.BELOW) for name in absent))


def _recover_peer(place: Arena, one: Contestant, cut_s: float, found: Recoveries, options: Options) -> None:
    try:
        after_s = recovery(place, one, cut_s)
    except (NoReport, OSError, RuntimeError) as error:
        found.broken[one.key] = " ".join(str(error).split())[:200]
        options.say(f"{one.name} breaks down: {found.broken[one.key]}")
        return
    if after_s > cut_s:
        found.cut.add(one.key)
    else:
        found.after_s[one.key] = after_s
    options.say(f"{one.name}: " + (f">{cut_s:g} s" if after_s > cut_s else f"{after_s:.1f} s"))


def recovery(place: Arena, one: Contestant, cut_s: float, hold_s: float = 0.0) -> float:
    """Seconds from the kill of the worker that runs the one job to the job's first line elsewhere; infinite when it did not
    run within `cut_s`. The worker runs it for `hold_s` and a while before. Raises NoReport when it never ran at all."""
    with redis_up(place.folder) as server, place.worker(one, server.url, "hang") as victim:
        with place.producer(one, server.url, "ping", 1):
            stamps(victim, 1)
        with place.worker(one, server.url, "hang") as heir:
            time.sleep(SETTLE_S + hold_s)
            if heir.process.poll() is not None:
                raise NoReport(f"the second worker of {one.name} ended with {heir.process.returncode}")
            killed_at = time.monotonic_ns()
            victim.kill()
            try:
                started = stamps(heir, 1, cut_s)
            except NoReport:
                if heir.process.poll() is not None:
                    raise
                return float("inf")
            return (next(iter(started.values())) - killed_at) / 1e9
