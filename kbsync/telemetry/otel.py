"""OpenTelemetry behind `tracing.Tracer`: the only file that imports it, and only when traces are switched on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import structlog
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

_KINDS = {"server": SpanKind.SERVER, "consumer": SpanKind.CONSUMER, "internal": SpanKind.INTERNAL}
_W3C = TraceContextTextMapPropagator()
EXPORT_TIMEOUT_S = 5


def exporter_to(endpoint: str) -> SpanExporter:
    """Its headers (a key of the collector, say) are OpenTelemetry's own setting, OTEL_EXPORTER_OTLP_HEADERS."""
    return OTLPSpanExporter(endpoint=endpoint, timeout=EXPORT_TIMEOUT_S)


class OtelTracer:
    """`share` of the traces that begin here are kept; one that began elsewhere is kept if it was there.

    `batch`: sent by a thread of its own, so that nobody waits for the collector."""

    def __init__(
        self, exporter: SpanExporter, *, part: str, environment: str, release: str, share: float = 1.0, batch: bool
    ) -> None:
        resource = Resource.create(
            {
                "service.name": f"kbsync-{part}",
                "service.version": release,
                "deployment.environment.name": environment,
            }
        )
        self._provider = TracerProvider(
            sampler=ParentBased(TraceIdRatioBased(share)), resource=resource, shutdown_on_exit=False
        )
        processor = BatchSpanProcessor(exporter) if batch else SimpleSpanProcessor(exporter)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("kbsync")

    @contextmanager
    def span(self, name: str, kind: str, parent: str | None, attributes: dict[str, str | int]) -> Iterator[None]:
        context = _W3C.extract({"traceparent": parent}) if parent else None
        with self._tracer.start_as_current_span(
            name,
            context=context,
            kind=_KINDS[kind],
            attributes=dict(attributes),
            record_exception=False,  # its words may quote content
            set_status_on_exception=False,
        ) as current:
            trace_id = trace.format_trace_id(current.get_span_context().trace_id)
            with structlog.contextvars.bound_contextvars(trace_id=trace_id):
                try:
                    yield
                except BaseException as error:
                    current.set_status(StatusCode.ERROR, type(error).__name__)
                    raise

    def traceparent(self) -> str | None:
        carrier: dict[str, str] = {}
        _W3C.inject(carrier)
        return carrier.get("traceparent")

    def close(self) -> None:
        self._provider.shutdown()
