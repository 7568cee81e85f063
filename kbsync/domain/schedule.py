"""When a schedule is due, by pure arithmetic: time is an argument, and an occurrence has a name that survives its run.

Two rules over clock changes:
- `DailyAt`: once on every local date. A time that the date skips happens at the first instant after the gap; a time that
  the date has twice happens the first time.
- `Every`: at each whole multiple of real time since the epoch, so a longer or shorter day has more or fewer of them.

After an outage the newest occurrence alone is caught up with: `latest_due` answers one, never a list.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = timedelta(days=1)


@dataclass(frozen=True)
class DailyAt:
    """`at` is a wall-clock time in `zone`, to the second."""

    at: time
    zone: tzinfo = UTC

    def on(self, day: date) -> datetime:
        """The one instant (UTC) that this schedule has on a local date."""
        wall = datetime.combine(day, self.at.replace(tzinfo=None, fold=0), self.zone)
        instant = wall.astimezone(UTC)
        if instant.astimezone(self.zone).replace(tzinfo=None) == wall.replace(tzinfo=None):
            return instant
        return self._end_of_gap(wall.replace(fold=1).astimezone(UTC), instant)

    def _end_of_gap(self, before: datetime, after: datetime) -> datetime:
        """The clock change between two instants, to the second."""
        offset_after = after.astimezone(self.zone).utcoffset()
        while after - before > timedelta(seconds=1):
            middle = before + timedelta(seconds=int((after - before).total_seconds()) // 2)
            if middle.astimezone(self.zone).utcoffset() == offset_after:
                after = middle
            else:
                before = middle
        return after

    def latest_due(self, now: datetime) -> datetime:
        """The newest occurrence that is not after `now` (aware)."""
        day = now.astimezone(self.zone).date() + _DAY
        while self.on(day) > now:
            day -= _DAY
        return self.on(day)

    def next_due(self, now: datetime) -> datetime:
        """The first occurrence after `now` (aware)."""
        day = now.astimezone(self.zone).date() - _DAY
        while self.on(day) <= now:
            day += _DAY
        return self.on(day)

    def date_of(self, occurrence: datetime) -> date:
        """The local date that an occurrence belongs to: its name."""
        return occurrence.astimezone(self.zone).date()


@dataclass(frozen=True)
class Every:
    """`interval` is at least a second."""

    interval: timedelta

    def latest_due(self, now: datetime) -> datetime:
        return _EPOCH + (now - _EPOCH) // self.interval * self.interval

    def next_due(self, now: datetime) -> datetime:
        return self.latest_due(now) + self.interval


Schedule = DailyAt | Every

# The daily scan: seed and spec say 01:00 UTC, which no clock change touches.
DAILY_SCAN = DailyAt(time(1, 0))


def due_since(schedule: Schedule, last_done: datetime | None, now: datetime) -> datetime | None:
    """The occurrence to run now, or None: the newest one, if it is later than the last one done."""
    latest = schedule.latest_due(now)
    return latest if last_done is None or latest > last_done else None
