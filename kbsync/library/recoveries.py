"""What recovery did: its last pass, and how much each layer brought back by hour (QR-07, OP-05). Transactions: `fleet()`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from kbsync.db.pool import Connection
from kbsync.db.statements import Statements
from kbsync.library.counters import RECOVERY, Counted, add_many

_SQL = Statements.beside(__file__)


@dataclass(frozen=True)
class RecoveryBeat:
    """`first_at`: when the first pass of this database ended. `stood_down`: the kill switch was on for everybody."""

    first_at: datetime
    at: datetime
    took_ms: int
    stood_down: bool


@dataclass(frozen=True)
class RecoveredHour:
    hour: datetime
    layers: Mapping[str, int]


async def note_pass(
    connection: Connection, *, took_ms: int, stood_down: bool, recovered: Mapping[Counted, int]
) -> None:
    """A pass has ended now, and brought this much back."""
    await connection.execute(_SQL["note_beat"], took_ms, stood_down)
    amounts = {(RECOVERY, str(name)): amount for name, amount in recovered.items() if amount}
    if amounts:
        await add_many(connection, amounts)


async def last_pass(connection: Connection) -> RecoveryBeat | None:
    row = await connection.fetchrow(_SQL["last_beat"])
    return RecoveryBeat(**row) if row else None


async def recovered_hours(connection: Connection, hours: int) -> list[RecoveredHour]:
    """The last hours, oldest first, the one that runs last; an hour without any is there too."""
    rows = await connection.fetch(_SQL["recovered_by_hour"], hours)
    by_hour: dict[datetime, Counter[str]] = {}
    for row in rows:
        layers = by_hour.setdefault(row["hour"], Counter())
        if row["name"] is not None:
            layers[row["name"]] += row["amount"]
    return [RecoveredHour(hour, layers) for hour, layers in sorted(by_hour.items())]
