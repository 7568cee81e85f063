"""Transactions in a role, and connections that always come back clean."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from kbsync.db.errors import retry_on_conflict
from kbsync.db.pool import Database
from kbsync.domain.errors import DatabaseUnavailable


async def test_a_cancelled_task_leaves_no_lock_and_a_full_pool(database_url: str) -> None:
    """A hundred jobs whose time ran out inside a transaction, on a pool of five (field case B06)."""
    database = await Database.open(database_url, max_size=5)
    async with database.fleet() as connection:
        await connection.execute("insert into organizations (id, name) values (1, 'Acme')")

    async def hold() -> None:
        async with database.fleet() as connection:
            await connection.execute("select 1 from organizations where id = 1 for update")
            await asyncio.Event().wait()

    tasks = [asyncio.create_task(hold()) for _ in range(100)]
    await asyncio.sleep(0)
    watcher = await asyncpg.connect(database_url)
    while not await watcher.fetchval("select count(*) from pg_locks where mode = 'RowShareLock'"):
        await asyncio.sleep(0.01)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    idle = "select count(*) from pg_stat_activity where state like 'idle in transaction%'"
    assert await watcher.fetchval(idle) == 0
    async with database.fleet() as connection:
        assert await connection.fetchval("select 1 from organizations where id = 1 for update nowait") == 1
    await watcher.close()
    await database.close()


async def test_an_error_rolls_back_and_the_role_does_not_outlive_the_transaction(database: Database) -> None:
    with pytest.raises(asyncpg.UndefinedTableError):
        async with database.organization(1) as connection:
            await connection.execute("select * from no_such_table")
    async with database.direct() as connection:
        assert await connection.fetchval("select current_user") == "postgres"
        assert await connection.fetchval("select current_setting('kbsync.organization_id', true)") in (None, "")


@pytest.mark.spec("LS-24")
async def test_the_library_role_can_write_nothing_but_the_library(database: Database) -> None:
    async with database.direct() as connection:
        await connection.execute("create table somebody_elses (id int)")
    for statement in (
        "insert into somebody_elses values (1)",
        "insert into kbsync.principals (name, kind, roles) values ('x', 'human', '{}')",
        "update flipper_gates set value = 'true'",
        "insert into organizations (id, name) values (9, 'x')",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with database.organization(1) as connection:
                await connection.execute(statement)


@pytest.mark.spec("SE-02")
async def test_row_security_hides_another_organization_even_from_a_statement_without_a_filter(
    database: Database,
) -> None:
    async with database.fleet() as connection:
        await connection.execute("insert into organizations (id, name) values (1, 'Acme'), (2, 'Bolt')")
        await connection.execute(
            "insert into knowledge_base_sources (organization_id, type) values (1, 'files'), (2, 'files'), (2, 'website')"
        )
    async with database.organization(1) as connection:
        assert await connection.fetchval("select count(*) from knowledge_base_sources") == 1
        assert await connection.execute("update knowledge_base_sources set name = 'mine'") == "UPDATE 1"
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        async with database.organization(1) as connection:
            await connection.execute("insert into knowledge_base_sources (organization_id, type) values (2, 'files')")


async def test_a_deadlock_is_tried_again_as_a_whole() -> None:
    tries = 0

    async def transaction() -> str:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise asyncpg.DeadlockDetectedError("deadlock detected")
        return "done"

    assert await retry_on_conflict(transaction) == "done"


async def test_a_server_that_goes_away_is_database_unavailable(database_url: str) -> None:
    database = await Database.open(database_url, max_size=1)
    killer = await asyncpg.connect(database_url)
    with pytest.raises(DatabaseUnavailable):
        async with database.direct() as connection:
            pid = await connection.fetchval("select pg_backend_pid()")
            await killer.execute("select pg_terminate_backend($1)", pid)
            await connection.execute("select pg_sleep(5)")
    await database.ping()
    await killer.close()
    await database.close()
