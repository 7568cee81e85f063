"""Whose a row is: what a person of the whole fleet has in hand is an id. Transactions: `fleet()`.

Everything else about the row is then read in that organization's own transaction, by statements that name it."""

from __future__ import annotations

from kbsync.db.pool import Connection
from kbsync.db.statements import Statements
from kbsync.library.organizations import OrganizationRow

_SQL = Statements.beside(__file__)


async def owner_of_source(connection: Connection, source_id: int) -> int | None:
    """The organization of a kept source."""
    found: int | None = await connection.fetchval(_SQL["owner_of_source"], source_id)
    return found


async def owner_of_document(connection: Connection, document_id: int) -> int | None:
    """The organization of a document, kept or discarded."""
    found: int | None = await connection.fetchval(_SQL["owner_of_document"], document_id)
    return found


async def owner_of_crawl(connection: Connection, task_id: int) -> int | None:
    found: int | None = await connection.fetchval(_SQL["owner_of_crawl"], task_id)
    return found


async def organizations_by_name(connection: Connection, limit: int) -> list[OrganizationRow]:
    """The first `limit` organizations, for a choice."""
    return [OrganizationRow(**row) for row in await connection.fetch(_SQL["organizations_by_name"], limit)]
