"""Which job a task runs: one variable, so that a run pays next to nothing and only a line or a report looks its ids up."""

from __future__ import annotations

from collections.abc import MutableMapping
from contextvars import ContextVar
from typing import Any, Protocol

import structlog


class AboutJob(Protocol):
    @property
    def job_id(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def attempt(self) -> int: ...


_work: ContextVar[tuple[str, AboutJob] | None] = ContextVar("kbsync_work", default=None)


def begin_work(queue: str, job: AboutJob) -> None:
    """From here on this task's lines are about this run. A run has a task of its own, so nobody sets it back."""
    _work.set((queue, job))


def ids_here() -> dict[str, Any]:
    """The ids that this task's lines carry: of its job, and of what was bound around it."""
    work = _work.get()
    bound = structlog.contextvars.get_contextvars()
    if work is None:
        return bound
    queue, job = work
    return {"queue": queue, "job_id": job.job_id, "kind": job.kind, "attempt": job.attempt, **bound}


def add_ids(_: object, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A structlog processor: what the line itself says goes before."""
    return {**ids_here(), **event}
