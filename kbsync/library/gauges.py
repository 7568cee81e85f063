"""How the library stands, for a scrape: a few statements, each bounded in time (OP-08). Transactions: `fleet()`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kbsync.db.pool import Connection
from kbsync.db.statements import Statements
from kbsync.library import outbox

_SQL = Statements.beside(__file__)

STALE_DAYS = 2


@dataclass(frozen=True)
class Promises:
    """Ages in seconds; None where nothing is owed, nothing waits, or no scan has finished yet."""

    oldest_owed_s: float | None
    oldest_outbox_s: float | None
    last_scan_s: float | None


@dataclass(frozen=True)
class SourcesOfType:
    type: str
    sources: int
    failed: int
    stale: int
    oldest_s: float


async def promises(connection: Connection, timeout_ms: int) -> Promises:
    await connection.fetchval(_SQL["bound_time"], str(timeout_ms))
    row = await connection.fetchrow(_SQL["promises"], await outbox.organizations_waiting(connection))
    assert row is not None
    return Promises(**row)


async def sources(connection: Connection, timeout_ms: int) -> Sequence[SourcesOfType]:
    await connection.fetchval(_SQL["bound_time"], str(timeout_ms))
    return [SourcesOfType(**row) for row in await connection.fetch(_SQL["sources"], STALE_DAYS)]


async def documents_without_chunks(connection: Connection, timeout_ms: int) -> int:
    await connection.fetchval(_SQL["bound_time"], str(timeout_ms))
    count: int = await connection.fetchval(_SQL["documents_without_chunks"])
    return count
