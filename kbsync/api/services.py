"""What the API is given: it builds no pool and reads no environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from kbsync.db.pool import Database
from kbsync.queue.jobs import Enqueuer
from kbsync.settings import Settings


class FleetView(Protocol):
    """What the API reads of the queues: `kbsync.queue.fleet.Fleet` in earnest."""

    async def ping_write(self) -> None:
        """Raises QueueUnavailable unless every Redis takes a write."""
        ...

    async def counts(self) -> Mapping[str, Mapping[str, int]]:
        """Per queue: jobs by state, exact."""
        ...


class PauseView(Protocol):
    async def is_paused(self, organization_id: int | None) -> bool:
        """Whether the kill switch is on, for one organization or (None) for everybody; at most 1 s stale."""
        ...


@dataclass(frozen=True)
class ApiServices:
    database: Database
    enqueuer: Enqueuer
    fleet: FleetView
    kill_switch: PauseView
    settings: Settings
