"""One run of a job: what its handler sees, and what the worker keeps of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from kbsync.domain.errors import PayloadRefused, UnknownRequestVersion
from kbsync.domain.requests import REQUEST_VERSION, Priority
from kbsync.queue.encoding import DEFAULT_TENANT, StoredRequest, decode_request
from kbsync.queue.views import read_meta

NOTE_CHARACTERS = 500
_NEVER_RAN: tuple[int, int, int, Mapping[str, Any]] = (0, 0, 0, MappingProxyType({}))


class Interrupt(StrEnum):
    """Why the worker cancelled a run's task."""

    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    LEASE_LOST = "lease_lost"
    STOPPING = "stopping"


class Run:
    """Implements `jobs.RunningJob`. `refusal` is set instead of a payload when the bytes are no request."""

    __slots__ = (
        "_changed", "attempt", "attempts", "deadline", "delays", "interrupt", "interrupted_at", "is_final_attempt", "job_id",
        "kind", "latest_progress", "lease_token", "payload", "raw", "refusal", "request", "stalls", "started_ms", "tail",
        "task",
    )  # fmt: skip

    def __init__(
        self,
        job_id: str,
        token: str,
        raw: bytes,
        meta: bytes | None,
        max_attempts: int,
        started_ms: int,
        changed: Callable[[Run], None],
    ) -> None:
        self.job_id = job_id
        self.lease_token = token
        self.raw = raw
        self.started_ms = started_ms
        self.attempts, self.stalls, self.delays, self.tail = read_meta(meta) if meta else _NEVER_RAN
        self.attempt = self.attempts + 1
        self.is_final_attempt = self.attempt >= max_attempts
        self.request: StoredRequest | None = None
        self.refusal: PayloadRefused | None = None
        self.kind = ""
        self.payload: Mapping[str, object] = {}
        self.task: asyncio.Task[None] | None = None
        self.deadline = 0.0
        self.interrupt: Interrupt | None = None
        self.interrupted_at = 0.0
        self.latest_progress: dict[str, object] | None = None
        self._changed = changed
        try:
            self.request = request = decode_request(raw)
            self.kind = request.kind
            self.payload = payload = request.payload
            if payload.get("version", REQUEST_VERSION) != REQUEST_VERSION:
                raise UnknownRequestVersion(
                    f"request version {payload['version']!r} is not known here, {REQUEST_VERSION} is"
                )
        except PayloadRefused as error:
            self.refusal = error

    @property
    def tenant(self) -> str:
        return self.request.tenant if self.request else DEFAULT_TENANT

    @property
    def priority(self) -> Priority:
        return self.request.priority if self.request else Priority.NORMAL

    def progress(self, done: int, total: int | None = None, note: str = "") -> None:
        self.latest_progress = {"done": done, "total": total, "note": note[:NOTE_CHARACTERS]}
        self._changed(self)

    def stop(self, why: Interrupt, now: float) -> None:
        """Cancels the run's task at its next await. The first reason stays, but a lost lease overrules any."""
        if self.interrupt is None or why is Interrupt.LEASE_LOST:
            self.interrupt = why
        if not self.interrupted_at:
            self.interrupted_at = now
        if self.task is not None:
            self.task.cancel()
