"""Sources with an interval of their own, over all organizations (LS-26). Transactions: `fleet()`."""

from __future__ import annotations

from kbsync.db.pool import Connection
from kbsync.db.statements import Statements
from kbsync.domain.requests import SyncSource

_SQL = Statements.beside(__file__)


async def claim_due(connection: Connection, limit: int) -> list[SyncSource]:
    """The requests of sources that are due, which nobody else gets until they are due again. Before: what is answered is
    owed in this very transaction, else a crash loses it for an interval."""
    rows = await connection.fetch(_SQL["claim_due_intervals"], limit)
    return [SyncSource(organization_id=row["organization_id"], source_id=row["id"]) for row in rows]
