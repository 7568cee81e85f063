"""Rows that a look passes or fails: counters of an hour, the producer app's job table, a doctor's patient."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from kbsync.db.pool import Database
from kbsync.flags.flipper_tables import FlipperTables
from kbsync.flags.kill_switch import KillSwitch
from kbsync.queue.fleet import Fleet
from kbsync.settings import Settings

HOUR = timedelta(hours=1)


async def counted(database: Database, kind: str, hours_ago: int = 0, **amounts: int) -> None:
    """What was counted in the hour that began `hours_ago` before the one that runs."""
    async with database.fleet() as connection:
        await connection.executemany(
            "insert into kbsync.hourly_counters (hour, kind, name, amount) values "
            "(date_trunc('hour', now() at time zone 'UTC') at time zone 'UTC' - make_interval(hours => $1), $2, $3, $4)",
            [(hours_ago, kind, name, amount) for name, amount in amounts.items()],
        )


async def execute(database: Database, sql: str, *arguments: object) -> None:
    async with database.direct() as connection:
        await connection.execute(sql, *arguments)


async def make_good_jobs(database: Database) -> None:
    await execute(
        database,
        "create table good_jobs (id bigserial primary key, job_class text, active_job_id uuid, "
        "created_at timestamp(6) not null default now(), finished_at timestamp(6))",
    )


async def a_legacy_job(
    database: Database, hours_ago: float = 1, job_class: str = "SyncKnowledgeBaseDocumentJob", *, finished: bool = True
) -> None:
    await execute(
        database,
        "insert into good_jobs (job_class, created_at, finished_at) values "
        "($1, now() - make_interval(secs => $2::float8 * 3600), case when $3 then now() end)",
        job_class,
        hours_ago,
        finished,
    )


def switch_of(database: Database) -> KillSwitch:
    return KillSwitch(FlipperTables(database), database, refresh_s=0.001)


@asynccontextmanager
async def fleet_of(settings: Settings) -> AsyncIterator[Fleet]:
    fleet = Fleet(settings.redis_url or "")
    try:
        yield fleet
    finally:
        await fleet.close()
