"""What the planner knows of tables that are just growing (PF-11)."""

from __future__ import annotations

from kbsync.db.pool import Connection
from kbsync.db.statements import Statements

_SQL = Statements.beside(__file__)

FIRST = 64


def is_due(rows: int) -> bool:
    """Whether a run that has written `rows` so far should refresh: each time it has doubled them."""
    return rows >= FIRST and rows & (rows - 1) == 0


async def refresh(connection: Connection) -> None:
    """After: tables that have grown by half since they were last looked at are planned for as they are. Cheap when none
    has; any transaction will do."""
    await connection.execute(_SQL["refresh_statistics"])
