"""A database that dies at a chosen point of a unit: before any statement, or just after a commit."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any, cast

from kbsync.db.pool import Connection, Database

# How many more points this task passes before it dies; None: it lives. Each asyncio task has its own.
points_left: ContextVar[int | None] = ContextVar("points_left", default=None)


class Crashed(BaseException):
    """The process is gone: no handler of the code under test may see it as an error."""


def pass_point() -> None:
    left = points_left.get()
    if left is None:
        return
    if left <= 0:
        raise Crashed
    points_left.set(left - 1)


class _Watched:
    """A connection whose every statement is a point to die at."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def execute(self, *arguments: Any) -> Any:
        pass_point()
        return await self._connection.execute(*arguments)

    async def fetch(self, *arguments: Any) -> Any:
        pass_point()
        return await self._connection.fetch(*arguments)

    async def fetchrow(self, *arguments: Any) -> Any:
        pass_point()
        return await self._connection.fetchrow(*arguments)

    async def fetchval(self, *arguments: Any) -> Any:
        pass_point()
        return await self._connection.fetchval(*arguments)


class DyingDatabase(Database):
    """`database`, as a process sees it that may die."""

    def __init__(self, database: Database) -> None:
        super().__init__(database._pool, database.url)

    @asynccontextmanager
    async def organization(self, organization_id: int) -> AsyncIterator[Connection]:
        async with super().organization(organization_id) as connection:
            yield cast(Connection, _Watched(connection))
            pass_point()  # before the commit
        pass_point()  # after it
