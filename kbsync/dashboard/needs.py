"""What needs a person, out of what was read: pure decisions, and the sentence that a page opens with (OP-05, OP-18).

Whatever goes on by itself is not in here: delays, full windows, a paused queue, a source that syncs again tonight. The one
exception is a spent long quota, which only a bigger plan makes shorter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from urllib.parse import urlencode

from kbsync.dashboard.words import count, duration, moment_text
from kbsync.domain.schedule import DAILY_SCAN
from kbsync.library.overview import HeldRemoval, LastTick, SourceBehind
from kbsync.library.recoveries import RecoveryBeat

SHOWN = 5
NAMED = 3  # things of one sort that are named one by one; more become one line
SILENT = timedelta(minutes=3)
TICK_GRACE = timedelta(minutes=10)


@dataclass(frozen=True)
class QueueStanding:
    name: str
    waiting: int
    workers: int
    paused: bool
    oldest_s: float | None


@dataclass(frozen=True)
class FailedGroup:
    """Jobs of one tenant and queue whose errors begin alike (`error`). `message` and `first_at` are of those looked at."""

    queue: str
    tenant: str
    who: str
    error: str
    message: str
    many: int
    first_at: datetime | None
    at_least: bool = False  # others were not looked at


@dataclass(frozen=True)
class SpentQuota:
    name: str
    until: datetime
    reason: str


@dataclass(frozen=True)
class FlagNote:
    """None of this matters while `readable` is False."""

    readable: bool = True
    on_for_all: bool = False
    overdue: bool = False
    owner: str = ""
    review_by: date | None = None


@dataclass(frozen=True)
class Standing:
    """What the decisions are made of. `failed_sources` and `held` hold the first few of `*_many`."""

    now: datetime
    queues: Sequence[QueueStanding] = ()
    failed: Sequence[FailedGroup] = ()
    failed_sources: Sequence[SourceBehind] = ()
    failed_sources_many: int = 0
    held: Sequence[HeldRemoval] = ()
    held_many: int = 0
    quotas: Sequence[SpentQuota] = ()
    tick: LastTick | None = None
    recovery: RecoveryBeat | None = None
    flag: FlagNote = FlagNote()


@dataclass(frozen=True)
class Need:
    """What, why and what to do, where, and in which words. `command` is for a terminal."""

    glyph: str
    what: str
    why: str
    to: str
    button: str
    command: str = ""


def needs_of(standing: Standing) -> list[Need]:
    """What needs a person, most urgent first: what stops everybody, then what one tenant misses, then what waits."""
    return [
        *_switch_not_known(standing),
        *_without_worker(standing),
        *_recovery(standing),
        *_tick(standing),
        *_failed_jobs(standing),
        *_failed_sources(standing),
        *_held(standing),
        *_quotas(standing),
        *_overdue(standing),
    ]


def verdict(needs: Sequence[Need], standing: Standing) -> str:
    """One or two sentences: is anything stuck?"""
    many = len(needs)
    first = f"{count(many, 'thing needs', 'things need')} a person." if many else "Nothing needs a person."
    if standing.flag.on_for_all:
        return f"{first} The kill switch is on: library jobs end as skipped."
    paused = any(queue.paused for queue in standing.queues)
    if paused:
        return f"{first} Everything else is moving, or paused on purpose." if many else f"{first} A queue is paused."
    return f"{first} Everything else is moving." if many else first


def title_of(needs: Sequence[Need]) -> str:
    """What the browser's tab says."""
    return f"Overview: {count(len(needs), 'thing needs', 'things need')} a person" if needs else "Overview"


def tick_is_missed(tick: LastTick | None, recovery: RecoveryBeat | None, now: datetime) -> bool:
    """The newest date's scan is due for a while and nobody has begun it, in a deployment that was there when it fell due."""
    due = DAILY_SCAN.latest_due(now)
    if now - due < TICK_GRACE or recovery is None or recovery.first_at > due:
        return False
    return tick is None or tick.date < DAILY_SCAN.date_of(due)


def _switch_not_known(standing: Standing) -> list[Need]:
    if standing.flag.readable:
        return []
    why = "While that lasts, library jobs wait: none runs, none is skipped. See to the flag store."
    return [Need("s-blocked", "The kill switch can’t be read.", why, "/throttles#kill-switch", "Open")]


def _without_worker(standing: Standing) -> list[Need]:
    return [
        Need(
            "s-blocked",
            f"No worker serves {queue.name}.",
            f"{count(queue.waiting, 'job waits', 'jobs wait')}{_oldest(queue, queue.waiting)}. Start one:",
            f"/queues/{queue.name}?state=waiting",
            f"See the {count(queue.waiting, 'job')}",
            command=f"kbsync worker {queue.name}",
        )
        for queue in standing.queues
        if queue.waiting and not queue.workers and not queue.paused
    ]


def _oldest(queue: QueueStanding, many: int) -> str:
    if queue.oldest_s is None:
        return ""
    return f", the oldest for {duration(queue.oldest_s)}" if many > 1 else f", for {duration(queue.oldest_s)}"


def _recovery(standing: Standing) -> list[Need]:
    beat, now = standing.recovery, standing.now
    if beat is None:
        what, why = "Recovery has never run.", "Nothing brings back what a lost server forgets. Start it:"
    elif now - beat.at > SILENT:
        what = f"Recovery is silent for {duration((now - beat.at).total_seconds())}."
        why = "Work that a lost server forgets does not come back, and no daily scan begins. See to the scheduler:"
    else:
        return []
    return [Need("s-blocked", what, why, "/#recovery-title", "See recovery", command="kbsync scheduler")]


def _tick(standing: Standing) -> list[Need]:
    if not tick_is_missed(standing.tick, standing.recovery, standing.now):
        return []
    due = DAILY_SCAN.latest_due(standing.now)
    what = f"The daily scan of {DAILY_SCAN.date_of(due):%-d %b} has not begun."
    why = f"It was due at {due:%H:%M}. Sources stay as they were until it runs. The scheduler asks for it, or you do:"
    return [Need("s-blocked", what, why, "/#scan-title", "See the scan", command="kbsync tick")]


def _failed_jobs(standing: Standing) -> list[Need]:
    return [
        Need(
            "s-failed",
            f"{'At least ' if group.at_least else ''}{count(group.many, 'job')} of {group.who} failed for good.",
            f"{group.message or group.error}"
            + (
                f" (first at {moment_text(group.first_at, standing.now)})"
                if group.first_at and not group.at_least
                else ""
            )
            + ". Cure the cause, then retry.",
            f"/queues/{group.queue}?{urlencode({'state': 'failed', 'tenant': group.tenant, 'error': group.error})}",
            "See the jobs" if group.at_least else f"See the {count(group.many, 'job')}",
        )
        for group in standing.failed
    ]


def _failed_sources(standing: Standing) -> list[Need]:
    if standing.failed_sources_many > NAMED:
        named = ", ".join(f"{_named(one)} ({one.organization})" for one in standing.failed_sources[:2])
        what = f"{count(standing.failed_sources_many, 'source')} failed to sync."
        why = f"{named} and {standing.failed_sources_many - len(standing.failed_sources[:2])} more say why on their pages."
        return [Need("s-failed", what, why, "/sources?status=failed", "See the sources")]
    return [
        Need(
            "s-failed",
            f"{_named(one)}, {one.organization}: the last sync failed.",
            f"{_sentence(one.error or 'It said no reason')} Search still shows what was synced before.",
            f"/sources/{one.id}",
            "Open the source",
        )
        for one in standing.failed_sources
    ]


def _held(standing: Standing) -> list[Need]:
    if standing.held_many > NAMED:
        what = f"{count(standing.held_many, 'removal waits', 'removals wait')} for approval."
        why = "Listings were complete and lack much of what was there. Until somebody looks, nothing is removed."
        return [Need("s-blocked", what, why, "/sources?status=held", "See the sources")]
    return [
        Need(
            "s-blocked",
            f"{_named(one)}, {one.organization}: a removal waits for approval.",
            f"The last listing lacks {_of(one)}. A second run, or you, decides whether they go.",
            f"/sources/{one.id}",
            "Look at it",
        )
        for one in standing.held
    ]


def _of(held: HeldRemoval) -> str:
    if held.count is None:
        return "many of its documents"
    return f"{held.count:,} of {held.of:,} documents" if held.of else count(held.count, "document")


def _quotas(standing: Standing) -> list[Need]:
    return [
        Need(
            "s-blocked",
            f"{quota.name}: the quota is spent until {moment_text(quota.until, standing.now)}.",
            "It goes on by itself then. With a bigger plan, reopen it now.",
            "/throttles#closed",
            "See the closure",
        )
        for quota in standing.quotas[:NAMED]
    ]


def _overdue(standing: Standing) -> list[Need]:
    flag = standing.flag
    if not flag.overdue or flag.review_by is None:
        return []
    what = "The kill switch is past its review."
    why = f"{flag.owner or 'Its owner'} was to decide by {flag.review_by:%-d %b %Y} whether it stays."
    return [Need("s-blocked", what, why, "/throttles#kill-switch", "Open")]


def _named(source: SourceBehind | HeldRemoval) -> str:
    return source.name or f"{source.type} {source.id}"


def _sentence(text: str) -> str:
    text = " ".join(text.split())
    return text if text.endswith((".", "!", "?")) else text + "."


def is_long_quota(until: datetime, reason: str, now: datetime) -> bool:
    """Whether a closure is a spent quota: nothing else lasts longer than a day (RL-05), and such an answer says so."""
    words = reason.casefold()
    return until - now > timedelta(hours=24) or any(word in words for word in ("quota", "allowance", "allotment"))
