"""Provider connections: whose quota it is, and the sealed credentials."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from kbsync.db.pool import Connection
from kbsync.db.statements import Statements
from kbsync.domain.text import storable

_SQL = Statements.beside(__file__)

MAX_WHY_LENGTH = 1_000


@dataclass(frozen=True)
class DataSourceRow:
    """`limits` override the throttles' defaults (RL-07). `refused_why`: the provider refused these credentials; they may be
    tried once a day all the same (`may_be_tried`)."""

    id: int
    organization_id: int
    provider: str
    name: str
    sealed_credentials: str | None = field(repr=False)
    limits: Mapping[str, object]
    refused_at: datetime | None = None
    refused_why: str | None = None
    may_be_tried: bool = False


async def create(
    connection: Connection,
    organization_id: int,
    *,
    provider: str,
    name: str = "",
    sealed_credentials: str | None = None,
    limits: Mapping[str, object] | None = None,
) -> int:
    """The id of a new data source."""
    created: int = await connection.fetchval(
        _SQL["insert_data_source"],
        organization_id,
        provider,
        storable(name),
        sealed_credentials,
        json.dumps(dict(limits or {})),
    )
    return created


async def get(connection: Connection, organization_id: int, data_source_id: int) -> DataSourceRow | None:
    """A kept data source of this organization."""
    row = await connection.fetchrow(_SQL["data_source_by_id"], organization_id, data_source_id)
    return DataSourceRow(**{**row, "limits": json.loads(row["limits"])}) if row else None


async def set_limits(
    connection: Connection, organization_id: int, data_source_id: int, limits: Mapping[str, object]
) -> bool:
    """False when there is no such kept data source."""
    arguments = (organization_id, data_source_id, json.dumps(dict(limits)))
    return await connection.fetchval(_SQL["update_limits"], *arguments) is not None


async def set_sealed_credentials(
    connection: Connection, organization_id: int, data_source_id: int, sealed: str | None
) -> bool:
    """A refusal of the ones before is forgotten. False when there is no such kept data source."""
    arguments = (organization_id, data_source_id, sealed)
    return await connection.fetchval(_SQL["update_sealed_credentials"], *arguments) is not None


async def note_refusal(connection: Connection, row: DataSourceRow, why: str) -> None:
    """The provider refused the credentials that `row` was read with: from now on nobody asks it with them (LS-07)."""
    arguments = (row.organization_id, row.id, storable(why)[:MAX_WHY_LENGTH], row.sealed_credentials)
    await connection.execute(_SQL["note_refusal"], *arguments)


async def forget_refusal(connection: Connection, organization_id: int, data_source_id: int) -> bool:
    """Whether one was noted."""
    return await connection.fetchval(_SQL["forget_refusal"], organization_id, data_source_id) is not None
