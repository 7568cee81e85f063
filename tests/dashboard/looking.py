"""What a page of the fleet's tests share: rows by one statement, and how much a look costs the servers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import asyncpg
import pytest
from redis.asyncio import Redis

from kbsync.db.pool import Database

EVIL = "<script>alert(1)</script>\u202egnp.exe"


async def execute(database: Database, sql: str, *arguments: object) -> None:
    async with database.direct() as connection:
        await connection.execute(sql, *arguments)


async def value_of(database: Database, sql: str, *arguments: object) -> Any:
    async with database.direct() as connection:
        return await connection.fetchval(sql, *arguments)


async def an_organization(database: Database, id: int, name: str) -> int:
    await execute(database, "insert into organizations (id, name) values ($1, $2)", id, name)
    return id


async def a_connection(
    database: Database, organization_id: int, provider: str = "notion", *, source: str = "", limits: str = "{}"
) -> int:
    """A data source's id; `source` names a source that uses it."""
    id: int = await value_of(
        database,
        "insert into data_sources (organization_id, provider, limits) values ($1, $2, $3) returning id",
        organization_id,
        provider,
        limits,
    )
    if source:
        await execute(
            database,
            "insert into knowledge_base_sources (organization_id, data_source_id, type, name, sync_status, last_synced_at) "
            "values ($1, $2, $3, $4, 'synced', now())",
            organization_id,
            id,
            provider,
            source,
        )
    return id


async def beat(database: Database, seconds_ago: float = 1) -> None:
    """Recovery has just been through, in a deployment that is three days old; the scans up to today's are done, and
    the review of the kill switch is a month off."""
    await execute(database, "update kbsync.flag_notes set review_by = (now() at time zone 'UTC')::date + 30")
    await execute(
        database,
        "insert into kbsync.recovery_beat (first_at, at, took_ms) "
        "values (now() - interval '3 days', now() - make_interval(secs => $1), 84) "
        "on conflict (one) do update set at = excluded.at",
        seconds_ago,
    )
    await execute(
        database,
        "insert into kbsync.ticks (date, claimed_by, finished_at, phase) "
        "select (now() at time zone 'UTC')::date - days, 'run', now(), 'done' from generate_series(0, 1) days "
        "on conflict do nothing",
    )


@dataclass
class Cost:
    statements: int = 0
    commands: int = 0


async def commands_so_far(redis: Redis) -> int:
    """Every command that this Redis has run, those inside scripts too."""
    stats = await redis.info("commandstats")
    return sum(int(one["calls"]) for name, one in stats.items() if name != "cmdstat_info")


@contextmanager
def counted_statements(patch: pytest.MonkeyPatch, cost: Cost) -> Iterator[None]:
    """Counts each statement that this process sends to Postgres, begin and commit too."""
    with patch.context() as patched:
        for name in ("execute", "fetch", "fetchrow", "fetchval"):
            patched.setattr(asyncpg.Connection, name, _counting(getattr(asyncpg.Connection, name), cost))
        yield


def _counting(method: Any, cost: Cost) -> Any:
    async def counting(*arguments: Any, **options: Any) -> Any:
        cost.statements += 1
        return await method(*arguments, **options)

    return counting
