"""Every form in which a provider says "later"."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratelimits.retry_after import CAP_S, QUOTA_CAP_S, RetryAfter, parse_retry_after, wait_before_next

NOW = datetime(2026, 3, 14, 9, 30, 0, tzinfo=UTC)


def http_date(seconds: int) -> str:
    return format_datetime(NOW + timedelta(seconds=seconds), usegmt=True)


def epoch(seconds: int) -> str:
    return str(int(NOW.timestamp()) + seconds)


SECONDS = [
    ("whole seconds", [("Retry-After", "90")], 90),
    ("lower case, fraction", [("retry-after", "1.5")], 1.5),
    ("blanks", [("Retry-After", "  30 ")], 30),
    ("zero is soon, not at once", [("Retry-After", "0")], 1),
    ("negative is soon", [("Retry-After", "-5")], 1),
    ("HTTP-date", [("Retry-After", http_date(90))], 90),
    ("HTTP-date of the past is soon", [("Retry-After", http_date(-90))], 1),
    ("RFC 850 date", [("Retry-After", "Saturday, 14-Mar-26 09:31:00 GMT")], 60),
    ("asctime date", [("Retry-After", "Sat Mar 14 09:32:00 2026")], 120),
    ("a date with an offset", [("Retry-After", "Sat, 14 Mar 2026 10:31:00 +0100")], 60),
    ("an ISO date", [("Retry-After", "2026-03-14T09:30:45Z")], 45),
    ("two headers: the longer", [("Retry-After", "30"), ("Retry-After", "75")], 75),
    ("one merged by a proxy", [("Retry-After", "30, 75")], 75),
    ("dates merged by a proxy", [("Retry-After", f"{http_date(20)}, {http_date(50)}")], 50),
    ("a date and a number", [("Retry-After", f"{http_date(20)}, 70")], 70),
    ("a unit", [("Retry-After", "30s")], 30),
    ("milliseconds of their own header", [("retry-after-ms", "2500")], 2.5),
    ("Retry-After before a reset", [("X-RateLimit-Reset", epoch(500)), ("Retry-After", "5")], 5),
    ("a reset as epoch", [("X-RateLimit-Reset", epoch(60))], 60),
    ("a reset as epoch in ms", [("X-RateLimit-Reset", epoch(60) + "000")], 60),
    ("a reset as epoch with a fraction", [("X-RateLimit-Reset", epoch(60) + ".25")], 60.25),
    ("a reset as seconds", [("RateLimit-Reset", "42")], 42),
    ("a reset as ISO", [("X-RateLimit-Reset", "2026-03-14T09:31Z")], 60),
    ("a reset of the past is soon", [("X-RateLimit-Reset", epoch(-60))], 1),
    ("a reset spelled with a hyphen more", [("X-Rate-Limit-Reset", epoch(15))], 15),
    ("a reset as a duration", [("x-ratelimit-reset-requests", "1m30s")], 90),
    ("a reset in ms", [("x-ratelimit-reset-tokens", "1500ms")], 1.5),
    ("the structured field", [("RateLimit", '"global-app-quota";r=0;t=600')], 600),
    ("the older structured field", [("RateLimit", "limit=100, remaining=0, reset=50")], 50),
    ("nonsense beside sense", [("Retry-After", "soon"), ("X-RateLimit-Reset", epoch(10))], 10),
]  # fmt: skip


@pytest.mark.spec("RL-05")
@pytest.mark.parametrize(("headers", "seconds"), [case[1:] for case in SECONDS], ids=[case[0] for case in SECONDS])
def test_headers(headers: list[tuple[str, str]], seconds: float) -> None:
    assert parse_retry_after(headers, now=NOW) == RetryAfter(seconds)


MESSAGES = [
    ("Request was throttled. Expected available in 42 seconds.", 42),
    ("Rate limit reached, please try again in 1m20s.", 80),
    ("Please try again in 2 minutes", 120),
    ("Too many calls; retry after 1 hour.", 3600),
    ("wait 250 ms", 1),
    ('{"message": "You are being rate limited.", "retry_after": 64.57}', 64.57),
    ('{"retry_after_ms": 6500}', 6.5),
    ("Come back in 10 seconds or, better, in 20 seconds", 20),
]


@pytest.mark.spec("RL-05")
@pytest.mark.parametrize(("message", "seconds"), MESSAGES)
def test_messages(message: str, seconds: float) -> None:
    assert parse_retry_after([], message, now=NOW) == RetryAfter(seconds)


@pytest.mark.spec("RL-05")
@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ([], ""),
        ([], "Too Many Requests"),
        ([], "<html><title>429</title>Error 1015: you are being rate limited"),
        ([("Retry-After", "")], ""),
        ([("Retry-After", "soon")], ""),
        ([("Retry-After", "nan"), ("Retry-After", "inf"), ("Retry-After", "1e9"), ("Retry-After", "٣٠")], ""),
        ([("Retry-After", "Sat, 99 Foo 2026 09:31:00 GMT")], ""),
        ([("X-RateLimit-Limit", "100"), ("X-RateLimit-Remaining", "0")], ""),
        ([("Content-Type", "text/html")], "a limit of 500 pages"),
    ],
)
def test_no_wait_is_stated(headers: list[tuple[str, str]], message: str) -> None:
    assert parse_retry_after(headers, message, now=NOW) is None


@pytest.mark.spec("RL-05")
@pytest.mark.parametrize("value", ["86401", "9" * 300, "Fri, 31 Dec 9999 23:59:59 GMT", http_date(90_000)])
def test_more_than_a_day_is_capped(value: str) -> None:
    assert parse_retry_after([("Retry-After", value)], now=NOW) == RetryAfter(CAP_S, capped=True)


@pytest.mark.spec("RL-05")
def test_a_day_exactly_is_not_capped() -> None:
    assert parse_retry_after([("Retry-After", "86400")], now=NOW) == RetryAfter(CAP_S)


@pytest.mark.spec("RL-05")
@pytest.mark.parametrize(
    ("headers", "message", "expected"),
    [
        ([], "Monthly request limit exceeded.", RetryAfter(17.0 * 86_400 + 14.5 * 3600, quota=True)),
        ([], "You have exceeded your quota for this month", RetryAfter(17.0 * 86_400 + 14.5 * 3600, quota=True)),
        ([], "Daily quota exceeded", RetryAfter(14.5 * 3600, quota=True)),
        ([("Retry-After", "1209600")], "The monthly API quota is spent", RetryAfter(1_209_600, quota=True)),
        ([("Retry-After", "9999999")], "monthly limit", RetryAfter(QUOTA_CAP_S, capped=True, quota=True)),
        ([("Retry-After", "1209600")], "slow down", RetryAfter(CAP_S, capped=True)),
    ],
)
def test_a_spent_long_quota_lasts_until_its_reset(
    headers: list[tuple[str, str]], message: str, expected: RetryAfter
) -> None:
    assert parse_retry_after(headers, message, now=NOW) == expected


def test_a_month_ends_in_december_too() -> None:
    now = datetime(2026, 12, 31, 23, 59, 30, tzinfo=UTC)
    assert parse_retry_after([], "monthly limit", now=now) == RetryAfter(30, quota=True)


@pytest.mark.spec("RL-05")
def test_a_good_answer_with_nothing_remaining_says_when_to_come_back() -> None:
    spent = [("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", epoch(60))]
    assert wait_before_next(spent, now=NOW) == RetryAfter(60)
    left = [("X-RateLimit-Remaining", "3"), ("X-RateLimit-Reset", epoch(60))]
    assert wait_before_next(left, now=NOW) is None
    assert wait_before_next([("X-RateLimit-Remaining", "0")], now=NOW) is None


@given(st.text(max_size=80), st.text(max_size=200))
def test_no_text_breaks_it(value: str, message: str) -> None:
    for name in ("Retry-After", "X-RateLimit-Reset", "RateLimit"):
        answer = parse_retry_after([(name, value)], message, now=NOW)
        assert answer is None or 1 <= answer.seconds <= QUOTA_CAP_S
