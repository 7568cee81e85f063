"""What the pages of knowledge share: whose a row is, which rows a person may see, and addresses that keep their filters."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from urllib.parse import urlencode

from kbsync.dashboard.ask import Ask, NotHere
from kbsync.db.pool import Connection

Owner = Callable[[Connection, int], Awaitable[int | None]]
MOST_ROW_ID = 2**63 - 1


async def organization_of(ask: Ask, owner: Owner, row_id: int, missing: str) -> int:
    """The organization in whose transaction a row is to be read. Who is bound to one stays in it, whoever owns the row:
    there it is not found then (SE-02). Raises NotHere with `missing` for a row of nobody."""
    if ask.organization_id is not None:
        return ask.organization_id
    async with ask.services.database.fleet() as connection:
        found = await owner(connection, row_id)
    if found is None:
        raise NotHere(missing)
    return found


@asynccontextmanager
async def all_that_may_be_seen(ask: Ask) -> AsyncIterator[Connection]:
    """A transaction over one's own organization, or over the fleet for who is bound to none."""
    database = ask.services.database
    own = ask.organization_id
    async with database.fleet() if own is None else database.organization(own) as connection:
        yield connection


def is_stream(ask: Ask) -> bool:
    """The page's live blocks alone are read: what stands still need not be."""
    return "text/event-stream" in ask.request.headers.get("Accept", "")


def id_or_none(text: str) -> int | None:
    """A row's id that somebody typed or that a filter holds."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def place_of(text: str, parts: int) -> tuple[int, ...] | None:
    """A keyset cursor of this many numbers, `7-12`; None for anything else, which begins at the beginning."""
    numbers = tuple(id_or_none(part) for part in text.split("-"))
    if len(numbers) != parts or any(number is None for number in numbers):
        return None
    return tuple(number for number in numbers if number is not None)


def address(path: str, **query: object) -> str:
    """A path with the query parts that hold anything."""
    given = {name: str(value) for name, value in query.items() if value not in (None, "")}
    return f"{path}?{urlencode(given)}" if given else path
