"""What `kbsync doctor` finds, and what its checks look at."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum

from kbsync.db.pool import Database
from kbsync.flags.kill_switch import KillSwitch
from kbsync.queue.fleet import Fleet
from kbsync.settings import Settings


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"  # never counted: as it may be, but worth knowing


@dataclass(frozen=True)
class Finding:
    """`what` says what was seen, `cure` what a person does about it."""

    check: str
    severity: Severity
    what: str
    cure: str

    def as_json(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True)
class Patient:
    """`redis_is_up`: False leaves out what has to be asked of the queues."""

    settings: Settings
    database: Database
    fleet: Fleet
    switch: KillSwitch
    redis_is_up: bool = True
