"""A whole deployment in one process, on real servers: what the acceptance tests start, break and look at."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from kbsync.domain.ids import QueueName
from kbsync.domain.requests import LibraryRequest, Priority
from kbsync.library import data_sources, organizations, sources
from kbsync.queue.jobs import Enqueued
from kbsync.queue.worker import FleetWorker
from kbsync.recovery.layers import RecoveryPass
from kbsync.recovery.promises import accept_units
from kbsync.recovery.reconciler import Reconciler
from kbsync.settings import Settings
from kbsync.sync.context import BuildProvider
from ops.serve.workers import scan
from workers.runtime import Runtime

PATIENCE_S = 60.0


@dataclass
class Deployment:
    runtime: Runtime
    workers: list[FleetWorker]

    async def organization(self, name: str = "Acme") -> int:
        async with self.runtime.database.fleet() as connection:
            return await organizations.create(connection, name)

    async def source(self, organization_id: int, type: str, config: dict[str, object], limits: object = None) -> int:
        async with self.runtime.database.organization(organization_id) as connection:
            data_source_id = await data_sources.create(
                connection,
                organization_id,
                provider=type,
                limits=limits,  # type: ignore[arg-type]  # checked where it is read
            )
            made = await sources.create(
                connection, organization_id, type=type, config=config, data_source_id=data_source_id
            )
        assert made is not None
        return made

    async def ask(self, *requests: LibraryRequest) -> list[Enqueued]:
        """As the API does: owed, then queued."""
        return await accept_units(
            self.runtime.database, self.runtime.fleet, requests, priority=Priority.NORMAL, rerun_if_active=True
        )

    def reconciler(self, grace_s: float) -> RecoveryPass:
        return RecoveryPass(
            Reconciler(self.runtime.database, self.runtime.fleet, self.runtime.kill_switch, grace_s=grace_s)
        )

    async def fetchval(self, query: str, *arguments: object) -> object:
        async with self.runtime.database.fleet() as connection:
            return await connection.fetchval(query, *arguments)


async def until(holds: Callable[[], Awaitable[bool]], what: str, patience_s: float = PATIENCE_S) -> None:
    """Returns once `holds`; a test that waits for ever says what for."""
    try:
        async with asyncio.timeout(patience_s):
            while not await holds():
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"waited {patience_s:.0f} s for: {what}") from None


@asynccontextmanager
async def deployed(
    settings: Settings, *, build_provider: BuildProvider | None = None, workers: int = 1, start: bool = True
) -> AsyncIterator[Deployment]:
    """`workers` of each queue, running until the block ends. `build_provider` stands in for the registry."""
    runtime = await Runtime.open(settings)
    runner = runtime.unit_runner(scan)
    if build_provider is not None:
        runner = replace(runner, units=replace(runner.units, build_provider=build_provider))
    made = [runtime.worker(queue, runner) for _ in range(workers) for queue in QueueName]
    tasks = [asyncio.create_task(worker.run()) for worker in made] if start else []
    try:
        yield Deployment(runtime, made)
    finally:
        for worker in made:
            worker.request_stop()
            worker.request_stop()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks)
        await runtime.close()


@asynccontextmanager
async def recovering(deployment: Deployment, *, grace_s: float, interval_s: float) -> AsyncIterator[None]:
    """The recovery pass, again and again, while the block runs."""
    recovery = deployment.reconciler(grace_s)

    async def loop() -> None:
        while True:
            await recovery.once()
            await asyncio.sleep(interval_s)

    task = asyncio.create_task(loop())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
