"""Whatever a person may look for by id or name, a few of each (OP-05).

Transactions: `fleet()`, or `organization()` for a person bound to one; then `organization_id` is that one as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kbsync.db.pool import Connection
from kbsync.db.statements import Statements

_SQL = Statements.beside(__file__)

What = Literal["source", "organization", "document", "crawl"]
_AFTER_ALL = "\U0010ffff"


@dataclass(frozen=True)
class Found:
    what: What
    id: int
    name: str
    note: str
    organization_id: int
    organization: str


async def by_number(connection: Connection, organization_id: int | None, number: int) -> list[Found]:
    """What has this id: at most one source, organization, document and crawl."""
    rows = await connection.fetch(_SQL["found_by_number"], organization_id, number)
    return [Found(**row) for row in rows]


async def sources(connection: Connection, organization_id: int | None, words: str, limit: int) -> list[Found]:
    """Kept sources with `words` in their name, in any case."""
    rows = await connection.fetch(_SQL["sources_by_name"], organization_id, f"%{_escaped(words)}%", limit)
    return [Found(**row) for row in rows]


async def organizations(connection: Connection, organization_id: int | None, words: str, limit: int) -> list[Found]:
    rows = await connection.fetch(_SQL["organizations_by_name"], organization_id, f"%{_escaped(words)}%", limit)
    return [Found(**row) for row in rows]


async def documents(connection: Connection, organization_id: int | None, words: str, limit: int) -> list[Found]:
    """Kept documents whose title begins with `words`, in any case, or whose address it is: a look in an index each."""
    begin = words[:100].lower()
    rows = await connection.fetch(
        _SQL["documents_by_title_or_url"], organization_id, begin, begin + _AFTER_ALL, words, limit
    )
    return [Found(**row) for row in rows]


def _escaped(words: str) -> str:
    return words.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
