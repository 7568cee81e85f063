"""kbsync's (de)serializer for arq's own `ArqRedis` and `Job` (QU-22).

    create_pool(settings, job_serializer=serialize, job_deserializer=deserialize, default_queue_name=...)

With it arq enqueues to, and reads, kbsync's queues. A stock arq `Worker` must not run on them: it takes ids unfenced.
"""

from __future__ import annotations

import asyncio
from typing import Any

from kbsync.domain.errors import PayloadRefused
from kbsync.domain.requests import Priority
from kbsync.domain.states import JobState
from kbsync.queue import strictjson
from kbsync.queue.encoding import DEFAULT_TENANT, PRIORITY_NUMBER, decode_request
from kbsync.queue.records import JobRecord, decode_record


class JobFailed(Exception):
    """What arq's `Job.result()` raises for a job that failed here."""


def serialize(value: dict[str, Any]) -> bytes:
    """arq's job dict as kbsync's array."""
    if "s" in value:
        raise PayloadRefused("results are written by kbsync's worker; a stock arq worker can't share its queues")
    args, kwargs = list(value["a"]), dict(value["k"])
    head = [PRIORITY_NUMBER[Priority.NORMAL], DEFAULT_TENANT, value["f"], value["et"]]
    plain = len(args) == 1 and not kwargs and isinstance(args[0], dict)
    return strictjson.dumps([*head, args[0]] if plain else [*head, args, kwargs])


def deserialize(data: bytes) -> dict[str, Any]:
    """Our request or record as arq's dict. Raises PayloadRefused; never unpickles."""
    if data[:2] == b'["':
        return _result_dict(decode_record("", data))
    stored = decode_request(data)
    return {"t": None, "f": stored.kind, "a": stored.args, "k": dict(stored.kwargs), "et": stored.enqueued_ms}


def _result_dict(record: JobRecord) -> dict[str, Any]:
    request = decode_request(strictjson.dumps(record.request)) if record.request else None
    result: object = record.result
    if record.state is JobState.FAILED:
        shown = record.result if isinstance(record.result, dict) else {}
        result = JobFailed(f"{shown.get('type')}: {shown.get('message')}")
    elif record.state is JobState.CANCELLED:
        result = asyncio.CancelledError("cancelled")
    return {
        "t": record.attempt, "f": record.kind,
        "a": request.args if request else (), "k": dict(request.kwargs) if request else {},
        "et": record.enqueued_ms, "s": record.state in (JobState.COMPLETED, JobState.SKIPPED), "r": result,
        "st": record.started_ms, "ft": record.ended_ms,
    }  # fmt: skip
