"""The migration runner."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from kbsync.db import migrate as runner
from kbsync.db.migrate import ChangedMigration, NewerDatabase, UnappliedMigrations, check_schema, migrate
from kbsync.domain.errors import DatabaseUnavailable, SettingsError
from ops.embedded.postgres import EmbeddedPostgres


@pytest.fixture
async def empty_url(postgres: EmbeddedPostgres) -> AsyncIterator[str]:
    connection = await asyncpg.connect(postgres.url)
    await connection.execute("create database empty_one")
    yield postgres.url.rsplit("/", 1)[0] + "/empty_one"
    await connection.execute("drop database empty_one with (force)")
    await connection.close()


@pytest.mark.spec("OP-04")
async def test_many_runners_at_once_apply_each_file_once(empty_url: str) -> None:
    plans = await asyncio.gather(*(migrate(empty_url) for _ in range(4)))
    names = [m.name for m in runner.known_migrations()]
    assert sorted(name for plan in plans for name in plan.migrations) == names
    await check_schema(empty_url)


@pytest.mark.spec("OP-04")
async def test_a_dry_run_says_what_it_would_do_and_does_nothing(empty_url: str) -> None:
    plan = await migrate(empty_url, dry_run=True)
    assert plan.migrations == tuple(m.name for m in runner.known_migrations())
    assert "request_sync" in plan.routines
    connection = await asyncpg.connect(empty_url)
    assert await connection.fetchval("select to_regclass('kbsync.migrations')") is None
    await connection.close()


@pytest.mark.spec("OP-04")
async def test_a_newer_database_is_refused_unless_old_workers_survive_it(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    add = "insert into kbsync.migrations (name, digest, old_workers_keep_running) values ($1, 'x', $2)"
    await connection.execute(add, "9998_add_something", True)
    await check_schema(database_url)
    with pytest.raises(NewerDatabase, match="9998_add_something"):
        await migrate(database_url)
    await connection.execute(add, "9999_drop_something", False)
    with pytest.raises(NewerDatabase, match="9999_drop_something"):
        await check_schema(database_url)
    await connection.close()


@pytest.mark.spec("OP-04")
async def test_a_half_applied_sequence_names_the_missing_file(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    await connection.execute("delete from kbsync.migrations where name = '0003_ledgers'")
    with pytest.raises(UnappliedMigrations, match="0003_ledgers"):
        await check_schema(database_url)
    await connection.close()


async def test_a_file_changed_after_it_was_applied_is_refused(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    await connection.execute("update kbsync.migrations set digest = 'other' where name = '0002_library'")
    with pytest.raises(ChangedMigration, match="0002_library"):
        await migrate(database_url)
    await connection.close()


async def test_a_changed_routine_is_applied_again(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    await connection.execute("update kbsync.routines set digest = 'other'")
    await connection.close()
    assert "request_sync" in (await migrate(database_url)).routines
    assert (await migrate(database_url)).routines == ()


async def test_tables_that_a_rails_app_made_are_adopted_with_their_rows(empty_url: str) -> None:
    connection = await asyncpg.connect(empty_url)
    await connection.execute(
        "create table organizations (id bigserial primary key, name text not null,"
        " created_at timestamp not null default now(), updated_at timestamp not null default now());"
        "create table flipper_features (id bigserial primary key, key varchar not null unique,"
        " created_at timestamp not null, updated_at timestamp not null);"
        "insert into organizations (name) values ('Acme')"
    )
    await migrate(empty_url)
    assert await connection.fetchval("select name from organizations") == "Acme"
    await connection.close()


async def test_a_missing_server_is_one_clear_error() -> None:
    with pytest.raises(DatabaseUnavailable, match="can't be reached"):
        await migrate("postgresql://postgres@127.0.0.1:1/postgres")


def test_a_file_that_breaks_the_rules_is_named(tmp_path: Path) -> None:
    (tmp_path / "0001_x.sql").write_text("create table x ()")
    with pytest.raises(SettingsError, match=r"0001_x\.sql"):
        runner.known_migrations(tmp_path)
