"""The bound of provider-stated waits: a job is not put off for ever (RL-05).

100 waits in a row or 72 h for one job are delays; every one after that is a failing attempt, so that it ends.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from redis.asyncio import Redis

from ratelimits.scripts import Script, clock_argument, translated

MAX_WAITS = 100
MAX_HOURS = 72.0


class WaitVerdict(StrEnum):
    DELAY = "delay"
    COUNTS_AS_FAILURE = "counts_as_failure"


@dataclass(frozen=True)
class ProviderWaits:
    """`note_wait` when a job met, or found, a wait that its provider asked for; `clear` when it ran to its end."""

    redis: Redis
    max_waits: int = MAX_WAITS
    max_hours: float = MAX_HOURS

    async def note_wait(
        self, job_id: str, wait_s: float = 0.0, *, quota: bool = False, now_ms: int | None = None
    ) -> WaitVerdict:
        """One more wait of `wait_s` seconds. A spent long quota counts as one wait, but its time is not held against the
        job. Raises QueueUnavailable: then nothing was counted for certain, and the job is delayed anyway."""
        script = Script(self.redis, "note_wait")
        reply = await script(
            [waits_key(job_id)],
            [
                self.max_waits,
                math.ceil(self.max_hours * 3_600_000),
                max(0, math.ceil(wait_s * 1000)),
                int(quota),
                clock_argument(now_ms),
            ],
        )
        assert isinstance(reply, Sequence)
        return WaitVerdict.COUNTS_AS_FAILURE if int(reply[0]) else WaitVerdict.DELAY

    async def clear(self, job_id: str) -> None:
        """The job succeeded, was skipped or failed for good: its next wait is a first one. Safe to repeat."""
        with translated():
            await self.redis.delete(waits_key(job_id))


def waits_key(job_id: str) -> str:
    """Where a job's waits are counted; the layout is `scope.py`'s."""
    return f"kbsync:waits:{job_id}"
