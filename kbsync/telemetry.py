"""Structured logs and error reports. Secrets never come here: callers log ids, not credentials or bodies."""

from __future__ import annotations

import logging
import sys
from typing import Literal, Protocol

import structlog
from pydantic import SecretStr

log: structlog.stdlib.BoundLogger = structlog.get_logger("kbsync")


def configure_logs(style: Literal["json", "console"] = "json", level: int = logging.INFO) -> None:
    """One line an event on standard error: JSON for machines, coloured text for a person at a terminal."""
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if style == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.StackInfoRenderer(),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


class AboutJob(Protocol):
    @property
    def job_id(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def attempt(self) -> int: ...


def configure_sentry(dsn: SecretStr | None, environment: str) -> None:
    """Error reports, when a DSN is set: no personal data, no local variables (they could hold content or credentials)."""
    if dsn is None:
        return
    import sentry_sdk

    sentry_sdk.init(
        dsn=dsn.get_secret_value(),
        environment=environment,
        send_default_pii=False,
        include_local_variables=False,
        default_integrations=False,
    )


def report_failed_attempt(job: AboutJob, error: BaseException) -> None:
    """A failing attempt: one log line, and one report tagged with the job. Delays and skips never come here."""
    log.warning(
        "attempt_failed",
        job_id=job.job_id,
        kind=job.kind,
        attempt=job.attempt,
        error=f"{type(error).__name__}: {error}",
    )
    import sentry_sdk

    if sentry_sdk.is_initialized():
        with sentry_sdk.new_scope() as scope:
            scope.set_tag("job_id", job.job_id)
            scope.set_tag("kind", job.kind)
            scope.set_tag("attempt", str(job.attempt))
            sentry_sdk.capture_exception(error)
