"""What a soak looks at from outside: memory of each process, keys, connections, dead tuples, jobs that have not ended."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import asyncpg

from kbsync.db.pool import Database
from kbsync.db.statements import Statements
from kbsync.domain.ids import QueueName
from kbsync.domain.states import JobState
from kbsync.library import data_sources, organizations, sources
from kbsync.queue.fleet import Fleet
from ops.bench.resting import resident_mb
from ops.stack import Running

T = TypeVar("T")
_SQL = Statements.beside(__file__)

UNENDED = (JobState.WAITING, JobState.DELAYED, JobState.ACTIVE)
# No provider's quota is being measured.
NO_LIMITS = {kind: {"count": 1_000_000, "window_s": 1} for kind in ("document_sync", "source_sync")}


def register(database_url: str, folder: Path) -> tuple[int, int]:
    """An organization with a files source of that folder, without a throttle: their ids."""

    async def make(database: Database) -> tuple[int, int]:
        async with database.fleet() as connection:
            organization = await organizations.create(connection, "Soak")
        async with database.organization(organization) as connection:
            data_source = await data_sources.create(connection, organization, provider="files", limits=NO_LIMITS)
            config = {"path": str(folder)}
            source = await sources.create(
                connection, organization, type="files", config=config, data_source_id=data_source
            )
        assert source is not None
        return organization, source

    return _with_database(database_url, make)


def documents_of(database_url: str, organization: int) -> dict[int, int]:
    """Document id -> the number in its file's name, of all that were read."""

    async def read(database: Database) -> dict[int, int]:
        async with database.organization(organization) as connection:
            rows = await connection.fetch(_SQL["documents_read"], organization)
        return {row["id"]: int(row["external_id"].rsplit("-", 1)[1].split(".")[0]) for row in rows}

    return _with_database(database_url, read)


def _with_database(url: str, call: Callable[[Database], Awaitable[T]]) -> T:
    async def run() -> T:
        database = await Database.open(url, max_size=1)
        try:
            return await call(database)
        finally:
            await database.close()

    return asyncio.run(run())


class Look:
    """Looks at a running stack; each look makes connections of its own and lets go of them."""

    def __init__(self, running: Running, organization: int) -> None:
        self.running = running
        self.organization = organization

    def await_idle(self, within_s: float) -> None:
        """Returns when no job waits, sleeps or runs. Raises RuntimeError."""
        deadline = time.monotonic() + within_s
        while asyncio.run(self._counted(*UNENDED)):
            if time.monotonic() > deadline:
                raise RuntimeError(f"jobs are left after {within_s:.0f} s")
            time.sleep(0.1)

    def failed(self) -> int:
        return asyncio.run(self._counted(JobState.FAILED))

    def sample(self) -> dict[str, float]:
        found = {f"memory of {name}, MB": mb for name, mb in self._processes().items()}
        return found | asyncio.run(self._servers())

    def _processes(self) -> dict[str, float]:
        """Our own processes, by their verb."""
        listed = subprocess.run(
            ["ps", "-o", "pid=,args=", "--ppid", str(self.running.pid)], capture_output=True, text=True, check=True
        )
        found: dict[str, float] = {"up": resident_mb(self.running.pid)}
        for line in listed.stdout.splitlines():
            pid, *words = line.split()
            if "ops.cli" in words:
                found[words[words.index("ops.cli") + 1]] = resident_mb(int(pid))
        return found

    async def _servers(self) -> dict[str, float]:
        fleet = Fleet(self.running.redis_url)
        connection = await asyncpg.connect(self.running.database_url)
        try:
            info = await fleet.client_at(self.running.redis_url).info()
            return {
                "memory of Redis, MB": int(info["used_memory"]) / 1e6,
                "keys in Redis": int(info.get("db0", {}).get("keys", 0)),
                "connections to Redis": int(info["connected_clients"]),
                "connections to Postgres": await connection.fetchval(_SQL["backends"]),
                "dead tuples": await connection.fetchval(_SQL["dead_tuples"]),
                "jobs not ended": await self._counted(*UNENDED),
            }
        finally:
            await connection.close()
            await fleet.close()

    async def _counted(self, *states: JobState) -> int:
        """Jobs in these states. The queue whose jobs ask for jobs of the other is counted first, so none slips through."""
        fleet = Fleet(self.running.redis_url)
        counts = [await fleet.queue(queue).counts() for queue in (QueueName.SYNC, QueueName.CHUNKS)]
        await fleet.close()
        return sum(one.of(state) for one in counts for state in states)
