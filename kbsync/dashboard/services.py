"""What the dashboard is given: it builds no pool and reads no environment."""

from __future__ import annotations

from dataclasses import dataclass

from kbsync.db.pool import Database
from kbsync.flags.kill_switch import KillSwitch
from kbsync.queue.fleet import Fleet
from kbsync.queue.jobs import Enqueuer
from kbsync.settings import Settings
from kbsync.sync.assets import Assets
from ratelimits.throttle import Throttle


@dataclass(frozen=True)
class DashboardServices:
    database: Database
    fleet: Fleet
    enqueuer: Enqueuer  # takes requests in, counted and traced
    throttle: Throttle
    kill_switch: KillSwitch
    settings: Settings
    assets: Assets
    version: str
