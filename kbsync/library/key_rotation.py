"""Sealed credentials over all organizations, for a change of keys (LS-19). Transactions: `fleet()`."""

from __future__ import annotations

from dataclasses import dataclass, field

from kbsync.db.pool import Connection
from kbsync.db.statements import Statements

_SQL = Statements.beside(__file__)


@dataclass(frozen=True)
class Sealed:
    """`id` of a data source."""

    id: int
    organization_id: int
    sealed_credentials: str = field(repr=False)


async def sealed_after(connection: Connection, after_id: int, limit: int) -> list[Sealed]:
    return [Sealed(**row) for row in await connection.fetch(_SQL["sealed_after"], after_id, limit)]


async def reseal(connection: Connection, known: Sealed, sealed: str) -> bool:
    """False when they were changed since they were read."""
    return (
        await connection.fetchval(_SQL["reseal_if_unchanged"], known.id, known.sealed_credentials, sealed) is not None
    )
