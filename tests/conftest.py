"""Real servers for every test that needs them: one Postgres and one Redis a test process, a fresh database a test."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest
from aiohttp import web
from redis.asyncio import Redis

from kbsync.db.migrate import migrate
from kbsync.db.pool import Database
from kbsync.settings import Settings, load_settings
from ops.embedded.postgres import EmbeddedPostgres
from ops.embedded.redis import EmbeddedRedis

_INSTALL = {
    "chromium": "apt-get install chromium",
    "ruby": "apt-get install ruby",
    "pgbouncer": "apt-get install pgbouncer",
    "postgresql-doc-15": "apt-get install postgresql-doc-15",
    "promtool": "apt-get install --no-install-recommends prometheus",
    "redis-server": "apt-get install redis-server",
}
POSTGRES_MANUAL = Path("/usr/share/doc/postgresql-doc-15/html")


def _is_here(tool: str) -> bool:
    if tool == "postgresql-doc-15":
        return (POSTGRES_MANUAL / "index.html").exists()
    return shutil.which(tool, path=f"{os.environ.get('PATH', '')}:/usr/sbin") is not None


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("needs"):
        for tool in mark.args:
            if not _is_here(tool):
                message = f"{tool} is not installed: {_INSTALL[tool]}"
                if os.environ.get("KBSYNC_NO_SKIP"):
                    pytest.fail(message)
                pytest.skip(message)


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    """One cluster a test process, its template database migrated."""
    server = EmbeddedPostgres(tmp_path_factory.mktemp("postgres"), durable=False)
    server.start()
    asyncio.run(_make_template(server.url))
    yield server
    server.stop()


async def _make_template(url: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute("create database template_kbsync")
    await connection.close()
    await migrate(url.rsplit("/", 1)[0] + "/template_kbsync")


_numbers = itertools.count()


@pytest.fixture
async def database_url(postgres: EmbeddedPostgres) -> AsyncIterator[str]:
    """A fresh, migrated database of its own."""
    name = f"test_{next(_numbers)}"
    connection = await asyncpg.connect(postgres.url)
    # Copying files costs a third less than writing them to the log, and nothing here must survive a crash.
    await connection.execute(f"create database {name} template template_kbsync strategy file_copy")
    yield f"{postgres.url.rsplit('/', 1)[0]}/{name}"
    await connection.execute(f"drop database {name} with (force)")
    await connection.close()


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    opened = await Database.open(database_url, max_size=10)
    yield opened
    await opened.close()


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedRedis]:
    server = EmbeddedRedis(tmp_path_factory.mktemp("redis"), keep=False)
    server.start()
    yield server
    server.stop()


@pytest.fixture
async def redis(redis_server: EmbeddedRedis) -> AsyncIterator[Redis]:
    """An empty Redis."""
    client: Redis = Redis.from_url(redis_server.url)
    await client.flushall()
    yield client
    await client.connection_pool.disconnect()


@pytest.fixture
def settings(database_url: str, redis_server: EmbeddedRedis, redis: Redis) -> Settings:
    """A deployment's settings on the test's own servers, quick where a person would wait."""
    return load_settings(
        profile="embedded",
        database_url=database_url,
        redis_url=redis_server.url,
        lease_s=2,
        first_backoff_s=0.2,
        fetch_per_second=100_000,
        fetch_at_once=64,
        fetch_allow_addresses=["127.0.0.1"],
    )


@pytest.fixture
async def manual() -> AsyncIterator[str]:
    """The PostgreSQL manual from a loopback server: a real documentation site. Needs "postgresql-doc-15"."""
    app = web.Application()
    app.router.add_static("/", POSTGRES_MANUAL)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()
