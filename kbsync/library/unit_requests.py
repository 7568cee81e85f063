"""Units that were asked for and have not ended since: what recovery can give back to an emptied queue (QR-08)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from kbsync.db.pool import Connection
from kbsync.db.statements import Statements
from kbsync.domain.ids import job_id
from kbsync.domain.requests import LibraryRequest
from kbsync.domain.states import UnitEnd

_SQL = Statements.beside(__file__)


async def register(connection: Connection, organization_id: int, requests: Sequence[LibraryRequest]) -> None:
    """Before: the requests are of this organization, and the writes that made them due are of this transaction."""
    if requests:
        await connection.execute(_SQL["register_many"], organization_id, *registered(requests))


def registered(requests: Sequence[LibraryRequest]) -> tuple[list[str], list[str], list[str]]:
    """Job ids, kinds and requests as JSON, each job once, in the one order in which rows are taken."""
    by_id = {job_id(request): request for request in requests}
    ids = sorted(by_id)
    return ids, [by_id[key].type for key in ids], [by_id[key].model_dump_json(exclude_none=True) for key in ids]


async def end(connection: Connection, organization_id: int, unit: str, started_at: datetime, ended_as: UnitEnd) -> None:
    """`started_at` is the database's time when the run began; `unit` its job id."""
    await connection.execute(_SQL["end_run"], organization_id, unit, started_at, str(ended_as))


async def end_now(connection: Connection, organization_id: int, unit: str, ended_as: UnitEnd) -> None:
    """Ends whatever of this unit is open: it was skipped, or abandoned."""
    await connection.execute(_SQL["end_now"], organization_id, unit, str(ended_as))
