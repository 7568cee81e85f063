"""Real servers for every test that needs them: one Postgres and one Redis a test process, a fresh database a test."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from aiohttp import web
from redis.asyncio import Redis

from kbsync.db.pool import Database
from kbsync.settings import Settings, load_settings
from ops.embedded.postgres import EmbeddedPostgres
from ops.embedded.redis import EmbeddedRedis
from tests.databases import Databases

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
    """One cluster a test process."""
    server = EmbeddedPostgres(tmp_path_factory.mktemp("postgres"), durable=False)
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def databases(postgres: EmbeddedPostgres) -> Databases:
    found = Databases(postgres.url)
    asyncio.run(found.make_template())
    return found


@pytest.fixture
async def database_url(databases: Databases) -> AsyncIterator[str]:
    """A migrated database of its own, in which nobody has been before."""
    name = await databases.take()
    yield databases.url_of(name)
    await databases.give_back(name)


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
