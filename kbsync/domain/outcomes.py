"""How a unit of work can end when nothing went wrong. Matched exhaustively; errors are exceptions (`errors.py`)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from kbsync.domain.requests import LibraryRequest

# Follow-ups that are read back from a ledger a page at a time, so that 100,000 of them need no memory.
FollowUpPages = Callable[[], AsyncIterator[tuple[LibraryRequest, ...]]]


@dataclass(frozen=True)
class Done:
    """The unit's writes are committed. `follow_ups` are still to be enqueued, and after them every page of
    `follow_up_pages`; `summary` is the job's result (JSON)."""

    follow_ups: tuple[LibraryRequest, ...] = ()
    summary: Mapping[str, object] = field(default_factory=dict)
    follow_up_pages: FollowUpPages | None = None


@dataclass(frozen=True)
class Delayed:
    """Not now: the job sleeps until `until` (aware, UTC) and no attempt is consumed (QU-06)."""

    until: datetime
    reason: str


@dataclass(frozen=True)
class RecordMissing:
    """The record is absent, discarded or of another organization; nothing was read or written elsewhere (LS-06)."""

    what: str


@dataclass(frozen=True)
class Skipped:
    """The unit was not run on purpose (`paused`, `session_token_only` ...); it fetched and wrote nothing."""

    reason: str


Outcome = Done | Delayed | RecordMissing | Skipped
