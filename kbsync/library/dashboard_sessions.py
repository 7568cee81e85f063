"""Who is signed in at the dashboard: sessions of a token's principal, of which only digests are kept (OP-06, SE-01).

A session ends with its token: revoked or expired, it is nobody's at the next look. Transactions: `fleet()`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

from kbsync.db.pool import Connection
from kbsync.db.statements import Statements
from kbsync.library.principals import Principal, principal_in

_SQL = Statements.beside(__file__)

IDLE_HOURS = 12
LONGEST_DAYS = 7


@dataclass(frozen=True)
class Notice:
    """What came of the last action, shown once. `link` is a path of the dashboard."""

    kind: Literal["done", "failed"]
    text: str
    link: str | None = None


async def open_session(connection: Connection, digest: bytes, token_id: int) -> None:
    """From now on who shows the secret of `digest` is the token's principal. Sessions past their time are dropped."""
    await connection.execute(_SQL["drop_old_sessions"], IDLE_HOURS, LONGEST_DAYS)
    await connection.execute(_SQL["insert_session"], digest, token_id)


async def find_session(connection: Connection, digest: bytes) -> Principal | None:
    """The principal of a live session, or None. Looking keeps it alive."""
    row = await connection.fetchrow(_SQL["live_session"], digest, IDLE_HOURS, LONGEST_DAYS)
    if row is None:
        return None
    if row["stale"]:
        await connection.execute(_SQL["touch_session"], digest)
    return principal_in(row)


async def end_session(connection: Connection, digest: bytes) -> bool:
    """True when this call ended it."""
    return await connection.fetchval(_SQL["delete_session"], digest) is not None


async def leave_notice(connection: Connection, digest: bytes, notice: Notice) -> None:
    value = json.dumps({"kind": notice.kind, "text": notice.text, "link": notice.link})
    await connection.execute(_SQL["set_notice"], digest, value)


async def take_notice(connection: Connection, digest: bytes) -> Notice | None:
    """The notice that waits, which is gone then."""
    value = await connection.fetchval(_SQL["take_notice"], digest)
    return Notice(**json.loads(value)) if value else None
