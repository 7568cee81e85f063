"""An organization, erased: from Redis, then from Postgres, then looked for everywhere again (LS-26).

Every step can be repeated and is bounded; a run that stopped is simply asked for again. The audit keeps that it happened.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from redis.asyncio import Redis

from kbsync.db.errors import StillReferenced, retry_on_conflict
from kbsync.db.pool import Database
from kbsync.library import audit, erasure
from kbsync.queue.fleet import Fleet
from ops.erasure_redis import OrganizationInRedis

BATCH = 5_000
ROUNDS = 5  # a unit that was running when the end began may still write a row or two
IDS = 1_000

Progress = Callable[[str, int], None]


@dataclass(frozen=True)
class Proof:
    """How much of the organization is left, by table and by key. `went`: what this run took."""

    postgres: dict[str, int]
    redis: dict[str, int]
    went: int = 0

    @property
    def nothing_is_left(self) -> bool:
        return not any(self.postgres.values()) and not any(self.redis.values())


async def look(database: Database, fleet: Fleet, throttles: Redis, organization_id: int) -> Proof:
    """What there is of an organization. Nothing is changed."""
    async with database.fleet() as connection:
        rows = await erasure.rows_left(connection, organization_id)
    return Proof(rows, await OrganizationInRedis(fleet, throttles, organization_id).left())


async def erase(
    database: Database, fleet: Fleet, throttles: Redis, organization_id: int, *, actor: str, progress: Progress
) -> Proof:
    """After: nothing of the organization is left, as far as the answer says; what is written to the audit names its id alone.
    Raises ServerUnavailable."""
    async with database.organization(organization_id) as connection:
        await erasure.discard_sources(connection, organization_id)
    redis = OrganizationInRedis(fleet, throttles, organization_id)

    async def own_jobs(job_ids: Sequence[str]) -> set[str]:
        async with database.organization(organization_id) as connection:
            return await erasure.jobs_among(connection, organization_id, job_ids)

    went = await redis.erase(own_jobs)
    progress("redis", went)
    await _waits(database, redis, organization_id)
    went += await _tables(database, organization_id, progress)
    while True:
        async with database.fleet() as connection:
            rows, is_done = await erasure.erase_rest(connection, organization_id, BATCH)
        went += rows
        progress("rest", went)
        if is_done:
            break
    found = await look(database, fleet, throttles, organization_id)
    async with database.fleet() as connection:
        await audit.write(
            connection,
            actor=actor,
            action="organization.erase",
            target=f"organization:{organization_id}",
            detail={"went": went, "nothing_is_left": found.nothing_is_left},
        )
    return Proof(found.postgres, found.redis, went)


async def _tables(database: Database, organization_id: int, progress: Progress) -> int:
    went = 0
    for _ in range(ROUNDS):
        try:
            for table in erasure.TABLES:
                while gone := await retry_on_conflict(lambda t=table: _some(database, organization_id, t)):  # type: ignore[misc]
                    went += gone
                    progress(table.removeprefix("erase_"), went)
            return went
        except StillReferenced:
            continue
    return went


async def _some(database: Database, organization_id: int, table: str) -> int:
    async with database.organization(organization_id) as connection:
        return await erasure.erase_some(connection, organization_id, table, BATCH)


async def _waits(database: Database, redis: OrganizationInRedis, organization_id: int) -> None:
    """Provider waits are kept by job, and the ledger knows the organization's jobs."""
    after = ""
    while True:
        async with database.organization(organization_id) as connection:
            ids = await erasure.job_ids_after(connection, organization_id, after, IDS)
        await redis.forget_waits(ids)
        if len(ids) < IDS:
            return
        after = ids[-1]
