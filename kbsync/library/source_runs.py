"""What the newest runs of a source came to: one row a run, whatever attempts, delays or crawl it took (LS-12)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from kbsync.db.pool import Connection
from kbsync.db.statements import Statements
from kbsync.domain.text import storable

_SQL = Statements.beside(__file__)

KEPT = 50
MAX_REASON_LENGTH = 2_000


@dataclass(frozen=True)
class SourceRun:
    """`outcome` None: it is under way. The counts are of documents that the run saw; `removed` are those that went."""

    id: int
    attempts: int
    started_at: datetime
    ended_at: datetime | None
    outcome: str | None
    reason: str | None
    added: int
    changed: int
    unchanged: int
    removed: int
    unreadable: int


async def begin(connection: Connection, organization_id: int, source_id: int, *, removed: int = 0) -> None:
    """After: a run of the source is open, and at most KEPT rows of it are there. `removed`: approved documents that went
    with its beginning."""
    await connection.execute(_SQL["begin_source_run"], organization_id, source_id, removed)
    await connection.execute(_SQL["forget_older_runs"], organization_id, source_id, KEPT)


async def settle(
    connection: Connection,
    organization_id: int,
    source_id: int,
    *,
    listing: int,
    reads_later: bool,
    removed: int,
    reason: str | None,
) -> None:
    """Ends the open run as synced. `listing` is what its documents were stamped with; `reads_later`: each document is read by
    a unit of its own, so that what is due counts as changed. `reason`: why it removed less than it missed."""
    text = None if reason is None else storable(reason)[:MAX_REASON_LENGTH]
    arguments = (organization_id, source_id, listing, reads_later, removed, text)
    await connection.execute(_SQL["settle_source_run"], *arguments)


async def move(
    connection: Connection,
    organization_id: int,
    source_id: int,
    document_id: int,
    *,
    is_unreadable: bool,
    is_gone: bool,
) -> None:
    """Before: the document was read, nothing of it is written in this transaction. After: the newest run counts it as what
    it proved to be."""
    await connection.execute(
        _SQL["move_in_newest_run"], organization_id, source_id, document_id, is_unreadable, is_gone
    )


async def fail(connection: Connection, organization_id: int, source_id: int, why: str) -> None:
    """Ends the open run, if one is."""
    await connection.execute(_SQL["fail_source_run"], organization_id, source_id, storable(why)[:MAX_REASON_LENGTH])


async def correct(connection: Connection, organization_id: int, source_id: int, why: str) -> None:
    """Before: the run was settled in this transaction. After: it failed, because it saw nothing of its source."""
    await connection.execute(_SQL["correct_ended_run"], organization_id, source_id, storable(why)[:MAX_REASON_LENGTH])


async def newest(connection: Connection, organization_id: int, source_id: int, limit: int = 10) -> list[SourceRun]:
    return [
        SourceRun(**row) for row in await connection.fetch(_SQL["runs_of_source"], organization_id, source_id, limit)
    ]
