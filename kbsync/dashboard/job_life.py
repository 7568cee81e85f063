"""Where a job's time went: its steps from enqueued to ended, and its attempts. All pure."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kbsync.dashboard.job_words import short_reason, short_type
from kbsync.domain.states import ENDED_JOB_STATES, JobState
from kbsync.queue.views import JobDetail

ATTEMPTS_SHOWN = 10
TRACEBACK_BUDGET = 12_000  # bytes of page
MESSAGE_BUDGET = 3_000
PAYLOAD_BUDGET = 16_000


@dataclass(frozen=True)
class Step:
    """`look` is a state's colour and glyph. `left` and `width` place its bar in 0..100; `took_ms` None: it goes on."""

    at_ms: int
    look: str
    text: str
    took_ms: int | None
    left: float = 0
    width: float = 0


@dataclass(frozen=True)
class Attempt:
    number: int
    name: str
    message: str
    traceback: str
    began_ms: int | None
    ended_ms: int | None


def steps_of(detail: JobDetail, now: datetime) -> list[Step]:
    """Oldest first. What is not recorded (when earlier delays were) is said in the step that holds it."""
    view, now_ms = detail.view, int(now.timestamp() * 1000)
    if not view.readable or not view.enqueued_ms:
        return []
    steps: list[Step] = []
    at = view.enqueued_ms
    delayed = f", delayed {_times(view.delays)}" if view.delays else ""
    for number, attempt in enumerate(attempts_of(detail)[::-1]):
        if attempt.began_ms is None or attempt.ended_ms is None:
            continue
        waited = "Waited before the next attempt" if number else f"Enqueued, in line{delayed}"
        steps.append(Step(at, "delayed" if number or view.delays else "waiting", waited, max(0, attempt.began_ms - at)))
        failed = f"Attempt {attempt.number} failed: {attempt.name}"
        steps.append(Step(attempt.began_ms, "failed", failed, max(0, attempt.ended_ms - attempt.began_ms)))
        at = attempt.ended_ms
    steps += _last(detail, at, now_ms, "" if steps else delayed)
    return _placed(steps, now_ms)


def _last(detail: JobDetail, at: int, now_ms: int, delayed: str) -> list[Step]:
    view = detail.view
    in_line = f"Enqueued, in line{delayed}" if at == view.enqueued_ms else "In line again"
    if view.state in ENDED_JOB_STATES and view.ended_ms is not None:
        if at >= view.ended_ms:
            return []  # its last attempt is its end
        began = max(view.started_ms or view.ended_ms, at)
        look = {JobState.COMPLETED: "completed", JobState.SKIPPED: "skipped", JobState.CANCELLED: "cancelled"}
        ran = f"Ran, {view.state}" if view.ended_ms > began else view.state.value.capitalize()
        return [
            Step(at, "delayed" if delayed else "waiting", in_line, began - at),
            Step(began, look.get(view.state, "failed"), ran, view.ended_ms - began),
        ]
    match view.state:
        case JobState.DELAYED:
            due = view.until_ms or now_ms
            reason = f": {short_reason(view.reason[:300])}" if view.reason else ""
            head = f"Enqueued{delayed}, delayed" if at == view.enqueued_ms else "Delayed"
            return [Step(at, "delayed", f"{head}{reason}", due - at)]
        case JobState.ACTIVE:
            # When it was handed out is not kept.
            return [Step(at, "active", f"{in_line}; handed to a worker since, and runs", None)]
        case _:
            return [Step(at, "waiting", in_line, None)]


def _times(many: int) -> str:
    return "once" if many == 1 else "twice" if many == 2 else f"{many:,} times"


def _placed(steps: list[Step], now_ms: int) -> list[Step]:
    if not steps:
        return []
    first = steps[0].at_ms
    ends = [step.at_ms + (max(0, now_ms - step.at_ms) if step.took_ms is None else step.took_ms) for step in steps]
    whole = max(1, max(ends) - first)
    return [
        Step(
            step.at_ms, step.look, step.text, step.took_ms,
            round(min(99.0, max(0.0, 100 * (step.at_ms - first) / whole)), 1),
            round(min(100.0, max(1.0, 100 * (end - step.at_ms) / whole)), 1),
        )
        for step, end in zip(steps, ends, strict=True)
    ]  # fmt: skip


def attempts_of(detail: JobDetail) -> list[Attempt]:
    """The failed attempts that are kept, newest first. Records of others may hold anything."""
    found: list[Attempt] = []
    for number, error in enumerate(list(detail.errors)[-ATTEMPTS_SHOWN:], 1):
        if isinstance(error, Mapping):
            found.append(_attempt(error, number))
    if not found and detail.view.error and detail.view.state is JobState.FAILED:
        found.append(_attempt(detail.view.error, max(detail.view.attempts, 1)))
    return found[::-1]


def _attempt(error: Mapping[str, Any], number: int) -> Attempt:
    given = _whole(error.get("attempt"))
    return Attempt(
        number if given is None else given,
        short_type(error.get("type")) or "Error",
        bounded(str(error.get("message") or ""), MESSAGE_BUDGET)[0],
        bounded(str(error.get("traceback") or ""), TRACEBACK_BUDGET)[0],
        _whole(error.get("started")),
        _whole(error.get("ended")),
    )


def _whole(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < 10**15 else None


def payload_text(value: object, most: int = 4 * PAYLOAD_BUDGET) -> str:
    """Indented JSON up to about `most` characters: indents alone can make 256 KiB into gigabytes."""
    parts: list[str] = []
    size = 0
    for part in json.JSONEncoder(indent=2, ensure_ascii=False).iterencode(value):
        parts.append(part)
        size += len(part)
        if size > most:
            break
    return "".join(parts)


def bounded(text: str, budget: int) -> tuple[str, bool]:
    """As much of `text` as takes `budget` bytes on a page, and whether that is less than all of it."""
    spent = 0
    for at, character in enumerate(text):
        spent += _bytes_on_page(character)
        if spent > budget:
            return text[:at], True
    return text, False


def _bytes_on_page(character: str) -> int:
    if character in "&<>\"'":
        return 5
    if " " <= character <= "~" or character == "\n":
        return 1
    coded = unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
    return 36 if coded else 4
