"""Who paused a queue and why, as the audit has it: Redis only knows that it is paused (QU-13). Transactions: `fleet()`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from kbsync.db.pool import Connection
from kbsync.db.statements import Statements

_SQL = Statements.beside(__file__)


@dataclass(frozen=True)
class QueuePause:
    actor: str
    reason: str | None
    at: datetime


async def latest_pause(connection: Connection, queue: str) -> QueuePause | None:
    """The last time that somebody paused it. None: nobody did, so it was done without kbsync."""
    row = await connection.fetchrow(_SQL["latest_pause"], f"queue:{queue}")
    return QueuePause(**row) if row else None
