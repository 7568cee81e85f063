"""Ruby Flipper's own tables, read and written as its ActiveRecord adapter does: a Rails app and kbsync share one flag."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kbsync.db.pool import Connection, Database
from kbsync.db.statements import Statements
from kbsync.domain.errors import DatabaseUnavailable, FlagStoreUnavailable
from kbsync.flags.flipper_gates import FlipperGates, actor_of

_sql = Statements.beside(__file__)


class FlipperTables:
    """A `Flags` store in Postgres. An answer that takes longer than `timeout_s` is no answer (KS-01, KS-05)."""

    def __init__(self, database: Database, *, timeout_s: float = 1.0) -> None:
        self._database = database
        self._timeout_s = timeout_s

    async def snapshot(self, name: str) -> FlipperGates:
        async with self._answers(), self._database.fleet() as connection:
            rows = await connection.fetch(_sql["gates_of_feature"], name)
        return FlipperGates.from_rows(name, [(row["key"], row["value"]) for row in rows])

    async def is_enabled(self, name: str, organization_id: int | None = None) -> bool:
        return (await self.snapshot(name)).is_enabled(organization_id)

    async def set_boolean(self, name: str, on: bool, *, within: Connection | None = None) -> None:
        async with self._transaction(within) as connection:
            await connection.execute(_sql["add_feature_if_absent"], name)
            await connection.execute(_sql["clear_gates"], name)
            if on:
                await connection.execute(_sql["insert_gate_if_absent"], name, "boolean", "true")

    async def set_actor(self, name: str, organization_id: int, on: bool, *, within: Connection | None = None) -> None:
        change = _sql["insert_gate_if_absent" if on else "delete_gate"]
        async with self._transaction(within) as connection:
            await connection.execute(_sql["add_feature_if_absent"], name)
            await connection.execute(change, name, "actors", actor_of(organization_id))

    @asynccontextmanager
    async def _transaction(self, within: Connection | None) -> AsyncIterator[Connection]:
        if within is not None:
            yield within  # the caller's transaction, time-out and errors
            return
        async with self._answers(), self._database.fleet() as connection:
            yield connection

    @asynccontextmanager
    async def _answers(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._timeout_s):
                yield
        except (DatabaseUnavailable, TimeoutError) as error:
            raise FlagStoreUnavailable(f"the flag store does not answer ({error or type(error).__name__})") from error
