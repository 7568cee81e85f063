"""Structured logs: one line an event, with the ids of what it belongs to.

    with log_context(operation_id=...):  every line in between carries it; so it is for job_id, request_id, trace_id ...

Secrets never come here: callers log ids, not credentials or bodies, and what looks like a secret is hidden all the same.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from typing import Any, Literal

import structlog

from kbsync.telemetry.redaction import clean
from kbsync.telemetry.reports import report_logged_fault
from kbsync.telemetry.work import add_ids

log: structlog.stdlib.BoundLogger = structlog.get_logger("kbsync")

log_context = structlog.contextvars.bound_contextvars

_OWN = frozenset({"event", "level", "timestamp"})


def configure_logs(style: Literal["json", "console"] = "json", level: int = logging.INFO) -> None:
    """One line an event on standard error: JSON for machines, coloured text for a person at a terminal.

    What other libraries log by `logging` goes the same way, from warnings up."""
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if style == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            add_ids,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.StackInfoRenderer(),
            report_logged_fault,
            structlog.processors.format_exc_info,
            hide_secrets,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(handlers=[_ToStructlog()], level=logging.WARNING, force=True)


def hide_secrets(_: object, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A structlog processor: no value that is named like a secret or looks like one gets past it."""
    for name, value in event.items():
        if name not in _OWN or name == "event":
            event[name] = clean(value, "" if name in _OWN else name)
    return event


class _ToStructlog(logging.Handler):
    """Lines of `logging` as events of structlog."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            write = log.error if record.levelno >= logging.ERROR else log.warning
            write("library_log", logger=record.name, message=record.getMessage(), exc_info=record.exc_info)
        except Exception:  # a line that can't be written must not fail what it was about
            self.handleError(record)
