"""The floor under everything: both servers answer, and the schema is there."""

from __future__ import annotations

from typing import Any

from kbsync.db.pool import Database


async def test_servers_answer(database: Database, redis: Any) -> None:
    async with database.organization(7) as connection:
        assert await connection.fetchval("select count(*) from knowledge_base_sources") == 0
    assert await redis.ping()
