"""The record of an ended job under `arq:result:<id>`, and how results and errors are made storable (QU-07, QU-17).

`["<state letter>","<index id>",attempt,"kind",enqueued,started,ended,priority,"tenant",result,request,[a,s,d,tail]]`,
times in ms; `request` (the stored array) only for failed, skipped and cancelled; the last element only when attempts,
stalls or delays were counted. A failed job's result is `{"type":..,"message":..,"traceback":..}`.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kbsync.domain.errors import PayloadRefused
from kbsync.domain.requests import Priority
from kbsync.domain.states import JobState
from kbsync.queue import strictjson
from kbsync.queue.encoding import PRIORITY_OF
from kbsync.queue.jobs import MAX_RESULT_BYTES

LETTER_OF = {JobState.COMPLETED: "c", JobState.SKIPPED: "s", JobState.CANCELLED: "x", JobState.FAILED: "f"}
STATE_OF = {letter: state for state, letter in LETTER_OF.items()}

MESSAGE_CHARACTERS = 2_000
TRACEBACK_CHARACTERS = 8_000
_FRAMES = 20


@dataclass(frozen=True, slots=True)
class JobError:
    """What is kept of an exception; reading it never needs its class."""

    type: str
    message: str
    traceback: str = ""

    def as_json(self) -> dict[str, object]:
        return {"type": self.type, "message": self.message, "traceback": self.traceback}


def describe(error: BaseException) -> JobError:
    """Type, message and traceback of `error`, cut to size. Never raises, whatever the exception's own methods do."""
    try:
        message = str(error)
    except Exception as worse:  # a broken __str__ must not hide the failure
        message = f"<its message can't be read: {type(worse).__name__}>"
    frames = "".join(traceback.format_tb(error.__traceback__, limit=-_FRAMES))
    cause = error.__cause__ or error.__context__
    if cause is not None and cause is not error:
        frames = f"{frames}caused by {type(cause).__name__}: {_safe_text(cause)[:300]}\n"
    return JobError(_type_name(error), _cut(message, MESSAGE_CHARACTERS), frames[-TRACEBACK_CHARACTERS:])


def _safe_text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # see describe
        return "?"


def _type_name(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}... ({len(text)} characters)"


def storable_result(result: Mapping[str, object]) -> bytes:
    """`result` as JSON; what is no JSON or over 64 KiB is stored as a cut text that says so."""
    if not result:
        return b"{}"
    try:
        data = strictjson.dumps(dict(result))
    except (TypeError, ValueError, RecursionError) as error:
        return strictjson.dumps({"not_storable": _cut(str(error), 200), "text": _cut(_shown(result), 1_000)})
    if len(data) <= MAX_RESULT_BYTES:
        return data
    head = data[:1_000].decode("utf-8", "ignore")
    return strictjson.dumps({"cut": True, "bytes": len(data), "text": head})


def _shown(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # the repr of a stranger's object, or RecursionError
        return f"<{type(value).__name__}>"


@dataclass(frozen=True)
class JobRecord:
    """An ended job as it is kept."""

    job_id: str
    state: JobState
    index_id: str
    attempt: int
    kind: str
    enqueued_ms: int
    started_ms: int
    ended_ms: int
    priority: Priority
    tenant: str
    result: Any
    request: list[Any] | None = None
    attempts: int = 0
    stalls: int = 0
    delays: int = 0
    tail: Mapping[str, Any] = field(default_factory=dict)


def decode_record(job_id: str, data: bytes) -> JobRecord:
    """Raises PayloadRefused for bytes that are no record."""
    try:
        value = strictjson.loads(data)
        if not isinstance(value, list):
            raise ValueError("not an array")
        letter, index_id, attempt, kind, enqueued, started, ended, number, tenant, result = value[:10]
        counts: list[Any] = value[11] if len(value) > 11 and value[11] else [0, 0, 0, None]
        return JobRecord(
            job_id, STATE_OF[letter], str(index_id), int(attempt), str(kind), int(enqueued), int(started), int(ended),
            PRIORITY_OF[number], str(tenant), result, value[10] if len(value) > 10 else None,
            int(counts[0]), int(counts[1]), int(counts[2]), counts[3] or {},
        )  # fmt: skip
    except (ValueError, TypeError, KeyError, IndexError, RecursionError) as error:
        raise PayloadRefused(f"the record of job {job_id} can't be read: {error}") from error
