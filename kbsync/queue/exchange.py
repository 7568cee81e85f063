"""The exchange script's arguments and answer (lua/exchange.lua)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kbsync.queue.ends import Finish
from kbsync.queue.keys import id_bytes

DAY_MS = 24 * 3600 * 1000


@dataclass(frozen=True)
class Retention:
    """QU-17. `done` is completed, skipped and cancelled; bytes are per queue and state."""

    done_count: int = 10_000
    done_ms: int = DAY_MS
    failed_count: int = 50_000
    failed_ms: int = 14 * DAY_MS
    max_bytes: int = 64 * 1024 * 1024

    def arguments(self) -> tuple[int, ...]:
        return (self.done_count, self.done_ms, self.failed_count, self.failed_ms, self.max_bytes)


@dataclass(frozen=True, slots=True)
class Exchanged:
    more: bool
    next_ms: int  # -1: nothing is due, leased or windowed
    now_ms: int
    stale: list[int]  # positions, from 0, of finishes that were refused
    ids: list[bytes]  # claimed
    payloads: list[bytes | None]
    metas: list[bytes | None]  # empty when no job has one


def exchange_arguments(
    token: str, lease_ms: int, want: int, finishes: Sequence[Finish], max_stalls: int, retention: Retention
) -> list[Any]:
    """Finishes in their order; neighbours that ended the same way under the same token share one head."""
    arguments: list[Any] = [token, lease_ms, want, max_stalls, *retention.arguments()]
    head: tuple[str, str] | None = None
    count_at = 0
    for job_id, letter, holder, value in finishes:
        if head != (letter, holder):
            head = (letter, holder)
            arguments += (letter, holder, 0)
            count_at = len(arguments) - 1
        arguments[count_at] += 1
        arguments += (id_bytes(job_id), value)
    return arguments


def read_exchange(reply: list[Any]) -> Exchanged:
    more, next_ms, now_ms, stale, ids, payloads, metas = reply
    refused = [int(number) - 1 for number in stale.split(b",")] if stale else []
    return Exchanged(more == 1, next_ms, now_ms, refused, ids, payloads, metas)
