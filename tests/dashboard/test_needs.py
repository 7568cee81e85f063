"""What needs a person, as pure decisions, and the sentence that the overview opens with (OP-05)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest

from kbsync.dashboard.needs import (
    FailedGroup,
    FlagNote,
    QueueStanding,
    SpentQuota,
    Standing,
    is_long_quota,
    needs_of,
    tick_is_missed,
    verdict,
)
from kbsync.library.overview import HeldRemoval, LastTick, SourceBehind
from kbsync.library.recoveries import RecoveryBeat

NOW = datetime(2026, 8, 25, 14, 2, 31, tzinfo=UTC)
DUE = datetime(2026, 8, 25, 1, 0, tzinfo=UTC)
BEAT = RecoveryBeat(first_at=NOW - timedelta(days=3), at=NOW - timedelta(seconds=13), took_ms=84, stood_down=False)
TICK = LastTick(date(2026, 8, 25), DUE, DUE + timedelta(minutes=3), False, {})
WELL = Standing(now=NOW, tick=TICK, recovery=BEAT, queues=[QueueStanding("q", 5, 1, False, 2.0)])


def source(id: int, name: str = "Handbook", status: str = "failed") -> SourceBehind:
    return SourceBehind(id, name, "notion", "Initech", status, "Notion refused the token (401)", NOW, None)


def group(**changes: object) -> FailedGroup:
    made = FailedGroup("q", "org-2", "Initech", "CredentialsRefused", "Notion refused the token (401)", 198, NOW)
    return replace(made, **changes)  # type: ignore[arg-type]


def words(standing: Standing) -> list[str]:
    return [need.what for need in needs_of(standing)]


def test_a_fleet_that_goes_on_by_itself_needs_nobody() -> None:
    assert needs_of(WELL) == []
    assert verdict([], WELL) == "Nothing needs a person."


def test_a_queue_whose_jobs_wait_without_a_worker_needs_one_unless_somebody_paused_it() -> None:
    stuck = QueueStanding("authoring", 3, 0, False, 1_320.0)
    [need] = needs_of(replace(WELL, queues=[stuck]))
    assert need.what == "No worker serves authoring."
    assert need.why.startswith("3 jobs wait, the oldest for 22 min.")
    assert need.command == "kbsync worker authoring"
    assert words(replace(WELL, queues=[replace(stuck, paused=True)])) == []
    assert words(replace(WELL, queues=[replace(stuck, waiting=0)])) == []
    assert words(replace(WELL, queues=[replace(stuck, workers=1)])) == []


def test_failed_jobs_are_one_thing_for_each_tenant_and_error() -> None:
    [need] = needs_of(replace(WELL, failed=[group()]))
    assert need.what == "198 jobs of Initech failed for good."
    assert "Notion refused the token (401)" in need.why
    assert need.to == "/queues/q?state=failed&tenant=org-2&error=CredentialsRefused"
    [need] = needs_of(replace(WELL, failed=[group(at_least=True, many=200)]))
    assert need.what == "At least 200 jobs of Initech failed for good."


def test_few_failed_sources_are_named_and_many_are_counted() -> None:
    three = [source(n) for n in (1, 2, 3)]
    assert len(needs_of(replace(WELL, failed_sources=three, failed_sources_many=3))) == 3
    [need] = needs_of(replace(WELL, failed_sources=three, failed_sources_many=12))
    assert (need.what, need.to) == ("12 sources failed to sync.", "/sources?status=failed")
    assert "and 10 more" in need.why


@pytest.mark.spec("LS-09")
def test_a_held_removal_waits_for_a_person() -> None:
    held = HeldRemoval(11, "support.globex.example", "website", "Globex", 412, 500, NOW)
    [need] = needs_of(replace(WELL, held=[held], held_many=1))
    assert need.what == "support.globex.example, Globex: a removal waits for approval."
    assert "412 of 500 documents" in need.why
    [unknown] = needs_of(replace(WELL, held=[replace(held, count=None, of=None)], held_many=1))
    assert "many of its documents" in unknown.why


def test_recovery_that_is_silent_or_never_ran_needs_a_scheduler() -> None:
    assert words(replace(WELL, recovery=None)) == ["Recovery has never run."]
    late = replace(BEAT, at=NOW - timedelta(minutes=4))
    assert words(replace(WELL, recovery=late)) == ["Recovery is silent for 4 min."]
    assert words(replace(WELL, recovery=replace(BEAT, at=NOW - timedelta(minutes=2)))) == []


@pytest.mark.parametrize(
    ("tick", "recovery", "now", "missed"),
    [
        (TICK, BEAT, NOW, False),
        (replace(TICK, skipped=True, finished_at=None), BEAT, NOW, False),  # the kill switch was on: on purpose
        (replace(TICK, finished_at=None), BEAT, NOW, False),  # it runs, or its job failed and says so itself
        (replace(TICK, date=date(2026, 8, 24)), BEAT, NOW, True),
        (None, BEAT, NOW, True),
        (None, BEAT, DUE + timedelta(minutes=9), False),
        (None, BEAT, DUE + timedelta(minutes=11), True),
        (None, replace(BEAT, first_at=DUE + timedelta(hours=1)), NOW, False),  # nobody was there when it fell due
        (None, None, NOW, False),  # recovery never ran: that is said instead
    ],
)
def test_a_scan_is_missed_when_nobody_begins_it(
    tick: LastTick | None, recovery: RecoveryBeat | None, now: datetime, missed: bool
) -> None:
    assert tick_is_missed(tick, recovery, now) is missed


@pytest.mark.spec("RL-05")
def test_a_spent_quota_is_told_from_a_short_wait() -> None:
    assert is_long_quota(NOW + timedelta(days=6), "Notion answered 429", NOW)
    assert is_long_quota(NOW + timedelta(hours=2), "monthly quota is spent", NOW)
    assert not is_long_quota(NOW + timedelta(hours=2), "Zendesk answered 429, Retry-After: 7200 s", NOW)
    spent = SpentQuota("Notion, Acme", datetime(2026, 9, 1, tzinfo=UTC), "quota")
    assert words(replace(WELL, quotas=[spent])) == ["Notion, Acme: the quota is spent until 1 Sep 00:00."]


def test_a_flag_past_its_review_or_out_of_reach_needs_its_owner() -> None:
    overdue = FlagNote(True, False, True, "engineering", date(2026, 8, 1))
    [need] = needs_of(replace(WELL, flag=overdue))
    assert need.why == "engineering was to decide by 1 Aug 2026 whether it stays."
    assert words(replace(WELL, flag=FlagNote(readable=False))) == ["The kill switch can’t be read."]


def test_the_verdict_says_how_many_things_and_what_was_stopped_on_purpose() -> None:
    one = replace(WELL, failed=[group()])
    assert verdict(needs_of(one), one) == "1 thing needs a person. Everything else is moving."
    two = replace(WELL, failed=[group(), group(tenant="org-3")])
    assert verdict(needs_of(two), two) == "2 things need a person. Everything else is moving."
    paused = replace(WELL, queues=[QueueStanding("q", 5, 1, True, 2.0)])
    assert verdict([], paused) == "Nothing needs a person. A queue is paused."
    switched = replace(WELL, flag=FlagNote(on_for_all=True))
    assert verdict([], switched) == "Nothing needs a person. The kill switch is on: library jobs end as skipped."


def test_what_stops_everybody_comes_first() -> None:
    standing = replace(
        WELL, failed=[group()], failed_sources=[source(1)], failed_sources_many=1, recovery=None,
        queues=[QueueStanding("q", 1, 0, False, 1.0)],
    )  # fmt: skip
    assert [need.what.split(" ")[0] for need in needs_of(standing)] == ["No", "Recovery", "198", "Handbook,"]
