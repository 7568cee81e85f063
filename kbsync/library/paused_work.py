"""What a pause has ended and a re-drive would ask for again, in numbers (KS-03, KS-06). Transactions: `fleet()`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from kbsync.db.pool import Connection
from kbsync.db.statements import Statements

_SQL = Statements.beside(__file__)

MOST_COUNTED = 100_000  # a count that reaches it is "at least"


@dataclass(frozen=True)
class PausedWork:
    """`skipped` units, unfinished `urls` of running crawls, and `crawls` that never began."""

    skipped: int
    urls: int
    crawls: int

    @property
    def nothing(self) -> bool:
        return not (self.skipped or self.urls or self.crawls)


async def skipped_since(connection: Connection, since: datetime, organization_id: int | None, most: int) -> int:
    """How many units were skipped since, of one organization or (None) of all; at most `most`."""
    found: int = await connection.fetchval(_SQL["skipped_since"], since, organization_id, most)
    return found


async def to_redrive(connection: Connection, still_paused: Sequence[int]) -> PausedWork:
    """What a re-drive would ask for now, without the organizations that stay paused."""
    row = await connection.fetchrow(_SQL["to_redrive"], list(still_paused), MOST_COUNTED)
    assert row is not None
    return PausedWork(**row)
