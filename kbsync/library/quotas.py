"""Whose quota a throttle counts, by name, and what its limit was changed to (RL-07). Transactions: `fleet()`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import asyncpg

from kbsync.db.pool import Connection
from kbsync.db.statements import Statements

_SQL = Statements.beside(__file__)

LIMITS_CHANGED = "data_source.limits"  # in the audit


@dataclass(frozen=True)
class Quota:
    """A data source. `source` is the name of the first source that uses it; `changed_*`: who set `limits` last, and when."""

    id: int
    organization_id: int
    provider: str
    name: str
    source: str | None
    limits: Mapping[str, object]
    changed_by: str | None
    changed_at: datetime | None


def target_of(data_source_id: int) -> str:
    """How the audit names a data source."""
    return f"data_source:{data_source_id}"


async def of_data_sources(connection: Connection, ids: Sequence[int]) -> dict[int, Quota]:
    """Those of `ids` that are kept."""
    rows = await connection.fetch(_SQL["quotas_by_id"], list(ids), LIMITS_CHANGED)
    return {row["id"]: _quota(row) for row in rows}


async def with_limits(connection: Connection, limit: int) -> list[int]:
    """The kept data sources whose limits are their own."""
    return [row["id"] for row in await connection.fetch(_SQL["ids_with_limits"], limit)]


def _quota(row: asyncpg.Record) -> Quota:
    values = dict(row)
    limits = json.loads(values["limits"])
    return Quota(**{**values, "limits": limits if isinstance(limits, dict) else {}})
