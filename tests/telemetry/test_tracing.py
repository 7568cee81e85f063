"""One trace from the API's enqueue over the job to its follow-up, and nothing of it when it is off."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode, format_span_id, format_trace_id

from kbsync.api.services import ApiServices
from kbsync.domain.errors import SettingsError
from kbsync.domain.ids import QueueName, job_id
from kbsync.domain.requests import DocumentChunks, Priority, SyncSource, unit_request_adapter, without_envelope
from kbsync.library.principals import Role
from kbsync.queue.units import job_request
from kbsync.settings import Settings
from kbsync.telemetry import tracing
from kbsync.telemetry.otel import OtelTracer
from tests.acceptance.deployment import deployed, until
from tests.api.conftest import ENQUEUE, new_token, serve

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    tracing.use_tracer(OtelTracer(exporter, part="test", environment="test", release="1", batch=False))
    yield exporter
    tracing.use_tracer(None)


def by_name(exporter: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name: span for span in exporter.get_finished_spans()}


def parent_of(span: ReadableSpan) -> str:
    assert span.parent is not None
    return format_span_id(span.parent.span_id)


def id_of(span: ReadableSpan) -> str:
    assert span.context is not None
    return format_span_id(span.context.span_id)


@pytest.mark.spec("OP-08")
async def test_one_trace_spans_the_enqueue_the_job_and_its_follow_ups(
    settings: Settings, tmp_path: Path, spans: InMemorySpanExporter
) -> None:
    (tmp_path / "a.md").write_text("# A\n\nFreezing old rows keeps the table readable.\n")
    with_files = settings.model_copy(update={"files_roots": [str(tmp_path)]})
    async with deployed(with_files) as fleet:
        runtime = fleet.runtime
        organization = await fleet.organization()
        source = await fleet.source(organization, "files", {"path": str(tmp_path)})
        client = await serve(
            ApiServices(runtime.database, runtime.enqueuer, runtime.fleet, runtime.kill_switch, with_files)
        )
        token = (await new_token(runtime.database, Role.PRODUCER)).text
        request = {"type": "sync_source", "organization_id": organization, "source_id": source}
        headers = {"Authorization": f"Bearer {token}", "traceparent": CALLER}
        async with client.post(ENQUEUE, json={"requests": [request]}, headers=headers) as answer:
            assert answer.status == 202
            (enqueued,) = (await answer.json())["requests"]

        async def chunked() -> bool:
            chunks = await fleet.fetchval("select count(*) from document_chunks")
            return chunks == 1 and "job document_chunks" in by_name(spans)

        await until(chunked, "the document's chunks")
        await client.close()
        assert not tracing._asked_by
    assert enqueued["job_id"] == job_id(SyncSource(organization_id=organization, source_id=source))
    found = by_name(spans)
    called, job, follow_up = found[f"POST {ENQUEUE}"], found["job sync_source"], found["job document_chunks"]
    trace_ids = {format_trace_id(span.context.trace_id) for span in (called, job, follow_up) if span.context}
    assert trace_ids == {CALLER.split("-")[1]}
    assert parent_of(called) == CALLER.split("-")[2]
    assert parent_of(job) == id_of(called)
    assert parent_of(follow_up) == id_of(job)
    assert job.attributes is not None
    assert job.attributes["job_id"] == enqueued["job_id"]


@pytest.mark.spec("OP-08", "OP-11")
def test_the_context_is_no_part_of_a_request() -> None:
    payload = {"version": 1, "type": "sync_source", "organization_id": 1, "source_id": 2}
    request = unit_request_adapter.validate_python(payload)
    carried = unit_request_adapter.validate_python(without_envelope({**payload, "traceparent": CALLER}))
    assert carried == request
    assert job_id(carried) == job_id(request)


@pytest.mark.spec("OP-08", "OP-11")
async def test_a_worker_that_traces_nothing_runs_what_a_tracing_one_has_enqueued(settings: Settings) -> None:
    request = job_request(DocumentChunks(organization_id=1, document_id=404), priority=Priority.NORMAL)
    traced = request._replace(payload={**request.payload, "traceparent": CALLER})
    async with deployed(settings) as fleet:
        queue = fleet.runtime.fleet.queue(QueueName.CHUNKS)
        await fleet.runtime.enqueuer.enqueue(QueueName.CHUNKS, [traced])

        async def ended() -> bool:
            return (await queue.counts()).completed == 1

        await until(ended, "the job's end")
        detail = await queue.detail(request.job_id)
    assert detail is not None
    assert detail.result["status"] == "record-missing"


async def test_callers_whose_requests_travel_together_keep_their_own_traces(spans: InMemorySpanExporter) -> None:
    seen: dict[str, str | None] = {}
    both_ask = asyncio.Barrier(2)

    async def call(name: str) -> None:
        with tracing.span(f"call {name}", "server"), tracing.asking_for([name]):
            await both_ask.wait()
            seen[f"mine {name}"] = tracing.traceparent_for(name)
            other = "b" if name == "a" else "a"
            seen[f"carried by {name}"] = tracing.traceparent_for(other)
            await both_ask.wait()

    await asyncio.gather(call("a"), call("b"))
    assert seen["mine a"] == seen["carried by b"]
    assert seen["mine b"] == seen["carried by a"]
    assert seen["mine a"] != seen["mine b"]
    assert not tracing._asked_by


def test_a_span_that_raises_is_an_error_by_class_and_quotes_nothing(spans: InMemorySpanExporter) -> None:
    with pytest.raises(ValueError, match="diary"), tracing.span("job x", "consumer", "no traceparent"):
        raise ValueError("my diary")
    (span,) = spans.get_finished_spans()
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "ValueError")
    assert span.parent is None
    assert "diary" not in span.to_json()


@pytest.mark.spec("OP-08")
async def test_spans_go_to_the_endpoint_that_is_set() -> None:
    posted: list[tuple[str, int]] = []

    async def take(request: web.Request) -> web.Response:
        posted.append((request.path, len(await request.read())))
        return web.Response()

    app = web.Application()
    app.router.add_post("/v1/traces", take)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    endpoint = f"http://127.0.0.1:{runner.addresses[0][1]}/v1/traces"
    tracing.configure_tracing(endpoint, part="api", environment="test", release="1")
    with tracing.span("one"):
        assert tracing.traceparent_for("any")
    await asyncio.to_thread(tracing.close_tracing)
    await runner.cleanup()
    ((path, size),) = posted
    assert path == "/v1/traces"
    assert size > 50
    assert not tracing.tracing_is_on()


@pytest.mark.spec("OP-08")
def test_off_it_imports_nothing_and_without_the_extra_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    program = (
        "import sys, ops.serve.api, ops.serve.workers, ops.serve.scheduler, workers.runtime\n"
        "from kbsync.telemetry import tracing\n"
        "tracing.configure_tracing(None, part='api', environment='e', release='1')\n"
        "with tracing.span('x'): assert tracing.traceparent_for('id') is None\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry.sdk')], 'imported'\n"
        "assert 'sentry_sdk' not in sys.modules or not sys.modules['sentry_sdk'].is_initialized()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    monkeypatch.setitem(sys.modules, "kbsync.telemetry.otel", None)
    with pytest.raises(SettingsError, match=r"kbsync\[otel\]"):
        tracing.configure_tracing("http://127.0.0.1:1", part="api", environment="e", release="1")
