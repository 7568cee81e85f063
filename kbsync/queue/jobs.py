"""What goes into a queue and what comes out of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple, Protocol

from kbsync.domain.requests import Priority

MAX_PAYLOAD_BYTES = 256 * 1024
MAX_RESULT_BYTES = 64 * 1024


class JobRequest(NamedTuple):
    """A request under its deterministic id. `payload` is JSON (an object) of at most 256 KiB, else PayloadTooLarge.

    rerun_if_active: an edit that comes while the job is active makes it run once more afterwards (QU-03).
    replace_finished: False answers `already_done` for a kept finished job instead of running it again (QU-30).
    A named tuple, as one is made for each request of a batch: a third of a frozen dataclass's cost."""

    job_id: str
    kind: str
    payload: Mapping[str, object]
    tenant: str
    priority: Priority = Priority.NORMAL
    delay_ms: int = 0
    rerun_if_active: bool = False
    replace_finished: bool = True


class EnqueueOutcome(StrEnum):
    CREATED = "created"
    ALREADY_QUEUED = "already_queued"
    REPLACED = "replaced"
    ALREADY_DONE = "already_done"


@dataclass(frozen=True)
class Enqueued:
    """`rerun`: the job is active and will run once more when that run ends (QU-03)."""

    job_id: str
    outcome: EnqueueOutcome
    rerun: bool = False


# How a handler ends a job. Anything raised instead is a failing attempt; `Unrecoverable` fails the job at once.


@dataclass(frozen=True)
class Completed:
    result: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class SkippedJob:
    """Ends in state `skipped`; arq reads success (KS-02)."""

    result: Mapping[str, object]


@dataclass(frozen=True)
class DelayJob:
    """Back for later, no attempt consumed (QU-06). `until` is an aware time; a past one means at once."""

    until: datetime
    reason: str


JobEnd = Completed | SkippedJob | DelayJob


class Unrecoverable(Exception):
    """Fails the job at once, whatever attempts are left (QU-07)."""


class RunningJob(Protocol):
    """What a handler knows of its job and may ask of it."""

    @property
    def job_id(self) -> str: ...

    @property
    def kind(self) -> str: ...

    @property
    def payload(self) -> Mapping[str, object]: ...

    @property
    def tenant(self) -> str: ...

    @property
    def priority(self) -> Priority: ...

    @property
    def attempt(self) -> int:
        """1 for the first; delays, stalls and put-backs don't raise it."""
        ...

    @property
    def is_final_attempt(self) -> bool: ...

    @property
    def delays(self) -> int:
        """How often this job has been delayed so far (shown, and the bound of RL-05)."""
        ...

    @property
    def stalls(self) -> int: ...

    @property
    def lease_token(self) -> str:
        """The fence of this run: another run of the job has another one."""
        ...

    def progress(self, done: int, total: int | None = None, note: str = "") -> None:
        """Reports progress; visible within a second, never waits (QU-24)."""
        ...


Handler = Callable[[RunningJob], Awaitable[JobEnd]]

# QU-31: (job id, kind, payload or None when it could not be read, reason). Called once, durably, for an end that the
# handler did not see: stalled_too_often, payload_refused, cancelled, removed, drained.
Abandoned = Callable[[str, str, Mapping[str, object] | None, str], Awaitable[None]]


class Enqueuer(Protocol):
    """The producer's side, over all queues: `kbsync.queue.fleet.Fleet` in earnest, a list in unit tests.

    Raises QueueUnavailable when Redis did not take everything; repeating is safe (QU-04)."""

    async def enqueue(self, queue: str, requests: list[JobRequest]) -> list[Enqueued]: ...

    async def live_job_ids(self, job_ids: list[str]) -> set[str]:
        """Which of these are waiting, delayed or active, in a bounded number of pipelined look-ups (QR-05)."""
        ...
