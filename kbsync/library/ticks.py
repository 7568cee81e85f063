"""The ledger of daily scans: one row a date, with how far it came (LS-22). Transactions: `fleet()`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Literal

from kbsync.db.pool import Connection
from kbsync.db.statements import Statements

_SQL = Statements.beside(__file__)

Phase = Literal["sources", "chunks", "done"]


@dataclass(frozen=True)
class TickProgress:
    """Where a scan stands: the phase, the last id that it is through with, and its counts so far."""

    phase: Phase = "sources"
    after_id: int = 0
    counts: Mapping[str, int] | None = None


async def claim_tick_unless_finished(connection: Connection, day: date, run: str) -> TickProgress | None:
    """Where to go on, or None: the date's scan is finished. `run` is the fence of this run's later writes."""
    row = await connection.fetchrow(_SQL["claim_tick_unless_finished"], day, run)
    return None if row is None else TickProgress(row["phase"], row["after_id"], json.loads(row["counts"]))


async def advance_tick_if_claimed(connection: Connection, day: date, run: str, progress: TickProgress) -> bool:
    """False: another run has the date, and this one must stop. Phase `done` finishes the date."""
    counts = json.dumps(dict(progress.counts or {}))
    answer = await connection.fetchval(
        _SQL["advance_tick_if_claimed"], day, run, progress.phase, progress.after_id, counts
    )
    return answer is not None


async def skip_tick_unless_finished(connection: Connection, day: date, run: str) -> None:
    await connection.execute(_SQL["skip_tick_unless_finished"], day, run)


async def tick_is_over(connection: Connection, day: date) -> bool:
    return bool(await connection.fetchval(_SQL["tick_is_over"], day))


async def clock(connection: Connection) -> datetime:
    """The database's clock, which all processes share."""
    now: datetime = await connection.fetchval(_SQL["clock"])
    return now
