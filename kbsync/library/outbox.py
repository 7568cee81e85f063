"""The outbox: rows that producers wrote in their own transactions, waiting for the relay (LS-02). Transactions: `fleet()`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kbsync.db.pool import Connection
from kbsync.db.statements import Statements

_SQL = Statements.beside(__file__)

CHANNEL = "kbsync_outbox"
REFUSED = "refused"


@dataclass(frozen=True)
class OutboxRow:
    """`request` is the JSON text as the producer wrote it: checked for its outline only."""

    id: int
    organization_id: int
    request: str


@dataclass(frozen=True)
class RelayedRow:
    """What became of a row: an enqueue outcome, or REFUSED with the reason in `refusal`."""

    id: int
    outcome: str
    refusal: str | None = None


async def organizations_waiting(connection: Connection) -> list[int]:
    return [row["organization_id"] for row in await connection.fetch(_SQL["organizations_waiting"])]


async def claim_unrelayed(connection: Connection, organization_ids: Sequence[int], limit_each: int) -> list[OutboxRow]:
    """Locks the answered rows until the transaction ends; rows that another relay holds are passed over."""
    rows = await connection.fetch(_SQL["claim_unrelayed"], list(organization_ids), limit_each)
    return [OutboxRow(row["id"], row["organization_id"], row["request"]) for row in rows]


async def mark_relayed_many(connection: Connection, rows: Sequence[RelayedRow]) -> None:
    await connection.execute(
        _SQL["mark_relayed_many"],
        [row.id for row in rows],
        [row.outcome for row in rows],
        [row.refusal for row in rows],
    )
