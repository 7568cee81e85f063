"""The migration runner (OP-04): ordered SQL files, safe to run by many processes at once, forward only."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from kbsync.db.errors import translated
from kbsync.domain.errors import SettingsError
from migrations import MIGRATIONS, ROUTINES

_FILE = re.compile(r"^(\d{4})_[a-z0-9_]+\.sql$")
_SURVIVES = re.compile(r"^-- old workers keep running: (yes|no)\s*$")
_LOCK_KEY = 0x6B6273796E63  # "kbsync"

_BOOKKEEPING = """
create schema if not exists kbsync;
create table if not exists kbsync.migrations (
    name text primary key,
    digest text not null,
    old_workers_keep_running boolean not null,
    applied_at timestamptz not null default now()
);
create table if not exists kbsync.routines (
    name text primary key,
    digest text not null,
    applied_at timestamptz not null default now()
);
"""


@dataclass(frozen=True)
class Migration:
    name: str
    sql: str
    old_workers_keep_running: bool

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()

    @property
    def outside_a_transaction(self) -> bool:
        """CREATE INDEX CONCURRENTLY and the like; such a file holds one statement."""
        return bool(re.search(r"^-- no-transaction\s*$", self.sql, re.MULTILINE))


@dataclass(frozen=True)
class Plan:
    """What a run would do (or did)."""

    migrations: tuple[str, ...]
    routines: tuple[str, ...]


class NewerDatabase(SettingsError):
    pass


class ChangedMigration(SettingsError):
    pass


class UnappliedMigrations(SettingsError):
    pass


class PooledUrl(SettingsError):
    pass


def known_migrations(folder: Path = MIGRATIONS) -> list[Migration]:
    """The files in order. Raises SettingsError on a file that breaks the rules of `migrations/__init__.py`."""
    found = []
    for path in sorted(folder.glob("*.sql")):
        sql = path.read_text(encoding="utf-8")
        lines = sql.splitlines()
        survives = _SURVIVES.match(lines[1]) if len(lines) > 1 else None
        if not _FILE.match(path.name) or survives is None or not lines[0].startswith("-- "):
            raise SettingsError(
                f"{path.name}: a migration is NNNN_name.sql, line 1 says what and why, "
                "line 2 is '-- old workers keep running: yes|no'"
            )
        found.append(Migration(path.stem, sql, survives.group(1) == "yes"))
    return found


def known_routines(folder: Path = ROUTINES) -> list[Migration]:
    return [Migration(path.stem, path.read_text(encoding="utf-8"), True) for path in sorted(folder.glob("*.sql"))]


async def migrate(url: str, *, dry_run: bool = False) -> Plan:
    """Brings the database to this code's schema, or with `dry_run` says what that would take.

    Before: `url` reaches Postgres directly (a transaction-mode pooler is refused) as a role that may create tables.
    After: every file is applied once, each in its own transaction. Many callers at once: one works, the others wait.
    Raises NewerDatabase, ChangedMigration, PooledUrl, DatabaseUnavailable."""
    async with _direct_connection(url) as connection:
        if dry_run:
            return await _plan(connection)
        async with _only_one_migrates(connection):
            await connection.execute(_BOOKKEEPING)
            plan = await _plan(connection)
            wanted = {m.name: m for m in known_migrations()}
            for name in plan.migrations:
                await _apply(connection, wanted[name])
            routines = {r.name: r for r in known_routines()}
            for name in plan.routines:
                await _apply_routine(connection, routines[name])
            return plan


async def check_schema(url: str) -> None:
    """What every process but the migrator does at start: the schema must be whole, and not newer than it can live with.

    Raises UnappliedMigrations naming the missing files, NewerDatabase naming the file that old workers don't survive."""
    with translated():
        connection = await asyncpg.connect(url, timeout=10, statement_cache_size=0)
    try:
        applied = await _applied(connection)
    finally:
        await connection.close()
    known = known_migrations()
    missing = [m.name for m in known if m.name not in applied]
    if missing:
        raise UnappliedMigrations(f"the database lacks {', '.join(missing)}: run `kbsync migrate` first")
    names = {m.name for m in known}
    deadly = [name for name, (_, survives) in applied.items() if name not in names and not survives]
    if deadly:
        raise NewerDatabase(f"the database was migrated by a newer kbsync ({deadly[0]}): upgrade this process")


async def _plan(connection: asyncpg.Connection[asyncpg.Record]) -> Plan:
    applied = await _applied(connection)
    known = known_migrations()
    names = {m.name for m in known}
    newer = sorted(name for name in applied if name not in names)
    if newer:
        raise NewerDatabase(f"the database has {newer[0]}, which this kbsync does not know: migrate with the newer one")
    for migration in known:
        if migration.name in applied and applied[migration.name][0] != migration.digest:
            raise ChangedMigration(f"{migration.name} was changed after it was applied: add a new file instead")
    digests: dict[str, str] = {}
    if await connection.fetchval("select to_regclass('kbsync.routines') is not null"):
        digests = {r["name"]: r["digest"] for r in await connection.fetch("select name, digest from kbsync.routines")}
    return Plan(
        tuple(m.name for m in known if m.name not in applied),
        tuple(r.name for r in known_routines() if digests.get(r.name) != r.digest),
    )


async def _applied(connection: asyncpg.Connection[asyncpg.Record]) -> dict[str, tuple[str, bool]]:
    if not await connection.fetchval("select to_regclass('kbsync.migrations') is not null"):
        return {}
    rows = await connection.fetch("select name, digest, old_workers_keep_running from kbsync.migrations order by name")
    return {r["name"]: (r["digest"], r["old_workers_keep_running"]) for r in rows}


async def _apply(connection: asyncpg.Connection[asyncpg.Record], migration: Migration) -> None:
    record = "insert into kbsync.migrations (name, digest, old_workers_keep_running) values ($1, $2, $3)"
    values = (migration.name, migration.digest, migration.old_workers_keep_running)
    if migration.outside_a_transaction:
        await connection.execute(migration.sql)
        await connection.execute(record, *values)
        return
    async with connection.transaction():
        await connection.execute(migration.sql)
        await connection.execute(record, *values)


async def _apply_routine(connection: asyncpg.Connection[asyncpg.Record], routine: Migration) -> None:
    async with connection.transaction():
        await connection.execute(routine.sql)
        await connection.execute(
            "insert into kbsync.routines (name, digest) values ($1, $2) "
            "on conflict (name) do update set digest = excluded.digest, applied_at = now()",
            routine.name,
            routine.digest,
        )


@asynccontextmanager
async def _direct_connection(url: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    with translated():
        connection = await asyncpg.connect(url, timeout=10, statement_cache_size=0)
    try:
        await refuse_pooler(connection)
        with translated():
            yield connection
    finally:
        await connection.close(timeout=5)


async def refuse_pooler(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Migrations and LISTEN live in a session, which a transaction-mode pooler takes away between statements.

    A session setting that is gone, or another backend, in the next transaction betrays the pooler. A pooler with one idle
    server connection can keep both; its admin database cannot be hidden, so it is asked for as well."""
    first = await connection.fetchval("select pg_backend_pid()")
    own = connection.get_server_pid()
    # A pooler hands out its own cancellation key, so the pid told at start-up is not the backend's.
    if own != first or await connection.fetchval("select pg_backend_pid()") != first:
        raise PooledUrl(
            "this URL goes through a connection pooler: migrations and LISTEN need a session. "
            "Set KBSYNC_DATABASE_DIRECT_URL to an address that reaches Postgres itself"
        )


@asynccontextmanager
async def _only_one_migrates(connection: asyncpg.Connection[asyncpg.Record]) -> AsyncIterator[None]:
    # Polling, because a session that waits inside pg_advisory_lock() holds a snapshot that CREATE INDEX CONCURRENTLY
    # waits for: a deadlock.
    while not await connection.fetchval("select pg_try_advisory_lock($1)", _LOCK_KEY):
        await asyncio.sleep(0.1)
    try:
        yield
    finally:
        await connection.execute("select pg_advisory_unlock($1)", _LOCK_KEY)
