"""A08, A09: a tick is its date, whatever the clocks do."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest

from kbsync.db.pool import Database
from kbsync.domain.requests import Scan
from kbsync.domain.schedule import DAILY_SCAN, DailyAt, Every, Schedule, due_since
from producers.daily_tick import ScanServices, run_scan
from producers.scheduler import Scheduler
from tests.producers.doubles import MemoryQueue, Switch, redis_is_down
from tests.producers.library_rows import a_source

NEW_YORK = ZoneInfo("America/New_York")
LORD_HOWE = ZoneInfo("Australia/Lord_Howe")
MINUTE = timedelta(minutes=1)


def fired(schedule: Schedule, start: datetime, hours: float) -> Iterator[datetime]:
    """What a clock that steps by minutes would run."""
    last = schedule.latest_due(start)
    for minute in range(1, int(hours * 60) + 1):
        due = due_since(schedule, last, start + minute * MINUTE)
        if due is not None:
            last = due
            yield due


@pytest.mark.spec("LS-03")
@pytest.mark.parametrize(
    ("zone", "at", "start", "expected"),
    [
        (
            NEW_YORK,
            time(2, 30),
            datetime(2026, 3, 7, 23),
            ["2026-03-08T07:00+00:00"],
        ),  # the hour is skipped: at 03:00 EDT
        (NEW_YORK, time(1, 30), datetime(2026, 10, 31, 23), ["2026-11-01T05:30+00:00"]),  # twice: the first one
        (LORD_HOWE, time(2, 15), datetime(2026, 10, 3, 23), ["2026-10-03T15:30+00:00"]),  # half an hour is skipped
        (LORD_HOWE, time(1, 45), datetime(2026, 4, 4, 23), ["2026-04-04T14:45+00:00"]),
        (UTC, time(1, 0), datetime(2026, 3, 28, 23), ["2026-03-29T01:00+00:00", "2026-03-30T01:00+00:00"]),
    ],
)
def test_a_daily_time_happens_once_on_every_date(
    zone: ZoneInfo, at: time, start: datetime, expected: list[str]
) -> None:
    runs = list(fired(DailyAt(at, zone), start.replace(tzinfo=zone), 30 if len(expected) == 2 else 26))
    assert [run.isoformat(timespec="minutes") for run in runs] == expected


@pytest.mark.spec("LS-03")
@pytest.mark.parametrize(
    ("zone", "day", "count"),
    [
        (NEW_YORK, date(2026, 3, 8), 46),
        (NEW_YORK, date(2026, 11, 1), 50),
        (LORD_HOWE, date(2026, 10, 4), 47),
        (LORD_HOWE, date(2026, 4, 5), 49),
    ],
)
def test_every_half_hour_is_a_real_half_hour(zone: ZoneInfo, day: date, count: int) -> None:
    start = datetime.combine(day, time(0), zone).astimezone(UTC)
    end = datetime.combine(day + timedelta(days=1), time(0), zone).astimezone(UTC)
    runs = list(fired(Every(timedelta(minutes=30)), start - MINUTE, (end - start) / timedelta(hours=1)))
    assert len(runs) == count
    assert {after - before for before, after in itertools.pairwise(runs)} == {timedelta(minutes=30)}


@pytest.mark.spec("LS-03")
def test_next_and_latest_meet_at_the_instant() -> None:
    one = datetime(2026, 11, 30, 1, tzinfo=UTC)
    assert DAILY_SCAN.latest_due(one) == one
    assert DAILY_SCAN.latest_due(one - timedelta(microseconds=1)) == one - timedelta(days=1)
    assert DAILY_SCAN.next_due(one) == one + timedelta(days=1)
    assert DAILY_SCAN.next_due(one - timedelta(microseconds=1)) == one
    assert due_since(DAILY_SCAN, one - timedelta(days=4), one + timedelta(hours=9)) == one  # one catch-up, not four
    assert due_since(DAILY_SCAN, one, one + timedelta(hours=9)) is None


async def run_waiting_scan(database: Database, queue: MemoryQueue) -> None:
    for job_id, job in list(queue.jobs.items()):
        if job.kind == "scan":
            await run_scan(ScanServices(database, queue, Switch()), Scan.model_validate(dict(job.payload)), run=job_id)
            queue.finish(job_id)


@pytest.mark.spec("LS-03", "QU-30")
async def test_eight_schedulers_on_clocks_that_differ_make_one_tick_a_day(database: Database) -> None:
    await a_source(database)
    queue = MemoryQueue()
    true_time = datetime(2026, 11, 29, 0, 59, 50, tzinfo=UTC)
    skews = [timedelta(seconds=s) for s in (-2, -1, 0, 0, 0, 0, 1, 2)]

    def clock_of(skew: timedelta) -> Scheduler:
        return Scheduler(database, queue, clock=lambda: true_time + skew)

    schedulers = [clock_of(skew) for skew in skews]
    for _ in range(3):  # three days
        for second in range(20):
            moment = true_time
            true_time = moment + timedelta(seconds=1)
            for scheduler in schedulers:
                await scheduler.beat()
                if second % 3 == 0:
                    await run_waiting_scan(database, queue)  # so fast that it is over before the others look
        true_time += timedelta(days=1) - timedelta(seconds=20)
        await run_waiting_scan(database, queue)
    scans = {job_id: count for job_id, count in queue.created.items() if job_id.startswith("kb-scan")}
    assert scans == dict.fromkeys(
        ["kb-scan-2026-11-28", "kb-scan-2026-11-29", "kb-scan-2026-11-30", "kb-scan-2026-12-01"], 1
    )


@pytest.mark.spec("LS-03")
async def test_even_a_scan_job_that_redis_forgot_is_not_run_again(database: Database) -> None:
    await a_source(database)
    queue = MemoryQueue()
    scheduler = Scheduler(database, queue, clock=lambda: datetime(2026, 11, 30, 9, tzinfo=UTC))
    assert await scheduler.beat()
    queue.lose_everything()
    assert await scheduler.beat()  # lost before it ran: asked for again
    await run_waiting_scan(database, queue)
    queue.lose_everything()
    assert not await scheduler.beat()
    assert queue.created["kb-source-sync-1"] == 1


@pytest.mark.spec("LS-03", "KS-03")
async def test_a_skipped_tick_is_not_driven_again_by_the_clock(database: Database) -> None:
    queue = MemoryQueue()
    scheduler = Scheduler(database, queue, clock=lambda: datetime(2026, 11, 30, 9, tzinfo=UTC))
    await run_scan(ScanServices(database, queue, Switch(everybody=True)), Scan(date=date(2026, 11, 30)), run="a")
    assert not await scheduler.beat()
    assert queue.created == {}


@pytest.mark.spec("LS-03")
async def test_after_an_outage_of_days_one_date_is_caught_up_with(database: Database) -> None:
    queue = MemoryQueue()
    now = datetime(2026, 11, 25, 2, tzinfo=UTC)
    scheduler = Scheduler(database, queue, clock=lambda: now)
    await scheduler.beat()
    now = datetime(2026, 11, 30, 9, tzinfo=UTC)
    await scheduler.beat()
    assert list(queue.created) == ["kb-scan-2026-11-25", "kb-scan-2026-11-30"]


@pytest.mark.spec("LS-03")
async def test_the_scheduler_outlives_redis(database: Database) -> None:
    queue, stop, failed = MemoryQueue(), asyncio.Event(), asyncio.Event()

    def down(jobs: list[object]) -> Exception:
        failed.set()
        return redis_is_down([])

    queue.fail = down  # type: ignore[assignment]
    scheduler = Scheduler(database, queue)
    running = asyncio.create_task(scheduler.run(stop, beat_s=0.01))
    await asyncio.wait_for(failed.wait(), 5)
    queue.fail = lambda _: None
    async with asyncio.timeout(5):
        while not queue.created:
            await asyncio.sleep(0.005)
    stop.set()
    await asyncio.wait_for(running, 5)
    assert list(queue.created.values()) == [1]
