"""`kbsync doctor`: is everything as it should be? Settings, servers, clocks, workers, then the ledgers (OP-09).

Nothing is changed. A server that can't be reached is a finding, and what needs it is not looked at.
"""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from redis.asyncio import Redis
from redis.exceptions import RedisError, ResponseError

import kbsync
from kbsync.db.migrate import NewerDatabase, UnappliedMigrations, check_schema
from kbsync.db.pool import Database
from kbsync.domain.errors import QueueUnavailable, ServerUnavailable, SettingsError
from kbsync.domain.ids import QueueName
from kbsync.flags.kill_switch import KillSwitch
from kbsync.library.ticks import clock
from kbsync.queue.fleet import Fleet, unavailable_if_redis_fails
from kbsync.settings import Settings
from ops.doctor_ledgers import examine_ledgers
from ops.doctor_secrets import examine_secrets
from ops.findings import Finding, Patient, Severity
from workers.runtime import flag_store

OLDEST_PYTHON = (3, 11)
OLDEST_POSTGRES = 14
OLDEST_REDIS = (6, 2)
SKEW_WARNS_S = 2.0
SKEW_BREAKS_S = 30.0


async def examine(load: Callable[[], Settings]) -> list[Finding]:
    """Every finding, worst first. `load` gives this process's settings, or raises SettingsError."""
    try:
        settings = load()
    except SettingsError as error:
        return [Finding("settings", Severity.ERROR, str(error), "correct the environment, then ask again")]
    findings = _versions()
    async with _servers(settings, findings) as patient:
        if patient is not None:
            findings += await _switch(patient)
            if patient.redis_is_up:
                findings += await _queues(patient)
            findings += await examine_secrets(patient)
            findings += await examine_ledgers(patient)
    return sorted(findings, key=lambda finding: list(Severity).index(finding.severity))


def _versions() -> list[Finding]:
    if sys.version_info >= OLDEST_PYTHON:
        return []
    what = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    return [Finding("versions", Severity.ERROR, what, "use Python 3.11 or newer")]


@asynccontextmanager
async def _servers(settings: Settings, findings: list[Finding]) -> AsyncIterator[Patient | None]:
    """Connects and looks the servers over. None: without Postgres and its schema there is no more to look at."""
    assert settings.database_url
    assert settings.redis_url
    try:
        fleet = Fleet(settings.redis_url, settings.queue_redis_urls)
    except SettingsError as error:
        findings.append(Finding("settings", Severity.ERROR, str(error), "correct KBSYNC_REDIS_URL"))
        yield None
        return
    database: Database | None = None
    try:
        redis_is_up = await _redis(settings, fleet, findings)
        try:
            await check_schema(settings.database_url)
            database = await Database.open(settings.database_url, max_size=2, pooled=settings.database_pooled)
            findings += await _postgres(database)
            if redis_is_up:
                findings += await _clocks(database, fleet.client_at(settings.redis_url))
            switch = KillSwitch(flag_store(settings, database), database)
            patient = Patient(settings, database, fleet, switch, redis_is_up)
        except ServerUnavailable as error:
            cure = "start Postgres, or correct KBSYNC_DATABASE_URL"
            findings.append(Finding("postgres", Severity.ERROR, str(error), cure))
            patient = None
        except (UnappliedMigrations, NewerDatabase) as error:
            cure = "run `kbsync migrate` with the newest kbsync that runs here"
            findings.append(Finding("schema", Severity.ERROR, str(error), cure))
            patient = None
        except SettingsError as error:
            findings.append(Finding("settings", Severity.ERROR, str(error), "correct the environment, then ask again"))
            patient = None
        yield patient
    finally:
        await fleet.close()
        if database is not None:
            await database.close()


async def _postgres(database: Database) -> list[Finding]:
    async with database.direct() as connection:
        major = connection.get_server_version().major
    if major >= OLDEST_POSTGRES:
        return []
    what = f"Postgres {major}"
    return [Finding("versions", Severity.ERROR, what, f"upgrade Postgres to {OLDEST_POSTGRES} or newer")]


# Redis


async def _redis(settings: Settings, fleet: Fleet, findings: list[Finding]) -> bool:
    """Whether every Redis answers and takes a write."""
    try:
        await fleet.ping_write()
        for url in {settings.redis_url or "", *settings.queue_redis_urls.values()}:
            async with unavailable_if_redis_fails("any"):
                findings += await _one_redis(fleet.client_at(url))
    except QueueUnavailable as error:
        cure = "start Redis, free its memory, or correct KBSYNC_REDIS_URL; nothing is lost meanwhile, work waits"
        findings.append(Finding("redis", Severity.ERROR, str(error), cure))
        return False
    return True


async def _one_redis(redis: Redis) -> list[Finding]:
    server = await redis.info("server")
    persistence = await redis.info("persistence")
    findings = []
    version = str(server.get("redis_version", "0"))
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_REDIS:
        findings.append(Finding("versions", Severity.ERROR, f"Redis {version}", "upgrade Redis to 6.2 or newer"))
    policy, save = await _config(redis, "maxmemory-policy"), await _config(redis, "save")
    if policy is None:
        what = "this Redis does not show its configuration (CONFIG is forbidden)"
        findings.append(
            Finding("redis", Severity.NOTE, what, "see with its provider that maxmemory-policy is noeviction")
        )
    elif policy != "noeviction":
        findings.append(
            Finding(
                "redis",
                Severity.ERROR,
                f"maxmemory-policy is {policy}: a full Redis drops jobs without a word",
                "set maxmemory-policy to noeviction",
            )
        )
    if not persistence.get("aof_enabled") and not save:
        findings.append(
            Finding(
                "redis",
                Severity.NOTE,
                "nothing is written to disk: a restart empties the queues, and recovery fills them again from Postgres",
                "set appendonly to yes for restarts without that detour",
            )
        )
    return findings


async def _config(redis: Redis, name: str) -> str | None:
    """None: managed servers forbid the command."""
    try:
        found = await redis.config_get(name)
    except ResponseError:
        return None
    value = next(iter(found.values()), "")
    return value.decode() if isinstance(value, bytes) else str(value)


async def _clocks(database: Database, redis: Redis) -> list[Finding]:
    """Slots, leases and delays are Redis's time, ledgers are Postgres's, schedules begin with a process's own."""
    async with database.direct() as connection:
        before = time.time()
        postgres = (await clock(connection)).timestamp() - (before + time.time()) / 2
    try:
        before = time.time()
        seconds, micros = await redis.time()
    except (RedisError, OSError) as error:
        raise QueueUnavailable(f"Redis did not tell its time: {error}") from error
    theirs = seconds + micros / 1e6 - (before + time.time()) / 2
    return clock_findings(postgres, theirs)


def clock_findings(postgres_s: float, redis_s: float) -> list[Finding]:
    """How far the servers' clocks are ahead of this machine's, in seconds."""
    skews = {"Postgres": postgres_s, "Redis": redis_s, "Redis against Postgres": redis_s - postgres_s}
    return [
        Finding(
            "clocks",
            Severity.ERROR if abs(skew) > SKEW_BREAKS_S else Severity.WARNING,
            f"{whose} is {abs(skew):.1f} s {'ahead' if skew > 0 else 'behind'}",
            "keep the clocks of all machines with NTP or chrony",
        )
        for whose, skew in skews.items()
        if abs(skew) > SKEW_WARNS_S
    ]


# The kill switch and the workers


async def _switch(patient: Patient) -> list[Finding]:
    try:
        state = await patient.switch.describe()
    except ServerUnavailable as error:
        cure = "start the flag store: until it answers, units are delayed and nothing runs"
        return [Finding("kill switch", Severity.ERROR, str(error), cure)]
    findings = []
    if state.on:
        what = "the kill switch is on: units end as skipped"
        cure = "`kbsync pause --show` says who and why; `kbsync resume --redrive` ends it"
        findings.append(Finding("kill switch", Severity.NOTE, what, cure))
    if state.overdue:
        what = f"its review was due on {state.review_by} (owner: {state.owner})"
        cure = "after a clean bake drop the producer's flag branch (runbook cutover-library); else set a new review_by"
        findings.append(Finding("kill switch", Severity.WARNING, what, cure))
    return findings


async def _queues(patient: Patient) -> list[Finding]:
    """Every queue with waiting jobs has a worker; a version that is not ours is one that a deploy left behind."""
    findings = []
    for name in QueueName:
        queue = patient.fleet.queue(name)
        async with unavailable_if_redis_fails(name):
            counts, workers = await queue.counts(), await queue.workers()
        if counts.waiting and not workers:
            what = f"{counts.waiting} jobs wait in {name}, and no worker has beaten within 15 s"
            findings.append(Finding("workers", Severity.ERROR, what, f"start one: `kbsync worker {name}`"))
        if counts.paused:
            what = f"queue {name} is paused: it hands nothing out"
            findings.append(Finding("workers", Severity.NOTE, what, f"`kbsync queues --resume {name}`"))
        others = sorted({str(worker.get("version", "")) for worker in workers} - {kbsync.__version__})
        if others:
            what = f"workers of {name} run kbsync {', '.join(others)}, this is {kbsync.__version__}"
            findings.append(Finding("versions", Severity.WARNING, what, "finish the rolling deploy"))
    return findings
