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
    claimed: list[Any]  # job id, payload, meta, job id, ...


def exchange_arguments(
    token: str, lease_ms: int, want: int, finishes: Sequence[Finish], max_stalls: int, retention: Retention
) -> list[Any]:
    arguments: list[Any] = [token, lease_ms, want, len(finishes), max_stalls, *retention.arguments()]
    for finish in finishes:
        arguments += (id_bytes(finish.job_id), finish.letter + finish.token, finish.value)
    return arguments


def read_exchange(reply: list[Any]) -> Exchanged:
    stale = [int(number) - 1 for number in reply[3].split(b",")] if reply[3] else []
    return Exchanged(reply[0] == 1, reply[1], reply[2], stale, reply[4:])
