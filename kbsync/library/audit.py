"""The audit: who did what to what, and why. Written in the transaction of the change where there is one."""

from __future__ import annotations

import json
from collections.abc import Mapping

from kbsync.db.pool import Connection
from kbsync.db.statements import Statements
from kbsync.domain.text import storable

_SQL = Statements.beside(__file__)


async def write(
    connection: Connection,
    *,
    actor: str,
    action: str,
    target: str,
    organization_id: int | None = None,
    reason: str | None = None,
    detail: Mapping[str, object] | None = None,
) -> None:
    """Adds one entry. `detail` holds ids and counts, never content or secrets."""
    await connection.execute(
        _SQL["insert_entry"],
        storable(actor),
        action,
        storable(target),
        organization_id,
        None if reason is None else storable(reason),
        json.dumps(dict(detail or {})),
    )
