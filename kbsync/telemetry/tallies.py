"""What is counted at every run of a job: plain additions of one thread, made into metrics at a scrape.

prometheus_client's own counters take a lock each, and a fleet that runs 45,000 jobs a second would feel them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric

RUN_BUCKETS = (0.005, 0.02, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
WAIT_BUCKETS = (0.005, 0.05, 0.25, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0, 43_200.0)
OUTCOMES = (
    "completed", "record_missing", "skipped", "delayed", "throttled", "retried", "failed", "cancelled", "put_back",
    "lease_lost",
)  # fmt: skip


class Spread:
    """A histogram of seconds. Only ever touched by the event loop's thread."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self._sum += seconds

    def add_to(self, family: HistogramMetricFamily, labels: Sequence[str]) -> None:
        total = 0
        buckets: list[tuple[str, float]] = []
        for bound, count in zip((*map(str, self._bounds), "+Inf"), self._counts, strict=True):
            total += count
            buckets.append((bound, total))
        family.add_metric(labels, buckets=buckets, sum_value=self._sum)


class JobTally:
    """The runs of one kind of job in one queue; every outcome is there from the start, at 0."""

    __slots__ = ("outcomes", "seconds", "stalls", "waits")

    def __init__(self) -> None:
        self.outcomes = dict.fromkeys(OUTCOMES, 0)
        self.seconds = Spread(RUN_BUCKETS)
        self.waits = Spread(WAIT_BUCKETS)
        self.stalls = 0


class JobTallies:
    """All of a process, as a collector of prometheus_client."""

    def __init__(self) -> None:
        self._tallies: dict[tuple[str, str], JobTally] = {}

    def of(self, queue: str, kind: str) -> JobTally:
        """The one tally of a kind; queues and kinds come from code, never from a payload."""
        return self._tallies.setdefault((str(queue), kind), JobTally())

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        by = ["queue", "kind"]
        runs = CounterMetricFamily(
            "kbsync_job_runs",
            "Runs by how they ended: delayed and throttled come back, retried is a failing attempt that is tried again.",
            labels=[*by, "outcome"],
        )
        stalls = CounterMetricFamily(
            "kbsync_job_stalls", "How often jobs lost their worker, counted when the job ends.", labels=by
        )
        seconds = HistogramMetricFamily("kbsync_job_run_seconds", "How long runs took.", labels=by)
        waits = HistogramMetricFamily(
            "kbsync_job_wait_seconds", "From enqueue to a job's first run, delays and retries left out.", labels=by
        )
        for key, tally in self._tallies.items():
            for outcome, number in tally.outcomes.items():
                runs.add_metric([*key, outcome], number)
            stalls.add_metric(key, tally.stalls)
            tally.seconds.add_to(seconds, key)
            tally.waits.add_to(waits, key)
        return [runs, stalls, seconds, waits]
