"""Traces across enqueue -> job -> follow-up, when an endpoint is set (OP-08). Off, nothing of OpenTelemetry is imported.

The context travels as W3C `traceparent`: in by the header of an API call, on by the envelope of a job's payload
(`kbsync.domain.requests.without_envelope`). It is no part of a job's identity.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Literal, Protocol

from kbsync.domain.errors import SettingsError

SpanKind = Literal["server", "consumer", "internal"]


class Tracer(Protocol):
    """`kbsync.telemetry.otel.OtelTracer` in earnest."""

    def span(
        self, name: str, kind: SpanKind, parent: str | None, attributes: dict[str, str | int]
    ) -> AbstractContextManager[None]: ...

    def traceparent(self) -> str | None:
        """The context of the current span, or None outside of one."""
        ...

    def close(self) -> None: ...


_tracer: Tracer | None = None
# Job id -> who asked, while a caller waits for its requests to be carried by somebody else's task.
_asked_by: dict[str, str] = {}


def use_tracer(tracer: Tracer | None) -> None:
    global _tracer
    _tracer = tracer


def configure_tracing(endpoint: str | None, *, part: str, environment: str, release: str, share: float = 1.0) -> None:
    """Nothing without an endpoint (an OTLP/HTTP address of traces). Raises SettingsError without the extra `otel`."""
    if endpoint is None:
        return
    try:
        from kbsync.telemetry.otel import OtelTracer, exporter_to
    except ImportError:
        raise SettingsError("KBSYNC_OTEL_ENDPOINT needs `pip install kbsync[otel]`") from None
    use_tracer(
        OtelTracer(exporter_to(endpoint), part=part, environment=environment, release=release, share=share, batch=True)
    )


def close_tracing() -> None:
    """Before a process ends: what is on its way is sent."""
    if _tracer is not None:
        _tracer.close()
        use_tracer(None)


def tracing_is_on() -> bool:
    return _tracer is not None


def span(
    name: str, kind: SpanKind = "internal", parent: str | None = None, **attributes: str | int
) -> AbstractContextManager[None]:
    """A span around the block, below `parent` (a traceparent) or the current one. What the block raises is noted by class."""
    return nullcontext() if _tracer is None else _tracer.span(name, kind, parent, attributes)


def traceparent_for(job_id: str) -> str | None:
    """The context that a job is enqueued in: its caller's, else the current one."""
    if _tracer is None:
        return None
    return _asked_by.get(job_id) or _tracer.traceparent()


@contextmanager
def asking_for(job_ids: Iterable[str]) -> Iterator[None]:
    """While the block waits, these jobs are enqueued in this caller's context, whichever task does it."""
    context = None if _tracer is None else _tracer.traceparent()
    if context is None:
        yield
        return
    mine = list(job_ids)
    _asked_by.update(dict.fromkeys(mine, context))
    try:
        yield
    finally:
        for job_id in mine:
            if _asked_by.get(job_id) == context:
                del _asked_by[job_id]
