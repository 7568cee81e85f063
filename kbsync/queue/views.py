"""What readers of a queue are shown: plain values, safe to make from hostile bytes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kbsync.domain.errors import PayloadRefused
from kbsync.domain.requests import Priority
from kbsync.domain.states import JobState
from kbsync.queue import strictjson
from kbsync.queue.encoding import PRIORITY_OF, decode_request
from kbsync.queue.records import STATE_OF, JobRecord, decode_record

HEAD_BYTES = 256
_LETTER = re.compile(rb'^\["([csxf])"')
_HEAD = re.compile(rb'^\[([012]),"([^"]*)","([^"\\]*)",(\d{1,15})[,\]]')


@dataclass(frozen=True)
class JobFilter:
    """Every given part must hold. `error` is part of a failed job's error type or message, in any case; `reason` is how a
    delayed job's reason begins."""

    kind: str | None = None
    tenant: str | None = None
    error: str | None = None
    reason: str | None = field(default=None, kw_only=True)

    @property
    def matches_all(self) -> bool:
        return not (self.kind or self.tenant or self.error or self.reason)

    def matches(self, job: JobView) -> bool:
        if self.kind and job.kind != self.kind:
            return False
        if self.tenant and job.tenant != self.tenant:
            return False
        if self.reason and not (job.reason or "").startswith(self.reason):
            return False
        if not self.error:
            return True
        shown = f"{(job.error or {}).get('type', '')}: {(job.error or {}).get('message', '')}"
        return self.error.casefold() in shown.casefold()


@dataclass(frozen=True)
class JobView:
    """A row of a list. Times in ms of Redis's clock; `until_ms` is a delayed job's due time."""

    job_id: str
    state: JobState
    kind: str
    tenant: str
    priority: Priority
    enqueued_ms: int = 0
    until_ms: int | None = None
    lease_ends_ms: int | None = None
    started_ms: int | None = None
    ended_ms: int | None = None
    attempts: int = 0
    stalls: int = 0
    delays: int = 0
    reason: str | None = None
    error: Mapping[str, Any] | None = None
    readable: bool = True


@dataclass(frozen=True)
class JobDetail:
    """All that is known of one job. `request` is its payload, None when it was not kept or can't be read."""

    view: JobView
    request: Mapping[str, object] | None
    errors: Sequence[Mapping[str, Any]] = ()
    result: Any = None
    progress: Mapping[str, Any] | None = None
    rerun_pending: bool = False
    stop_asked: bool = False
    lease_token: str | None = None


@dataclass(frozen=True)
class Page:
    """`cursor` continues; None when the end was reached. `looked_at` says how many jobs were read for this page."""

    jobs: list[JobView] = field(default_factory=list)
    cursor: str | None = None
    looked_at: int = 0


def live_view(job_id: str, state: JobState, score: float, head: bytes, meta: bytes | None) -> JobView:
    """A row from a payload's first 256 bytes (or all of it) and the job's meta."""
    kind, tenant, priority, enqueued, readable = "", "", Priority.NORMAL, 0, True
    found = _HEAD.match(head)
    if found:
        priority = PRIORITY_OF[int(found[1])]
        tenant, kind, enqueued = found[2].decode("utf-8", "replace"), found[3].decode("utf-8", "replace"), int(found[4])
    else:
        try:
            stored = decode_request(head)
            kind, tenant, priority, enqueued = stored.kind, stored.tenant, stored.priority, stored.enqueued_ms
        except PayloadRefused:
            readable = False
    attempts, stalls, delays, tail = read_meta(meta)
    return JobView(
        job_id, state, kind, tenant, priority, enqueued,
        until_ms=int(score) if state is JobState.DELAYED else None,
        lease_ends_ms=int(score) if state is JobState.ACTIVE else None,
        attempts=attempts, stalls=stalls, delays=delays, reason=tail.get("reason"),
        error=(tail.get("errors") or [None])[-1], readable=readable,
    )  # fmt: skip


def ended_view(record: JobRecord) -> JobView:
    failed = record.state is JobState.FAILED and isinstance(record.result, dict)
    result = record.result if isinstance(record.result, dict) else {}
    reason = result.get("reason") or result.get("type")
    return JobView(
        record.job_id, record.state, record.kind, record.tenant, record.priority, record.enqueued_ms,
        started_ms=record.started_ms, ended_ms=record.ended_ms, attempts=record.attempts, stalls=record.stalls,
        delays=record.delays, reason=str(reason) if reason and record.state is not JobState.COMPLETED else None,
        error=record.result if failed else None,
    )  # fmt: skip


def unreadable_view(job_id: str, state: JobState) -> JobView:
    return JobView(job_id, state, "", "", Priority.NORMAL, readable=False)


def read_meta(meta: bytes | None) -> tuple[int, int, int, dict[str, Any]]:
    """attempts, stalls, delays and the JSON tail of Q:meta; zeros for what is not there."""
    if not meta:
        return 0, 0, 0, {}
    attempts, stalls, rest = meta.split(b",", 2)
    digits = len(rest) - len(rest.lstrip(b"0123456789"))
    tail = strictjson.loads(rest[digits:]) if len(rest) > digits else {}
    return int(attempts), int(stalls), int(rest[:digits]), tail if isinstance(tail, dict) else {}


def live_detail(
    view: JobView,
    raw: bytes,
    meta: bytes | None,
    progress: bytes | None,
    token: bytes | None,
    *,
    rerun: bool,
    stop: bool,
) -> JobDetail:
    _, _, _, tail = read_meta(meta)
    shown = strictjson.loads(progress) if progress else None
    return JobDetail(
        view,
        _payload_of(raw),
        errors=tail.get("errors", []),
        progress=shown if isinstance(shown, dict) else None,
        rerun_pending=rerun,
        stop_asked=stop,
        lease_token=token.decode() if token else None,
    )


def ended_detail(job_id: str, data: bytes) -> JobDetail:
    try:
        record = decode_record(job_id, data)
    except PayloadRefused:
        found = _LETTER.match(data)
        state = STATE_OF[found[1].decode()] if found else JobState.FAILED
        return JobDetail(unreadable_view(job_id, state), None)
    request = _payload_of(strictjson.dumps(record.request)) if record.request else None
    return JobDetail(ended_view(record), request, errors=record.tail.get("errors", []), result=record.result)


def _payload_of(raw: bytes) -> Mapping[str, object] | None:
    try:
        return decode_request(raw).payload
    except PayloadRefused:
        return None
