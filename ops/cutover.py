"""The gates of a cutover: what is expected after it, and what a clean bake looks like (OP-16)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta

from kbsync.db.pool import Connection, Database
from kbsync.domain.ids import QueueName
from kbsync.domain.schedule import DAILY_SCAN
from kbsync.domain.states import JobState
from kbsync.flags.kill_switch import KillSwitch
from kbsync.library import counters, observations
from kbsync.library.counters import Counted
from kbsync.library.observations import Broken, LegacyJobs, Tick
from kbsync.library.ticks import clock
from kbsync.queue.fleet import Fleet, unavailable_if_redis_fails
from ops.observe import Expectation, Look, Verdict

# How long a scan's jobs may take to leave the waiting line; delayed ones are a provider's window and take what they take.
DRAINED_WITHIN = timedelta(hours=6)
LINE_LOOKED_AT = 200
CLEAN = timedelta(hours=24)
GROWS_OVER = timedelta(hours=2)  # less has no two whole hours to compare
SCANNED_WITHIN = timedelta(minutes=15)
LEGACY_SCAN = "SyncKnowledgeBaseSourcesJob"
NO_TABLE = "good_jobs is not in this database"

Totals = Counter[tuple[str, str]]


async def after_cutover(database: Database, fleet: Fleet, switch: KillSwitch, since: datetime) -> Look:
    """Each expectation of a cutover at `since`, by the ledgers, the queues and whole hours of counters."""
    paused = (await switch.describe()).on
    async with database.fleet() as connection:
        now = await clock(connection)
        legacy = await observations.legacy_jobs(connection, since)
        tick = await observations.newest_tick(connection, since)
        counted = await counters.totals(connection, since, now)
        first = await counters.first_hour(connection, since)
        middle = (since + (now - since) / 2).replace(minute=0, second=0, microsecond=0)
        later = await counters.totals(connection, middle, now)
        earlier = await counters.totals(connection, since, middle)
    expectations = [
        _no_legacy_rows("after cutover", legacy, counted, paused=paused),
        _old_rows_finish(legacy),
        await _drained(fleet, tick, now),
        _no_failures_by_delay(counted, first),
        _no_failed_growth(earlier, later, is_long_enough=now - since >= GROWS_OVER),
    ]
    return Look.at(expectations, note="counters are by whole hours: the hour of the cutover counts in full")


async def bake(database: Database, switch: KillSwitch) -> Look:
    """Step 1: the daily scan of the newest due date. Step 2: 24 clean hours."""
    paused = (await switch.describe()).on
    async with database.fleet() as connection:
        now = await clock(connection)
        due = DAILY_SCAN.latest_due(now)
        first_step = await _scanned(connection, due, now)
        since = now - CLEAN
        legacy = await observations.legacy_jobs(connection, since)
        counted = await counters.totals(connection, since, now)
        first = await counters.first_hour(connection, since - timedelta(hours=1))
        doubled = await observations.broken(connection, Broken.DOUBLE_CHUNKS, 1)
    whole = first is not None and first <= since
    elsewhere = _sum(counted, Counted.RECORD_MISSING_ELSEWHERE)
    shown = "" if whole else f"; counted only since {first:%Y-%m-%d %H:%M} UTC" if first else "; nothing was counted"
    second_step = [
        _no_legacy_rows("2: 24 clean hours", legacy, counted, paused=paused),
        Expectation("2: 24 clean hours", "no delivery warnings of producers", *_fallbacks(counted)),
        Expectation(
            "2: 24 clean hours",
            "no double chunk sets",
            Verdict.of(not doubled),
            f"document {doubled[0]['document_id']} has one" if doubled else "every position once",
        ),
        Expectation(
            "2: 24 clean hours",
            "no request for another organization's record",
            Verdict.of(False if elsewhere else True if whole else None),
            f"{elsewhere} requests{shown}",
        ),
    ]
    return Look.at([*first_step, *second_step])


async def _scanned(connection: Connection, due: datetime, now: datetime) -> list[Expectation]:
    day = DAILY_SCAN.date_of(due)
    tick = await observations.tick_of(connection, day)
    sources, moved = await observations.sources_moving(connection, due)
    legacy = await observations.legacy_jobs(connection, due)
    scans = next((one.jobs for one in legacy or [] if one.job_class == LEGACY_SCAN), 0)
    not_yet = None if now - due < SCANNED_WITHIN else False
    has_begun = tick is not None and not tick.skipped
    has_finished = tick is not None and tick.finished_at is not None
    begun = f"begun {tick.claimed_at:%H:%M:%S} UTC{', skipped' if tick.skipped else ''}" if tick else "not begun"
    return [
        _scan_step("it ran once today", has_begun or not_yet, f"{day}: {begun}"),
        _scan_step("it finished", has_finished or not_yet, _counts_of(tick)),
        _scan_step(
            "last_synced_at of sources moves",
            (moved > 0 or not_yet) if sources else None,
            f"{moved} of {sources} sources since {due:%H:%M} UTC",
        ),
        _scan_step(
            "the legacy cron did not run",
            None if legacy is None else scans == 0,
            NO_TABLE if legacy is None else f"{scans} rows of {LEGACY_SCAN} since {due:%H:%M} UTC",
        ),
    ]


def _scan_step(expected: str, holds: bool | None, detail: str) -> Expectation:
    return Expectation("1: the daily scan", expected, Verdict.of(holds), detail)


def _counts_of(tick: Tick | None) -> str:
    if tick is None or tick.finished_at is None:
        return "not finished"
    counts = ", ".join(f"{name} {number}" for name, number in sorted(tick.counts.items()))
    return f"{tick.finished_at:%H:%M:%S} UTC: {counts}"


def _no_legacy_rows(step: str, legacy: Sequence[LegacyJobs] | None, counted: Totals, *, paused: bool) -> Expectation:
    expected = "no new legacy rows, unless paused"
    if legacy is None:
        verdict, detail = _fallbacks(counted)
        return Expectation(step, expected, verdict, detail if verdict is Verdict.FAIL else NO_TABLE)
    jobs = sum(one.jobs for one in legacy)
    classes = ", ".join(f"{one.job_class} {one.jobs}" for one in legacy if one.jobs)
    detail = f"{jobs} rows{f' ({classes})' if classes else ''}{'; the kill switch is on' if paused else ''}"
    return Expectation(step, expected, Verdict.of(jobs == 0 or paused), detail)


def _fallbacks(counted: Totals) -> tuple[Verdict, str]:
    """None reported is not none: a producer that can't report here leaves it unknown whether there were any."""
    fallbacks = _sum(counted, Counted.FALLBACKS_REPORTED)
    if fallbacks:
        return Verdict.FAIL, f"{fallbacks} fallbacks reported"
    return Verdict.NOT_KNOWN, "none was reported here; of producers that can't report, count DeliveryError in Sentry"


def _old_rows_finish(legacy: Sequence[LegacyJobs] | None) -> Expectation:
    left = sum(one.old_unfinished for one in legacy or [])
    verdict = Verdict.of(None if legacy is None or left else True)
    detail = NO_TABLE if legacy is None else f"{left} from before are unfinished: this number must fall"
    return Expectation(
        "after cutover", "old legacy rows finish", verdict, detail if left or legacy is None else "all did"
    )


async def _drained(fleet: Fleet, tick: Tick | None, now: datetime) -> Expectation:
    """Delayed jobs wait for a provider's window, which is as it should be; a line that stands still is not."""
    queue = fleet.queue(QueueName.SYNC)
    async with unavailable_if_redis_fails(queue.name):
        counts = await queue.counts()
        line = await queue.page(JobState.WAITING, limit=LINE_LOOKED_AT)
    detail = f"{counts.waiting} waiting, {counts.delayed} delayed, {counts.active} active"
    expected = "the sync queue is bounded and drains after the daily scan"
    if tick is None or tick.finished_at is None:
        return Expectation("after cutover", expected, Verdict.NOT_KNOWN, f"{detail}; no scan has finished since")
    oldest_ms = min((job.enqueued_ms for job in line.jobs if job.enqueued_ms), default=None)
    is_left = oldest_ms is not None and oldest_ms / 1000 < tick.finished_at.timestamp()
    if not is_left:
        return Expectation("after cutover", expected, Verdict.PASS, f"{detail}; none from the scan of {tick.date}")
    late = now - tick.finished_at > DRAINED_WITHIN
    return Expectation(
        "after cutover", expected, Verdict.of(False if late else None), f"{detail}; some from the scan of {tick.date}"
    )


def _no_failures_by_delay(counted: Totals, first: datetime | None) -> Expectation:
    failures, delays = _sum(counted, Counted.THROTTLE_FAILURES), _sum(counted, Counted.DELAYS)
    verdict = Verdict.of(None if first is None else failures == 0)
    detail = f"{failures} failures by waiting, {delays} delays" if first else "nothing was counted"
    return Expectation("after cutover", "no failures caused by delays", verdict, detail)


def _no_failed_growth(earlier: Totals, later: Totals, *, is_long_enough: bool) -> Expectation:
    before, after = _sum(earlier, Counted.FAILED), _sum(later, Counted.FAILED)
    is_measured = bool(earlier or later)
    verdict = Verdict.of((after <= before or (None if not is_long_enough else False)) if is_measured else None)
    detail = f"{before} jobs failed in the first half, {after} in the second" if is_measured else "nothing was counted"
    return Expectation("after cutover", "failed jobs do not grow", verdict, detail)


def _sum(counted: Totals, name: Counted) -> int:
    return sum(amount for (_, one), amount in counted.items() if one == name)
