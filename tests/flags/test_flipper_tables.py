"""Flipper's tables in a real Postgres, written and read as the Rails side does."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from kbsync.db.pool import Database
from kbsync.domain.errors import FlagStoreUnavailable
from kbsync.flags.flipper_tables import FlipperTables

FLAG = "pause_api2_knowledge_base_sync"


async def rows(database: Database) -> list[tuple[str, str, str]]:
    async with database.direct() as connection:
        found = await connection.fetch("select feature_key, key, value from flipper_gates order by id")
        return [(row[0], row[1], row[2]) for row in found]


async def rails_writes(database: Database, key: str, value: str, feature: str = FLAG) -> None:
    async with database.direct() as connection:
        await connection.execute(
            "insert into flipper_gates (feature_key, key, value) values ($1, $2, $3)", feature, key, value
        )


@pytest.mark.spec("KS-04")
async def test_it_reads_what_a_rails_app_wrote(database: Database) -> None:
    flags = FlipperTables(database)
    assert not await flags.is_enabled(FLAG, 7)
    await rails_writes(database, "boolean", "true", feature="another flag")
    assert not await flags.is_enabled(FLAG, 7)
    await rails_writes(database, "actors", "Organization;7")
    assert [await flags.is_enabled(FLAG, each) for each in (7, 8, None)] == [True, False, False]
    await rails_writes(database, "boolean", "true")
    assert [await flags.is_enabled(FLAG, each) for each in (7, 8, None)] == [True, True, True]


@pytest.mark.spec("KS-04")
async def test_switching_it_for_everybody_starts_from_nothing(database: Database) -> None:
    flags = FlipperTables(database)
    for gate in [("actors", "Organization;7"), ("percentage_of_time", "5"), ("expression", "true")]:
        await rails_writes(database, *gate)
    await rails_writes(database, "actors", "Organization;7", feature="another flag")
    await flags.set_boolean(FLAG, True)
    await flags.set_boolean(FLAG, True)
    other = ("another flag", "actors", "Organization;7")
    assert await rows(database) == [other, (FLAG, "boolean", "true")]
    await flags.set_actor(FLAG, 7, True)
    await flags.set_boolean(FLAG, False)
    assert await rows(database) == [other]


@pytest.mark.spec("KS-04")
async def test_single_organizations_come_and_go_alone(database: Database) -> None:
    flags = FlipperTables(database)
    for organization in (7, 8, 8):
        await flags.set_actor(FLAG, organization, True)
    await flags.set_actor(FLAG, 7, False)
    await flags.set_actor(FLAG, 7, False)
    assert await rows(database) == [(FLAG, "actors", "Organization;8")]


@pytest.mark.spec("KS-04")
async def test_flipper_s_own_list_of_flags_knows_it(database: Database) -> None:
    flags = FlipperTables(database)
    await flags.set_boolean(FLAG, False)
    await flags.set_actor(FLAG, 7, True)
    async with database.direct() as connection:
        assert await connection.fetchval("select array_agg(key) from flipper_features") == [FLAG]


@pytest.mark.spec("KS-04")
async def test_it_works_on_tables_as_flipper_s_generator_makes_them(database: Database) -> None:
    async with database.direct() as connection:
        await connection.execute(
            """
            drop table flipper_features, flipper_gates;
            create table flipper_features (id bigserial primary key, key varchar not null,
                created_at timestamp(6) not null, updated_at timestamp(6) not null);
            create unique index on flipper_features (key);
            create table flipper_gates (id bigserial primary key, feature_key varchar not null, key varchar not null,
                value text, created_at timestamp(6) not null, updated_at timestamp(6) not null);
            create unique index on flipper_gates (feature_key, key, value);
            grant select, insert, update, delete on flipper_features, flipper_gates to kbsync_fleet;
            grant usage on sequence flipper_features_id_seq, flipper_gates_id_seq to kbsync_fleet
            """
        )
    flags = FlipperTables(database)
    await flags.set_actor(FLAG, 7, True)
    await flags.set_boolean(FLAG, True)
    assert await flags.is_enabled(FLAG)


@pytest.mark.spec("KS-05")
async def test_a_store_that_does_not_answer_is_said_so(database: Database, database_url: str) -> None:
    flags = FlipperTables(database, timeout_s=0.1)
    locker = await asyncpg.connect(database_url)
    async with locker.transaction():
        await locker.execute("lock table flipper_gates in access exclusive mode")
        with pytest.raises(FlagStoreUnavailable):
            await flags.is_enabled(FLAG)
        with pytest.raises(FlagStoreUnavailable):
            await flags.set_boolean(FLAG, True)
    await locker.close()
    assert await flags.is_enabled(FLAG) is False
    await database.close()
    with pytest.raises(FlagStoreUnavailable):
        await asyncio.wait_for(flags.is_enabled(FLAG), 5)
