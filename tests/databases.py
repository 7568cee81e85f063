"""Migrated databases for tests: made once, emptied between tests.

Making one copies every file of the template, and costs ten times what emptying it does. A database whose schema a test has
changed is dropped instead.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from io import BytesIO

import asyncpg

from kbsync.db.migrate import migrate

TEMPLATE = "template_kbsync"

# Everything of a schema that a test may change; storage numbers, which emptying a table changes, are left out.
_SCHEMA = """
select md5(string_agg(part, e'\\n' order by part)) from (
    select concat_ws(' ', 'class', c.oid, c.relname, c.relkind, c.relnamespace, c.relowner, c.relchecks, c.relhasindex,
                     c.relrowsecurity, c.relforcerowsecurity, c.relacl, c.reloptions)
      from pg_class c where c.relnamespace not in (select oid from pg_namespace where nspname ~ '^pg_')
    union all select concat_ws(' ', 'column', attrelid, attnum, xmin) from pg_attribute where attrelid >= 16384
                 and attrelid in (select oid from pg_class where relkind in ('r', 'p', 'v', 'm')
                                  and relnamespace not in (select oid from pg_namespace where nspname ~ '^pg_'))
    union all select concat_ws(' ', 'constraint', oid, xmin) from pg_constraint where oid >= 16384
    union all select concat_ws(' ', 'trigger', oid, tgenabled, tgname) from pg_trigger where oid >= 16384
    union all select concat_ws(' ', 'function', oid, xmin) from pg_proc where oid >= 16384
    union all select concat_ws(' ', 'policy', oid, xmin) from pg_policy
    union all select concat_ws(' ', 'type', oid, xmin) from pg_type where oid >= 16384 and typtype in ('d', 'e', 'r')
    union all select concat_ws(' ', 'schema', oid, nspacl) from pg_namespace where oid >= 16384 and nspname !~ '^pg_'
    union all select concat_ws(' ', 'extension', oid, extversion) from pg_extension
    union all select concat_ws(' ', 'setting', setdatabase, setconfig) from pg_db_role_setting
              where setdatabase = (select oid from pg_database where datname = current_database())
) as parts(part)
"""
_TABLES = """
select format('%I.%I', n.nspname, c.relname) as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'r' and n.nspname !~ '^pg_' and n.nspname <> 'information_schema' order by 1
"""
_MOVED = """
select format('%I.%I', schemaname, sequencename) as name, last_value from pg_sequences where last_value is not null
"""
_END_OTHERS = """
select pg_terminate_backend(pid) from pg_stat_activity where datname = $1 and pid <> pg_backend_pid()
"""


@dataclass(frozen=True)
class Fresh:
    """What a migrated database holds before anybody used it."""

    schema: str
    rows: dict[str, bytes]
    """Of the tables that migrations fill, as COPY spells them."""
    numbers: dict[str, int]
    """Of the sequences that they move."""
    dirty: str
    """Asks which tables hold rows."""


class Databases:
    """The migrated databases of one server. `url` leads to its maintenance database."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._numbers = itertools.count()
        self._clean: list[str] = []
        self._fresh: Fresh | None = None

    def url_of(self, name: str) -> str:
        return f"{self._url.rsplit('/', 1)[0]}/{name}"

    async def make_template(self) -> None:
        await self._run(f"create database {TEMPLATE}")
        await migrate(self.url_of(TEMPLATE))
        connection = await asyncpg.connect(self.url_of(TEMPLATE))
        self._fresh = await _look(connection)
        await connection.close()

    async def take(self) -> str:
        """The name of a database as the migrations leave it."""
        if self._clean:
            return self._clean.pop()
        name = f"test_{next(self._numbers)}"
        # Copying files costs a third less than writing them to the log, and nothing here must survive a crash.
        await self._run(f"create database {name} template {TEMPLATE} strategy file_copy")
        return name

    async def give_back(self, name: str) -> None:
        """Ends whoever is still connected."""
        if await self._is_clean_again(name):
            self._clean.append(name)
        else:
            await self._run(f"drop database if exists {name} with (force)")

    async def _is_clean_again(self, name: str) -> bool:
        assert self._fresh is not None
        try:
            connection = await asyncpg.connect(self.url_of(name))
        except asyncpg.PostgresError:  # dropped, or closed to everybody
            return False
        try:
            await connection.execute(_END_OTHERS.replace("$1", f"'{name}'"))
            if await connection.fetchval(_SCHEMA) != self._fresh.schema:
                return False
            await _empty(connection, self._fresh)
            return True
        finally:
            await connection.close()

    async def _run(self, statement: str) -> None:
        connection = await asyncpg.connect(self._url)
        await connection.execute(statement)
        await connection.close()


async def _look(connection: asyncpg.Connection) -> Fresh:
    tables = [row["name"] for row in await connection.fetch(_TABLES)]
    dirty = " union all ".join(f"select '{table}' as name where exists (select from {table})" for table in tables)
    rows: dict[str, bytes] = {}
    for filled in await connection.fetch(dirty):
        schema, _, name = filled["name"].partition(".")
        kept = BytesIO()
        await connection.copy_from_table(name, schema_name=schema, output=kept)
        rows[filled["name"]] = kept.getvalue()
    numbers = {row["name"]: row["last_value"] for row in await connection.fetch(_MOVED)}
    return Fresh(await connection.fetchval(_SCHEMA), rows, numbers, dirty)


async def _empty(connection: asyncpg.Connection, fresh: Fresh) -> None:
    dirty = {row["name"] for row in await connection.fetch(fresh.dirty)} | set(fresh.rows)
    await connection.execute(f"truncate {', '.join(sorted(dirty))} restart identity cascade")
    for moved in await connection.fetch(_MOVED):
        await connection.execute(f"alter sequence {moved['name']} restart")
    for name, number in fresh.numbers.items():
        await connection.execute(f"select setval('{name}', {number})")
    await connection.execute("set session_replication_role = replica")  # rows come back as they were: no trigger runs
    for table, rows in fresh.rows.items():
        schema, _, name = table.partition(".")
        await connection.copy_to_table(name, schema_name=schema, source=BytesIO(rows))
