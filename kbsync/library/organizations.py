"""Tenants. A tenant sees itself only; new ones are made in a `fleet()` transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kbsync.db.pool import Connection
from kbsync.db.statements import Statements
from kbsync.domain.text import storable

_SQL = Statements.beside(__file__)


@dataclass(frozen=True)
class OrganizationRow:
    id: int
    name: str


async def create(connection: Connection, name: str) -> int:
    """The id of a new organization."""
    created: int = await connection.fetchval(_SQL["insert_organization"], storable(name))
    return created


async def named(connection: Connection, name: str) -> int | None:
    """The oldest organization of exactly this name. Transactions: `fleet()`."""
    found: int | None = await connection.fetchval(_SQL["organization_by_name"], name)
    return found


async def get(connection: Connection, organization_id: int) -> OrganizationRow | None:
    row = await connection.fetchrow(_SQL["organization_by_id"], organization_id)
    return OrganizationRow(**row) if row else None


async def names_of(connection: Connection, organization_ids: Sequence[int]) -> dict[int, str]:
    """The names of those that exist. Transactions: `fleet()`."""
    rows = await connection.fetch(_SQL["names_of_organizations"], list(organization_ids))
    return {row["id"]: row["name"] for row in rows}
