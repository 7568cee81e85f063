"""What a process tells about itself: logs, error reports, metrics, traces (OP-08). None of it holds a secret or content."""

from kbsync.telemetry.logs import configure_logs, log, log_context
from kbsync.telemetry.reports import configure_sentry, flush_reports, report_failed_attempt, report_lost_job

__all__ = [
    "configure_logs",
    "configure_sentry",
    "flush_reports",
    "log",
    "log_context",
    "report_failed_attempt",
    "report_lost_job",
]
