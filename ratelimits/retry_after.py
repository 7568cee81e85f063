"""What a provider's answer says about when to come back: every legal and common form (RL-05). Pure.

The strongest statement wins: Retry-After, then a reset header, then the message's text. Several values of one strength:
the longest. A wait of the past means soon, never at once; one over 24 h is capped, unless the provider names a long
quota (a monthly one) as spent.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

FLOOR_S = 1.0
CAP_S = 24 * 3600.0
QUOTA_CAP_S = 32 * 24 * 3600.0
MESSAGE_LOOK = 4_096

_EPOCH_FROM_S = 1e9  # a reset "in 1,000,000,000 seconds" is a point in time
_EPOCH_FROM_MS = 1e11

Headers = Iterable[tuple[str, str]]


@dataclass(frozen=True)
class RetryAfter:
    """`seconds` is at least the floor. `capped`: the provider said more. `quota`: a long quota is spent until then."""

    seconds: float
    capped: bool = False
    quota: bool = False


def parse_retry_after(headers: Headers, message: str = "", *, now: datetime) -> RetryAfter | None:
    """The stated wait of a 429, 503 or 529, or None when none is stated (then the caller backs off: a failing attempt).

    `headers` are name and value pairs, a name may come more than once; `message` is the body's text or a part of it;
    `now` is aware."""
    message = message[:MESSAGE_LOOK]
    quota = _QUOTA.search(message)
    stated = _strongest(list(headers), message, now)
    if stated is None and quota is not None:
        stated = _until_reset(quota, now)
    if stated is None:
        return None
    cap = QUOTA_CAP_S if quota else CAP_S
    return RetryAfter(max(FLOOR_S, min(stated, cap)), capped=stated > cap, quota=quota is not None)


def wait_before_next(headers: Headers, *, now: datetime) -> RetryAfter | None:
    """A successful answer that says nothing remains: when the next call may be made. None when it may be made now."""
    pairs = list(headers)
    remaining = [value.strip() for name, value in pairs if name.strip().lower() in _REMAINING]
    if not any(_ZERO.fullmatch(value) for value in remaining):
        return None
    waits = list(_resets(pairs, now))
    if not waits:
        return None
    return RetryAfter(max(FLOOR_S, min(max(waits), CAP_S)), capped=max(waits) > CAP_S)


def _strongest(headers: list[tuple[str, str]], message: str, now: datetime) -> float | None:
    for waits in (_retry_afters(headers, now), _resets(headers, now), _in_words(message)):
        found = list(waits)
        if found:
            return max(found)
    return None


_REMAINING = frozenset({"x-ratelimit-remaining", "x-rate-limit-remaining", "ratelimit-remaining"})
_ZERO = re.compile(r"0+(?:\.0+)?")


# --- headers ------------------------------------------------------------------------------------------------------

_RETRY_AFTER = frozenset({"retry-after", "x-retry-after"})
_IN_MS = frozenset({"retry-after-ms", "x-retry-after-ms", "x-ms-retry-after-ms"})
_RESET = re.compile(r"(?:x-)?rate-?limit-reset(?:-(?:after|requests|tokens))?")
_STRUCTURED = frozenset({"ratelimit", "beta-ratelimit"})
_STRUCTURED_WAIT = re.compile(r"(?:^|[;,\s])(?:t|reset)\s*=\s*(\d{1,15})", re.ASCII | re.IGNORECASE)


def _retry_afters(headers: list[tuple[str, str]], now: datetime) -> Iterator[float]:
    for name, value in headers:
        name = name.strip().lower()
        if name in _RETRY_AFTER:
            yield from _waits_in(value, now, epochs=False)
        elif name in _IN_MS:
            yield from (ms / 1000 for ms in _waits_in(value, now, epochs=False))


def _resets(headers: list[tuple[str, str]], now: datetime) -> Iterator[float]:
    for name, value in headers:
        name = name.strip().lower()
        if _RESET.fullmatch(name):
            yield from _waits_in(value, now, epochs=True)
        elif name in _STRUCTURED:
            yield from (float(seconds) for seconds in _STRUCTURED_WAIT.findall(value))


_DATES = re.compile(
    r"(?:[A-Za-z]{3,9},?\s+)?\d{1,2}[\s-][A-Za-z]{3}[\s-]\d{2,4}\s+\d{1,2}:\d{2}:\d{2}(?:\s+(?:GMT|UTC?|Z|[+-]\d{4}))?"
    r"|[A-Za-z]{3}\s+[A-Za-z]{3}\s+\d{1,2}\s+\d{1,2}:\d{2}:\d{2}\s+\d{4}"
    r"|\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})?",
    re.ASCII,
)
_NUMBER = re.compile(r"-?\d{1,300}(?:\.\d{0,30})?|-?\.\d{1,30}", re.ASCII)
_DURATION = re.compile(
    r"(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m(?!s))?(?:(\d{1,9}(?:\.\d{1,9})?)s)?(?:(\d{1,9}(?:\.\d{1,9})?)ms)?",
    re.ASCII | re.IGNORECASE,
)


def _waits_in(value: str, now: datetime, *, epochs: bool) -> Iterator[float]:
    """Every wait in a header's value, in seconds from `now`: dates, numbers (epochs when allowed) and "1m30s"."""
    value = value[:1_024]
    for date in _DATES.findall(value):
        when = _date(date)
        if when is not None:
            yield (when - now).total_seconds()
    for part in _DATES.sub(",", value).split(","):
        part = part.strip().strip('"').strip()
        if _NUMBER.fullmatch(part):
            yield _number(float(part), now, epochs)
        elif part and (match := _DURATION.fullmatch(part)):
            days, hours, minutes, seconds, ms = (float(group or 0) for group in match.groups())
            yield ((days * 24 + hours) * 60 + minutes) * 60 + seconds + ms / 1000


def _number(number: float, now: datetime, epochs: bool) -> float:
    if epochs and number >= _EPOCH_FROM_MS:
        return number / 1000 - now.timestamp()
    if epochs and number >= _EPOCH_FROM_S:
        return number - now.timestamp()
    return number


def _date(value: str) -> datetime | None:
    try:
        when = (
            datetime.fromisoformat(value) if value[0].isdigit() and value[4:5] == "-" else parsedate_to_datetime(value)
        )
    except (ValueError, OverflowError):
        return None
    return when if when.tzinfo else when.replace(tzinfo=UTC)


# --- words --------------------------------------------------------------------------------------------------------

_UNIT_S = {"ms": 0.001, "m": 60.0, "s": 1.0, "h": 3600.0, "d": 86_400.0}
_WORDS = re.compile(
    r"\b(?:in|after|for|wait)\s+(?:about\s+|another\s+|at least\s+)?(\d{1,9}(?:\.\d{1,9})?)\s*"
    r"(milliseconds?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d)\b",
    re.ASCII | re.IGNORECASE,
)
_WORD_DURATION = re.compile(
    r"\b(?:in|after|for|wait)\s+((?:\d{1,9}(?:\.\d{1,9})?(?:ms|[dhms])){2,5})(?![a-z\d])", re.ASCII | re.IGNORECASE
)
_JSON_WAIT = re.compile(r'"retry_?after(_ms|_seconds)?"\s*:\s*"?(\d{1,15}(?:\.\d{1,9})?)', re.ASCII | re.IGNORECASE)
_QUOTA = re.compile(
    r"\b(?P<every>daily|monthly|per[ -]day|per[ -]month)\s+(?:\w+\s+){0,3}?(?:limit|quota|allowance|allotment)\b"
    r"|\b(?:limit|quota|allowance|allotment)\s+(?:\w+\s+){0,4}?(?P<for>(?:this|the|per|each|a)\s+(?:day|month))\b",
    re.ASCII | re.IGNORECASE,
)


def _in_words(message: str) -> Iterator[float]:
    for number, unit in _WORDS.findall(message):
        unit = unit.lower()
        yield float(number) * (_UNIT_S["ms"] if unit.startswith(("ms", "milli")) else _UNIT_S[unit[0]])
    for duration in _WORD_DURATION.findall(message):
        match = _DURATION.fullmatch(duration)
        if match:
            days, hours, minutes, seconds, ms = (float(group or 0) for group in match.groups())
            yield ((days * 24 + hours) * 60 + minutes) * 60 + seconds + ms / 1000
    for unit, number in _JSON_WAIT.findall(message):
        yield float(number) / (1000 if unit.lower() == "_ms" else 1)


def _until_reset(quota: re.Match[str], now: datetime) -> float:
    """A spent quota that names no time: until the next day or month begins, in UTC."""
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if "month" in quota.group(0).lower():
        reset = (today.replace(day=1) + timedelta(days=32)).replace(day=1)
    else:
        reset = today + timedelta(days=1)
    return float(math.ceil((reset - now).total_seconds()))
