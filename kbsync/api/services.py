"""What the API is given: it builds no pool and reads no environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from kbsync.db.pool import Database
from kbsync.domain.states import JobState
from kbsync.queue.jobs import Enqueuer
from kbsync.settings import Settings
from kbsync.sync.assets import Assets


class CountsView(Protocol):
    def of(self, state: JobState) -> int: ...

    @property
    def paused(self) -> bool: ...


class QueueView(Protocol):
    async def counts(self) -> CountsView: ...


class FleetView(Protocol):
    """What the API reads of the queues: `kbsync.queue.fleet.Fleet` in earnest."""

    async def ping_write(self) -> None:
        """Raises QueueUnavailable unless every Redis takes a write."""
        ...

    def queue(self, name: str) -> QueueView: ...


class PauseView(Protocol):
    async def paused(self, organization_id: int | None) -> bool:
        """Whether the kill switch is on, for one organization or (None) for everybody; at most 1 s stale."""
        ...


@dataclass(frozen=True)
class ApiServices:
    """`assets` None: this process has no way to providers, and finds no asset."""

    database: Database
    enqueuer: Enqueuer
    fleet: FleetView
    kill_switch: PauseView
    settings: Settings
    assets: Assets | None = None
