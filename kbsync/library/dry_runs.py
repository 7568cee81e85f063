"""What a run would find stored already; nothing here writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kbsync.db.pool import Connection
from kbsync.db.statements import Statements
from kbsync.domain.text import storable
from kbsync.library.documents import NewDocument, external_key

_SQL = Statements.beside(__file__)


@dataclass(frozen=True)
class KeptDocument:
    id: int
    external_key: str
    title: str


async def kinds_of(
    connection: Connection, organization_id: int, source_id: int, documents: Sequence[NewDocument]
) -> dict[str, str]:
    """By external key, for those that are kept: as which a run would count it, `changed`, `unchanged` or `unreadable`."""
    rows = await connection.fetch(
        _SQL["stored_of_listed"],
        organization_id,
        source_id,
        [external_key(one.external_id) for one in documents],
        [one.changed_at for one in documents],
        [storable(one.version) if one.version is not None else None for one in documents],
        [one.text.hash if one.text else None for one in documents],
    )
    return {row["external_key"]: row["kind"] for row in rows}


async def kept_after(
    connection: Connection, organization_id: int, source_id: int, after_id: int, limit: int
) -> list[KeptDocument]:
    rows = await connection.fetch(_SQL["kept_keys_after"], organization_id, source_id, after_id, limit)
    return [KeptDocument(**row) for row in rows]
