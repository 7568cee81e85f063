"""What a process counts about itself, for Prometheus (OP-08). `ops/alerts` and `ops/grafana` are built on these names.

Labels are bounded by this code: queues, kinds, outcomes, providers, statuses. Never a tenant, an id or an error's text.
What is counted at every run of a job is in `tallies.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextvars import ContextVar

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import Metric

from kbsync.telemetry.tallies import RUN_BUCKETS, WAIT_BUCKETS, JobTallies

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OTHER = "other"
MOST_PROVIDERS = 40

disable_created_metrics()  # type: ignore[no-untyped-call]
REGISTRY = CollectorRegistry()
ProcessCollector(registry=REGISTRY)

_CALL_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)

BUILD = Gauge(
    "kbsync_build_info", "Version and kind of this process; always 1.", ["version", "part"], registry=REGISTRY
)

JOBS_ENQUEUED = Counter(
    "kbsync_jobs_enqueued", "Requests that the queue took, by its answer.", ["queue", "outcome"], registry=REGISTRY
)
JOBS = JobTallies()
REGISTRY.register(JOBS)
THROTTLE_DELAY_SECONDS = Histogram(
    "kbsync_throttle_delay_seconds",
    "How long a throttle put jobs off, by cause: window, host, closed (by the provider), stated (just now).",
    ["provider", "cause"],
    buckets=WAIT_BUCKETS,
    registry=REGISTRY,
)
PROVIDER_CLOSURES = Counter(
    "kbsync_provider_closures", "Waits that providers asked for.", ["provider"], registry=REGISTRY
)
PROVIDER_CALLS = Counter(
    "kbsync_provider_calls",
    "HTTP exchanges with providers by status class; 429 is one of its own, failed is no complete answer.",
    ["provider", "status"],
    registry=REGISTRY,
)
PROVIDER_CALL_SECONDS = Histogram(
    "kbsync_provider_call_seconds",
    "Until the answer of a provider was read.",
    ["provider"],
    buckets=_CALL_BUCKETS,
    registry=REGISTRY,
)
RECOVERED = Counter("kbsync_recovered", "What recovery brought back, by layer.", ["layer"], registry=REGISTRY)
RECOVERY_LAST_SUCCESS = Gauge(
    "kbsync_recovery_last_success_timestamp_seconds",
    "When the last recovery pass of this process succeeded; its start before the first one.",
    registry=REGISTRY,
)
FALLBACKS = Counter(
    "kbsync_producer_fallbacks", "Fallbacks that producers reported, by reason.", ["reason"], registry=REGISTRY
)
API_REQUESTS = Counter(
    "kbsync_api_requests", "Answers of the API by route and status.", ["method", "route", "status"], registry=REGISTRY
)
API_SECONDS = Histogram(
    "kbsync_api_request_seconds", "How long the API took.", ["route"], buckets=RUN_BUCKETS, registry=REGISTRY
)

RECOVERY_LAYERS = ("lease", "transport", "reconcile", "interrupted_sources")
STATUSES = ("2xx", "3xx", "4xx", "429", "5xx", "failed")
# A series that appears with its first event hides that event from rate() and increase(): known ones begin at 0.
for _layer in RECOVERY_LAYERS:
    RECOVERED.labels(_layer)

# Whose wire this task talks to. A run has a task of its own, so nobody sets it back.
_provider: ContextVar[str] = ContextVar("kbsync_provider", default="none")
_known_providers: dict[str, str] = {}
_PROVIDER_NAME = re.compile(r"[a-z][a-z0-9_\-]{0,31}")


def provider_label(name: str | None) -> str:
    """A source's type as a label: it is a column's text, so only so many plain names are taken."""
    if name is None:
        return "none"
    known = _known_providers.get(name)
    if known is None:
        if not _PROVIDER_NAME.fullmatch(name) or len(_known_providers) >= MOST_PROVIDERS:
            return OTHER
        known = _known_providers[name] = name
        for status in STATUSES:
            PROVIDER_CALLS.labels(name, status)
    return known


def work_for_provider(name: str | None) -> None:
    """From here on this task's calls are counted for this provider."""
    _provider.set(provider_label(name))


def current_provider() -> str:
    return _provider.get()


def provider_called(status: int | None, seconds: float) -> None:
    """An HTTP exchange of this task ended: with a status, or (None) without an answer."""
    provider = _provider.get()
    PROVIDER_CALLS.labels(provider, status_class(status)).inc()
    PROVIDER_CALL_SECONDS.labels(provider).observe(seconds)


def status_class(status: int | None) -> str:
    if status is None:
        return "failed"
    if status == 429:
        return "429"
    return f"{status // 100}xx" if 100 <= status < 600 else OTHER


def throttled(provider: str | None, cause: str, wait_s: float) -> None:
    THROTTLE_DELAY_SECONDS.labels(provider_label(provider), cause).observe(max(0.0, wait_s))


def begin_process(part: str, version: str) -> None:
    """Says what this process is."""
    BUILD.labels(version, part).set(1)


def render(state: Iterable[Metric] = ()) -> bytes:
    """A scrape's answer: this process's own metrics, then `state`, which was read for it."""
    passing = CollectorRegistry()
    passing.register(_Given(list(state)))
    return generate_latest(REGISTRY) + generate_latest(passing)


class _Given:
    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics

    def describe(self) -> Iterable[Metric]:
        return ()
