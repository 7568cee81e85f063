"""Wires a process: from settings to a database, queues, throttles, the kill switch, providers and workers.

The only place besides `ops/cli/` that builds any of them. `Runtime.open` connects, `close` lets go.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial

import kbsync
from kbsync.db.migrate import check_schema
from kbsync.db.pool import Database
from kbsync.domain.errors import SettingsError
from kbsync.domain.ids import QueueName
from kbsync.domain.outcomes import Outcome
from kbsync.domain.requests import Scan
from kbsync.flags.contract import Flags
from kbsync.flags.flipper_tables import FlipperTables
from kbsync.flags.kill_switch import KillSwitch
from kbsync.http.addresses import AllowList
from kbsync.http.client import FetchLimits, SafeClient
from kbsync.library.credentials import Vault
from kbsync.providers.registry import ProviderEnvironment, build
from kbsync.queue.fleet import Fleet
from kbsync.queue.jobs import RunningJob
from kbsync.queue.operators import QueueOperator
from kbsync.queue.worker import FleetWorker
from kbsync.settings import Settings
from kbsync.sync.assets import Assets
from kbsync.sync.context import ContentBounds, Units
from ratelimits.host import HostGate
from ratelimits.throttle import Throttle
from ratelimits.waits import ProviderWaits
from workers.counting import RunCounters, counted, counted_abandoned
from workers.handlers import abandoned_of, handlers_for
from workers.observing import ObservedEnqueuer, ObservedJobs
from workers.run_unit import UnitRunner
from workers.windows import HostManners, Windows

RunScan = Callable[["Runtime", Scan, RunningJob], Awaitable[Outcome]]

CHUNKS_PER_MINUTE_IN_PRODUCTION = 60


@dataclass(frozen=True)
class Runtime:
    """What the processes of one deployment share by kind; each process has its own."""

    settings: Settings
    database: Database
    fleet: Fleet
    throttle: Throttle
    kill_switch: KillSwitch
    providers: ProviderEnvironment
    counters: RunCounters

    @classmethod
    async def open(cls, settings: Settings) -> Runtime:
        """Raises SettingsError for a wrong or missing setting, DatabaseUnavailable, and the errors of `check_schema`."""
        if not settings.database_url or not settings.redis_url:
            raise SettingsError("set KBSYNC_DATABASE_URL and KBSYNC_REDIS_URL, or run `kbsync up`")
        fleet = Fleet(settings.redis_url, settings.queue_redis_urls)
        await check_schema(settings.database_url)
        database = await Database.open(
            settings.database_url, max_size=settings.database_pool_size, pooled=settings.database_pooled
        )
        kill_switch = KillSwitch(flag_store(settings, database), database, refresh_s=settings.flag_refresh_s)
        throttle = Throttle(fleet.client_at(settings.redis_url))
        providers = provider_environment(settings)
        return cls(settings, database, fleet, throttle, kill_switch, providers, RunCounters(database))

    async def close(self) -> None:
        """Lets go of everything; what this process counted is written first."""
        await self.counters.flush_or_say()
        await self.providers.client.close()
        for client in self.providers.clients_of_sources.values():
            await client.close()
        await self.fleet.close()
        await self.database.close()

    @cached_property
    def enqueuer(self) -> ObservedEnqueuer:
        """What everybody in this process enqueues through: the fleet, counted and traced."""
        return ObservedEnqueuer(self.fleet)

    @cached_property
    def units(self) -> Units:
        """The library and the way to providers, for units and for whoever asks a provider for an asset."""
        keys = self.settings.credentials_keys
        return Units(
            database=self.database,
            build_provider=lambda source_type, setup: build(source_type, setup, self.providers),
            vault=Vault(keys.get_secret_value() if keys else None),
            bounds=ContentBounds(
                self.settings.content_cap, self.settings.chunk_characters, self.settings.chunk_overlap
            ),
        )

    @cached_property
    def assets(self) -> Assets:
        """Where a document's assets are now."""
        providers = self.providers
        return Assets(
            self.units, self.throttle, lambda source: providers.clients_of_sources.get(source, providers.client)
        )

    def unit_runner(self, run_scan: RunScan) -> UnitRunner:
        """The pipeline of this process. `run_scan` comes from the producers, whom workers don't know."""
        settings = self.settings
        redis = self.fleet.client_at(settings.redis_url or "")
        windows = Windows(
            throttle=self.throttle,
            hosts=HostGate(redis),
            waits=ProviderWaits(redis),
            manners=HostManners(settings.fetch_per_second, settings.fetch_at_once),
        )
        return UnitRunner(
            database=self.database,
            units=self.units,
            windows=windows,
            kill_switch=self.kill_switch,
            enqueuer=self.enqueuer,
            scan=partial(run_scan, self),
        )

    def worker(self, queue: QueueName, runner: UnitRunner) -> FleetWorker:
        """The worker of one queue, with the queue's own settings."""
        settings = self.settings
        sync = queue is QueueName.SYNC
        observed = ObservedJobs(queue)
        handlers = handlers_for(runner, queue)

        def on_error(job: RunningJob, error: BaseException) -> None:
            self.counters.attempt_failed(job, error)
            observed.attempt_failed(job, error)

        return FleetWorker(
            self.fleet.queue(queue).redis,
            queue,
            {kind: observed.handler(counted(handler, self.counters)) for kind, handler in handlers.items()},
            concurrency=settings.sync_concurrency if sync else settings.chunks_concurrency,
            job_timeout_s=settings.sync_timeout_s if sync else settings.chunks_timeout_s,
            lease_s=settings.lease_s,
            max_stalls=settings.max_stalls,
            first_backoff_s=settings.first_backoff_s,
            drain_s=settings.drain_s,
            abandoned=observed.abandoned(counted_abandoned(abandoned_of(runner), self.counters)),
            on_error=on_error,
            version=kbsync.__version__,
        )

    async def limit_chunks(self) -> None:
        """The chunk queue's limiter, where none stands: an operator's own is left alone, a wiped Redis gets it back."""
        per_minute = self.settings.chunks_per_minute
        if per_minute is None and self.settings.profile == "production":
            per_minute = CHUNKS_PER_MINUTE_IN_PRODUCTION
        operator = QueueOperator(self.fleet.queue(QueueName.CHUNKS))
        if per_minute and (await operator.limits()).limit is None:
            await operator.set_limiter(per_minute, 60_000)


def flag_store(settings: Settings, database: Database) -> Flags:
    """The store that holds the kill switch. Raises SettingsError when it is not installed or has no address."""
    if settings.flag_store == "postgres":
        return FlipperTables(database)
    if not settings.flipper_redis_url:
        raise SettingsError("KBSYNC_FLAG_STORE=flipper-client needs KBSYNC_FLIPPER_REDIS_URL")
    try:
        from kbsync.flags.flipper_client import redis_flags
    except ImportError:
        raise SettingsError("KBSYNC_FLAG_STORE=flipper-client needs `pip install kbsync[flipper]`") from None
    return redis_flags(settings.flipper_redis_url)


def provider_environment(settings: Settings) -> ProviderEnvironment:
    """What providers share in a process; whoever makes one closes its clients."""
    limits = replace(
        FetchLimits(),
        total_s=settings.fetch_timeout_s,
        body_bytes=settings.fetch_body_limit,
        at_once=settings.sync_concurrency,
    )

    def client(extra: list[str]) -> SafeClient:
        allowed = AllowList.of([*settings.fetch_allow_addresses, *extra])
        return SafeClient(user_agent=settings.fetch_user_agent, allowed=allowed, limits=limits)

    return ProviderEnvironment(
        client=client([]),
        clients_of_sources={int(source): client(extra) for source, extra in settings.fetch_allow_for_sources.items()},
        files_roots=tuple(settings.files_roots),
    )
