"""Error reports to Sentry, when a DSN is set: what a person should look at, once, and nothing personal.

- A job is reported when it fails for good: an attempt that is tried again is a log line and a count. As an error when the
  fault is ours, as a warning when a provider refused.
- Delays, skips, pauses and cancellations are no errors and never come here.
- Whatever else is logged as an error (`log.exception`, `log.error`) is reported by itself, at most once a minute for the
  same event of the same error.

An event is built from a list of what may be in it, not cleaned of what may not.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, MutableMapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import structlog
from pydantic import SecretStr

from kbsync.domain.errors import KbsyncError, ProviderError
from kbsync.telemetry.metrics import current_provider
from kbsync.telemetry.redaction import clean_text, without_quotations
from kbsync.telemetry.work import AboutJob, ids_here

if TYPE_CHECKING:
    from sentry_sdk.transport import Transport

SAME_AGAIN_S = 60.0
MOST_REMEMBERED = 1_000
LONGEST_MESSAGE = 1_000

# Of the log context, what is worth filtering reports by.
_TAGS = ("job_id", "kind", "queue", "attempt", "provider", "operation_id", "request_id", "trace_id", "part")
_KEPT = frozenset(
    {
        "event_id",
        "timestamp",
        "level",
        "platform",
        "environment",
        "release",
        "server_name",
        "sdk",
        "fingerprint",
        "type",
    }
)
_KEPT_OF_FRAME = (
    "filename", "function", "module", "lineno", "abs_path", "in_app", "context_line", "pre_context", "post_context"
)  # fmt: skip


def configure_sentry(
    dsn: SecretStr | None,
    environment: str,
    *,
    release: str = "",
    part: str = "",
    transport: type[Transport] | None = None,
) -> None:
    """Nothing without a DSN. `part` is the kind of process (api, worker, scheduler), a tag of each report."""
    if dsn is None:
        return
    import sentry_sdk

    sentry_sdk.init(
        dsn=dsn.get_secret_value(),
        environment=environment,
        release=release or None,
        transport=transport,
        before_send=lambda event, hint: _allowed(event),  # type: ignore[arg-type, return-value]  # an Event is a dict
        # Personal data is off by default in the SDK, and `_allowed` lets none through.
        include_local_variables=False,
        default_integrations=False,
        auto_enabling_integrations=False,
        max_breadcrumbs=0,
        max_request_body_size="never",
    )
    if part:
        sentry_sdk.get_global_scope().set_tag("part", part)


def flush_reports(timeout_s: float = 2.0) -> None:
    """Before a process ends: what is on its way is sent."""
    sentry = _sentry()
    if sentry is not None:
        sentry.flush(timeout_s)


def report_failed_attempt(job: AboutJob, error: BaseException, *, queue: str = "", is_over: bool = True) -> None:
    """A failing attempt: one log line. The one that ends the job (`is_over`): one report besides."""
    log = structlog.get_logger("kbsync")
    about = {"job_id": job.job_id, "kind": job.kind, "attempt": job.attempt, "queue": queue}
    log.warning("job_failed" if is_over else "attempt_failed", **about, error=f"{type(error).__name__}: {error}")
    if is_over:
        cause = _cause(error)
        theirs = isinstance(cause, ProviderError)
        group = ["provider", job.kind, type(cause).__name__] if theirs else None
        _send("warning" if theirs else "error", about, error=error, group=group)


def report_lost_job(job_id: str, kind: str, reason: str, *, queue: str = "") -> None:
    """A job that failed where no run saw it: it stalled its workers too often."""
    about = {"job_id": job_id, "kind": kind, "queue": queue}
    structlog.get_logger("kbsync").warning("job_failed", **about, error=reason)
    _send("error", about, message=f"a job failed unseen: {reason}", group=["unseen", kind, reason])


def report_logged_fault(_: object, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A structlog processor: lines of level error are reported, and pass on as they are."""
    if event.get("level") == "error" and _sentry() is not None:
        with suppress(Exception):  # a report that fails must not cost the line
            _report_line(event)
    return event


def _report_line(event: Mapping[str, Any]) -> None:
    error = _error_of(event.get("exc_info"))
    name = ": ".join(str(event[part])[:100] for part in ("event", "logger") if event.get(part))
    if _seldom(f"{name}:{type(error).__name__}"):
        _send("error", event, error=error, message=name, group=None if error else ["log", name])


def _error_of(exc_info: object) -> BaseException | None:
    if isinstance(exc_info, BaseException):
        return exc_info
    found = exc_info[1] if isinstance(exc_info, tuple) and len(exc_info) == 3 else exc_info and sys.exc_info()[1]
    return found if isinstance(found, BaseException) else None


def _cause(error: BaseException) -> BaseException:
    """What made a job give up: the queue's own "unrecoverable" says so by its cause."""
    if isinstance(error, KbsyncError) or error.__cause__ is None:
        return error
    return error.__cause__ if isinstance(error.__cause__, KbsyncError) else error


def _send(
    level: str,
    about: Mapping[str, object],
    *,
    error: BaseException | None = None,
    message: str = "",
    group: list[str] | None = None,
) -> None:
    sentry = _sentry()
    if sentry is None:
        return
    tags = {"provider": current_provider(), **ids_here(), **about}
    with sentry.new_scope() as scope:
        scope.set_level(level)
        if group:
            scope.fingerprint = group
        for name in _TAGS:
            if tags.get(name) not in (None, "", "none"):
                scope.set_tag(name, str(tags[name])[:200])
        if error is not None:
            scope.capture_exception(error)
        else:
            scope.capture_message(message, level=level)


def _sentry() -> Any:
    """The SDK once it is set up. It is not imported before: nobody pays for what is off."""
    sentry = sys.modules.get("sentry_sdk")
    return sentry if sentry is not None and sentry.is_initialized() else None


def _allowed(event: Mapping[str, Any]) -> dict[str, Any]:
    """What may leave: no request, user, extra data, local variables; texts without secrets and quotations."""
    kept: dict[str, Any] = {name: value for name, value in event.items() if name in _KEPT}
    kept["tags"] = {name: clean_text(str(value), 200) for name, value in (event.get("tags") or {}).items()}
    if "message" in event:
        kept["message"] = clean_text(str(event["message"]), LONGEST_MESSAGE)
    values = (event.get("exception") or {}).get("values") or []
    if values:
        kept["exception"] = {"values": [_allowed_exception(value) for value in values]}
    return kept


def _allowed_exception(value: Mapping[str, Any]) -> dict[str, Any]:
    words = str(value.get("value") or "")
    # Our own errors are sentences written for people; others repeat what they could not read.
    ours = str(value.get("module") or "").startswith(("kbsync.", "workers.", "producers.", "ops."))
    kept = {name: value[name] for name in ("type", "module", "mechanism") if name in value}
    kept["value"] = clean_text(words if ours else without_quotations(words), LONGEST_MESSAGE)
    frames = (value.get("stacktrace") or {}).get("frames") or []
    kept["stacktrace"] = {
        "frames": [{name: frame[name] for name in _KEPT_OF_FRAME if name in frame} for frame in frames]
    }
    return kept


_sent_at: dict[str, float] = {}


def _seldom(key: str, clock: Callable[[], float] = time.monotonic) -> bool:
    """True unless the same was said within the last minute."""
    now = clock()
    if now - _sent_at.get(key, -SAME_AGAIN_S) < SAME_AGAIN_S:
        return False
    if len(_sent_at) >= MOST_REMEMBERED:
        _sent_at.clear()
    _sent_at[key] = now
    return True
