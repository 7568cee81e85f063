"""What a job id stands for when its payload is gone. Fleet-wide: the tenant is what is being looked for (QU-31)."""

from __future__ import annotations

from datetime import datetime

from pydantic import ValidationError

from kbsync.db.pool import Connection
from kbsync.db.statements import Statements
from kbsync.domain.requests import LibraryRequest, library_request_adapter

_SQL = Statements.beside(__file__)


async def known_request(connection: Connection, job_id: str) -> tuple[LibraryRequest | None, datetime]:
    """The request that was registered under a job id, or None, and the database's time. Before: a `fleet()` transaction."""
    row = await connection.fetchrow(_SQL["known_request"], job_id)
    assert row is not None
    if row["request"] is None:
        return None, row["now"]
    try:
        return library_request_adapter.validate_json(row["request"]), row["now"]
    except ValidationError:
        return None, row["now"]
