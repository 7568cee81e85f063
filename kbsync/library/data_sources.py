"""Provider connections: whose quota it is, and the sealed credentials."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from kbsync.db.pool import Connection
from kbsync.db.statements import Statements
from kbsync.domain.text import storable

_SQL = Statements.beside(__file__)


@dataclass(frozen=True)
class DataSourceRow:
    """`limits` override the throttles' defaults (RL-07)."""

    id: int
    organization_id: int
    provider: str
    name: str
    sealed_credentials: str | None = field(repr=False)
    limits: Mapping[str, object]


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
    """False when there is no such kept data source."""
    arguments = (organization_id, data_source_id, sealed)
    return await connection.fetchval(_SQL["update_sealed_credentials"], *arguments) is not None
