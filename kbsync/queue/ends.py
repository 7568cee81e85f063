"""From how a handler ended to what the exchange script is told: pure (QU-05, QU-06, QU-07)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from kbsync.domain.requests import Priority
from kbsync.domain.retry import FIRST_BACKOFF_S, MAX_ATTEMPTS, backoff_s
from kbsync.queue import strictjson
from kbsync.queue.encoding import PRIORITY_NUMBER
from kbsync.queue.jobs import Completed, DelayJob, SkippedJob, Unrecoverable
from kbsync.queue.records import JobError, describe, storable_result
from kbsync.queue.running import Interrupt, Run

KEPT_ERRORS = 10
REASON_CHARACTERS = 500
_NORMAL = PRIORITY_NUMBER[Priority.NORMAL]
_quoted = lru_cache(maxsize=4096)(json.dumps)


@dataclass(frozen=True)
class RetryPolicy:
    """`jitter` is the share by which a backoff may be stretched (0 to 1)."""

    max_attempts: int = MAX_ATTEMPTS
    first_backoff_s: float = FIRST_BACKOFF_S
    jitter: float = 0.0


class Finish(NamedTuple):
    """One triple of the exchange script; letter and value as its header says."""

    job_id: str
    letter: str
    token: str
    value: bytes


def finish_of_value(run: Run, end: object, ended_ms: int) -> Finish:
    """What a handler returned. Raises TypeError for what is no JobEnd, ValueError for a delay without a time zone."""
    if type(end) is Completed:  # most do: the quick way
        return _record(run, "c", storable_result(end.result) if end.result else b"{}", ended_ms, run.attempts)
    match end:
        case Completed(result=result):
            return _record(run, "c", storable_result(result), ended_ms, run.attempts)
        case SkippedJob(result=result):
            return _record(run, "s", storable_result(result), ended_ms, run.attempts)
        case DelayJob(until=until, reason=reason):
            return _delay(run, until, reason, ended_ms)
        case _:
            raise TypeError(f"the handler returned {type(end).__name__}, not Completed, SkippedJob or DelayJob")


def finish_of_error(run: Run, error: BaseException, ended_ms: int, policy: RetryPolicy, draw: float) -> Finish:
    """A failing attempt, or the end of the job when it was the last one. `draw` is random in 0..1."""
    timed_out = run.interrupt is Interrupt.TIMED_OUT
    shown = JobError("TimedOut", str(error)) if timed_out else describe(error)
    attempts = run.attempts + 1
    tail: dict[str, Any] = {"errors": _errors(run, shown, ended_ms)}
    if isinstance(error, Unrecoverable) or attempts >= policy.max_attempts:
        letter = "t" if timed_out else "f"
        return _record(run, letter, strictjson.dumps(shown.as_json()), ended_ms, attempts, tail)
    wait_ms = int(backoff_s(attempts, draw * policy.jitter, policy.first_backoff_s) * 1000)
    tail |= {"reason": f"attempt {attempts} failed: {shown.type}", "until": ended_ms + wait_ms}
    return Finish(run.job_id, "r", run.lease_token, b"%d %s" % (wait_ms, strictjson.dumps(tail)))


def finish_refused(run: Run, error: Exception, ended_ms: int) -> Finish:
    """The bytes are no request that can be run here: failed, and owed to `abandoned` as payload_refused."""
    shown = strictjson.dumps({"type": "payload_refused", "message": str(error)[:2_000]})
    return _record(run, "p", shown, ended_ms, run.attempts)


def finish_cancelled(run: Run, ended_ms: int) -> Finish:
    return _record(run, "x", b'{"type":"cancelled","message":"it was asked to stop"}', ended_ms, run.attempts)


def finish_put_back(job_id: str, token: str) -> Finish:
    return Finish(job_id, "b", token, b"")


def _delay(run: Run, until: datetime, reason: str, ended_ms: int) -> Finish:
    if until.tzinfo is None:
        raise ValueError("a delay's time must be aware (UTC)")
    until_ms = int(until.timestamp() * 1000)
    wait_ms = max(until_ms - ended_ms, 0)
    tail: dict[str, Any] = {"reason": reason[:REASON_CHARACTERS], "until": until_ms}
    if errors := run.tail.get("errors"):
        tail["errors"] = errors
    return Finish(run.job_id, "d", run.lease_token, b"%d %s" % (wait_ms, strictjson.dumps(tail)))


def _errors(run: Run, shown: JobError, ended_ms: int) -> list[Mapping[str, object]]:
    earlier = run.tail.get("errors", [])
    latest = {"attempt": run.attempt, "started": run.started_ms, "ended": ended_ms, **shown.as_json()}
    return [*earlier[-KEPT_ERRORS + 1 :], latest]


def _record(
    run: Run, letter: str, result: bytes, ended_ms: int, attempts: int, tail: Mapping[str, object] | None = None
) -> Finish:
    request = run.request
    if request is None:
        head = f',{run.attempt},"",{run.started_ms},{run.started_ms},{ended_ms},{_NORMAL},"default",'
    else:
        head = (
            f",{run.attempt},{_quoted(request.kind)},{request.enqueued_ms},{run.started_ms},{ended_ms},"
            f"{request.number},{_quoted(request.tenant)},"
        )
    plain = not (attempts or run.stalls or run.delays or tail)
    if plain and letter == "c":
        return Finish(run.job_id, letter, run.lease_token, b"%b%b]" % (head.encode(), result))
    kept = b"null" if letter == "c" or request is None else run.raw
    if plain:
        end = b"," + kept + b"]"
    else:
        shown = strictjson.dumps(tail or {key: run.tail[key] for key in ("errors",) if key in run.tail} or None)
        end = b",%s,[%d,%d,%d,%s]]" % (kept, attempts, run.stalls, run.delays, shown)
    return Finish(run.job_id, letter, run.lease_token, head.encode() + result + end)
