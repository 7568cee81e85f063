"""Structured logs and error reports. Secrets never come here: callers log ids, not credentials or bodies."""

from __future__ import annotations

import logging
import sys
from typing import Literal

import structlog

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
