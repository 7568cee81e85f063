"""The pool and the three ways to a transaction.

Every transaction names its role, so that row security is a second wall behind each statement's own filter (SE-02, LS-24):

- `organization(id)`: role kbsync_library, sees one organization's rows only
- `fleet()`: role kbsync_fleet, sees every organization: the tick, the relay, the reconciler, the API's own tables
- `direct()`: the connecting role itself: migrations and health checks

Nothing here outlives a transaction: no session setting, no advisory session lock, no server-side statement name when
`pooled` is set, so a transaction-mode pooler may stand in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import asyncpg

from kbsync.db.errors import translated
from kbsync.domain.errors import DatabaseUnavailable

if TYPE_CHECKING:
    Connection = asyncpg.pool.PoolConnectionProxy[asyncpg.Record] | asyncpg.Connection[asyncpg.Record]
    Pool = asyncpg.Pool[asyncpg.Record]
else:
    Connection = asyncpg.Connection
    Pool = asyncpg.Pool


class Database:
    """One pool. Open it with `await Database.open(url)`, close it with `close()`."""

    def __init__(self, pool: Pool, url: str) -> None:
        self._pool = pool
        self.url = url

    @classmethod
    async def open(
        cls, url: str, *, min_size: int = 0, max_size: int = 10, pooled: bool = False, timeout_s: float = 10.0
    ) -> Database:
        """Raises DatabaseUnavailable when the server can't be reached. `pooled`: a transaction-mode pooler is in front."""
        with translated():
            pool = await asyncpg.create_pool(
                url,
                min_size=min_size,
                max_size=max_size,
                timeout=timeout_s,
                command_timeout=120,
                statement_cache_size=0 if pooled else 256,
                # DISCARD ALL and the like are session statements: nothing of ours needs them, and a pooler forbids them.
                reset=_no_reset,
            )
        return cls(pool, url)

    @asynccontextmanager
    async def organization(self, organization_id: int) -> AsyncIterator[Connection]:
        """A transaction that can see and write the rows of one organization only."""
        async with self._transaction(
            f"set local role kbsync_library; set local kbsync.organization_id = '{int(organization_id)}'"
        ) as connection:
            yield connection

    @asynccontextmanager
    async def fleet(self) -> AsyncIterator[Connection]:
        """A transaction that can see every organization."""
        async with self._transaction("set local role kbsync_fleet") as connection:
            yield connection

    @asynccontextmanager
    async def direct(self) -> AsyncIterator[Connection]:
        """A transaction as the connecting role."""
        async with self._transaction("") as connection:
            yield connection

    @asynccontextmanager
    async def _transaction(self, settings: str) -> AsyncIterator[Connection]:
        with translated():
            async with self._pool.acquire() as connection:
                # One simple query opens the transaction and sets its role: a round trip less per unit.
                await connection.execute(f"begin; {settings}")
                try:
                    yield connection
                except BaseException:
                    # A cancelled task must not hand a connection back that still holds its locks.
                    await asyncio.shield(_roll_back(connection))
                    raise
                await connection.execute("commit")

    async def ping(self) -> None:
        """Raises DatabaseUnavailable unless the server answers."""
        async with self.direct() as connection:
            await connection.execute("select 1")

    async def close(self) -> None:
        """Waits up to 5 s for borrowed connections, then cuts them."""
        try:
            await asyncio.wait_for(self._pool.close(), 5)
        except TimeoutError:
            self._pool.terminate()


async def _no_reset(connection: object) -> None:
    return None


async def _roll_back(connection: Connection) -> None:
    if connection.is_closed():
        return
    try:
        await connection.execute("rollback", timeout=5)
    except (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError):
        # Whatever stands in the way (a lost server, an answer still on its way), the connection is not used again.
        connection.terminate()


__all__ = ["Connection", "Database", "DatabaseUnavailable", "Pool"]
