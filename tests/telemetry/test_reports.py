"""Sentry: one report a failed job, tagged, and with nothing personal or secret in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
import sentry_sdk
import structlog
from pydantic import BaseModel, SecretStr, ValidationError
from sentry_sdk.envelope import Envelope
from sentry_sdk.transport import Transport

from kbsync.domain.errors import CredentialsRefused, ProviderUnreachable
from kbsync.domain.requests import SyncSource
from kbsync.providers.contract import Provider, SourceSetup
from kbsync.queue.jobs import DelayJob, JobEnd, RunningJob, SkippedJob, Unrecoverable
from kbsync.settings import Settings
from kbsync.telemetry import (
    configure_sentry,
    log,
    log_context,
    metrics,
    report_failed_attempt,
    report_lost_job,
    reports,
)
from kbsync.telemetry.work import add_ids
from tests.acceptance.deployment import deployed, until
from workers.observing import ObservedJobs

LATER = datetime(2100, 1, 1, tzinfo=UTC)
DSN = SecretStr("http://key@127.0.0.1:9/1")


class Captured(Transport):
    events: list[dict[str, Any]] = []  # noqa: RUF012  # the class is what Sentry is given

    def capture_envelope(self, envelope: Envelope) -> None:
        event = envelope.get_event()
        assert event is not None
        Captured.events.append(json.loads(json.dumps(event, default=str)))


@dataclass(frozen=True)
class Job:
    job_id: str = "kb-document-sync-4"
    kind: str = "sync_document"
    attempt: int = 3
    payload: dict[str, object] = field(default_factory=lambda: {"secret_text": "my diary"})
    is_final_attempt: bool = True
    delays: int = 0
    stalls: int = 0


@pytest.fixture
def events() -> Iterator[list[dict[str, Any]]]:
    Captured.events = []
    reports._sent_at.clear()
    configure_sentry(DSN, "staging", release="kbsync@1.2", part="worker", transport=Captured)
    before = structlog.get_config()
    structlog.configure(
        processors=[
            add_ids,
            structlog.processors.add_log_level,
            reports.report_logged_fault,
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ]
    )
    yield Captured.events
    structlog.configure(**before)
    sentry_sdk.init()


@pytest.mark.spec("OP-08")
def test_a_failed_job_is_one_error_with_its_tags(events: list[dict[str, Any]]) -> None:
    metrics.work_for_provider("website")
    with log_context(operation_id="op-1"):
        try:
            raise RuntimeError("the table of contents is upside down")
        except RuntimeError as error:
            report_failed_attempt(Job(), error, queue="knowledge-base-sync")
    (event,) = events
    assert (event["level"], event["environment"], event["release"]) == ("error", "staging", "kbsync@1.2")
    assert event["tags"] == {
        "part": "worker", "queue": "knowledge-base-sync", "kind": "sync_document", "job_id": "kb-document-sync-4",
        "attempt": "3", "provider": "website", "operation_id": "op-1",
    }  # fmt: skip
    (exception,) = event["exception"]["values"]
    assert (exception["type"], exception["value"]) == ("RuntimeError", "the table of contents is upside down")
    assert exception["stacktrace"]["frames"]
    assert all("vars" not in frame for frame in exception["stacktrace"]["frames"])


@pytest.mark.spec("OP-08")
async def test_only_the_end_of_a_job_is_reported_and_only_failures_are(events: list[dict[str, Any]]) -> None:
    observed = ObservedJobs("knowledge-base-sync")
    job: Any = Job(attempt=1, is_final_attempt=False)
    observed.attempt_failed(job, RuntimeError("again"))
    for end in (
        DelayJob(LATER, "window full"),
        DelayJob(LATER, "QueueUnavailable: away"),
        SkippedJob({"reason": "paused"}),
    ):

        async def handler(job: RunningJob, end: JobEnd = end) -> JobEnd:
            return end

        await observed.handler(handler)(job)
    assert events == []
    final: Any = Job()
    observed.attempt_failed(final, RuntimeError("for good"))
    observed.attempt_failed(job, Unrecoverable("at once"))
    assert [event["level"] for event in events] == ["error", "error"]


@pytest.mark.spec("OP-08")
async def test_a_real_job_that_fails_three_times_is_one_report(
    settings: Settings, events: list[dict[str, Any]]
) -> None:
    def broken(source_type: str, setup: SourceSetup) -> Provider:
        raise RuntimeError("upside down")

    async with deployed(settings, build_provider=broken) as fleet:
        organization = await fleet.organization()
        source = await fleet.source(organization, "toy", {})
        (asked,) = await fleet.ask(SyncSource(organization_id=organization, source_id=source))

        async def failed() -> bool:
            status = await fleet.fetchval("select sync_status from knowledge_base_sources where id = $1", source)
            return status == "failed" and bool(events)

        await until(failed, "the third attempt")
    (event,) = events
    assert event["level"] == "error"
    assert event["tags"] == {
        "part": "worker", "queue": "knowledge-base-sync", "kind": "sync_source", "job_id": asked.job_id,
        "attempt": "3", "provider": "toy",
    }  # fmt: skip


@pytest.mark.spec("OP-08")
def test_what_a_provider_refused_is_a_warning_in_one_group(events: list[dict[str, Any]]) -> None:
    for error in (CredentialsRefused("Connect it again."), ProviderUnreachable("the page: answered 502")):
        refusal = Unrecoverable(str(error))
        refusal.__cause__ = error
        report_failed_attempt(Job(), refusal)
    assert [event["level"] for event in events] == ["warning", "warning"]
    assert events[0]["fingerprint"] == ["provider", "sync_document", "CredentialsRefused"]


@pytest.mark.spec("OP-08")
def test_a_job_that_stalled_too_often_is_reported_though_no_run_saw_it(events: list[dict[str, Any]]) -> None:
    report_lost_job("kb-document-sync-4", "sync_document", "stalled_too_often", queue="q")
    (event,) = events
    assert event["level"] == "error"
    assert event["tags"]["job_id"] == "kb-document-sync-4"


class Page(BaseModel):
    count: int


@pytest.mark.spec("OP-08")
def test_nothing_personal_or_secret_leaves(events: list[dict[str, Any]]) -> None:
    diary = "my diary of hunter2"
    sentry_sdk.set_user({"email": "ann@example.org", "ip_address": "10.0.0.1"})
    sentry_sdk.set_extra("payload", diary)
    sentry_sdk.set_context("document", {"text": diary})
    sentry_sdk.add_breadcrumb(message=diary)
    try:
        try:
            Page.model_validate({"count": diary})
        except ValidationError as error:
            raise ValueError(
                f"'{diary}' at https://ann:pw@example.org/private?q=hunter2 with Bearer abcdefgh12345678"
            ) from error
    except ValueError as error:
        report_failed_attempt(Job(), error)
    assert not sentry_sdk.get_client().options["send_default_pii"]
    assert not sentry_sdk.get_client().options["include_local_variables"]
    (event,) = events
    said = json.dumps([event["exception"]["values"][n]["value"] for n in range(len(event["exception"]["values"]))])
    for secret in ("diary", "hunter2", "ann", "pw@", "abcdefgh12345678"):
        assert secret not in said
    assert not {"user", "extra", "contexts", "breadcrumbs", "request", "modules"} & set(event)
    shown = json.dumps({name: value for name, value in event.items() if name != "exception"})
    assert "diary" not in shown
    assert "ann@" not in shown


@pytest.mark.spec("OP-08")
def test_faults_that_are_logged_are_reported_seldom(events: list[dict[str, Any]]) -> None:
    for _ in range(3):
        try:
            raise KeyError("column")
        except KeyError:
            with log_context(request_id="r-1"):
                log.exception("api_fault", path="/v1/search?q=secret")
        log.error("outbox_row_refused", reason="my diary")
        log.warning("relay_waits", error="away")
    log.error("library_log", logger="asyncpg.pool", message="my diary")
    fault, refused, library = events
    assert library["message"] == "library_log: asyncpg.pool"
    assert fault["exception"]["values"][-1]["type"] == "KeyError"
    assert fault["tags"]["request_id"] == "r-1"
    assert refused["message"] == "outbox_row_refused"
    assert "diary" not in json.dumps(refused)
    assert "q=secret" not in json.dumps(refused)


def test_without_a_dsn_nothing_is_set_up_and_reports_are_lines_only() -> None:
    sentry_sdk.init()
    configure_sentry(None, "staging")
    report_failed_attempt(Job(), RuntimeError("x"))
    assert reports._seldom("k", clock=lambda: 10.0)
    assert not reports._seldom("k", clock=lambda: 69.0)
    assert reports._seldom("k", clock=lambda: 71.0)
