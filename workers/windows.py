"""The throttle step of a unit: a slot of its provider's window, or of its host, or the time to come back (RL-01 .. RL-08)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from kbsync.domain.errors import ProviderBusy, QueueUnavailable
from kbsync.domain.requests import CrawlUrl, DocumentChunks, LibraryRequest, StartCrawl, SyncDocument, SyncSource
from kbsync.domain.retry import backoff_s
from kbsync.domain.url_scope import host_and_port
from kbsync.library.places import Place
from kbsync.telemetry import log, metrics
from ratelimits.host import HostGate, polite_rate
from ratelimits.limits import UnitKind, limit_for
from ratelimits.scope import DataSourceScope, HostScope, ThrottleScope
from ratelimits.throttle import ComeBackAt, Go, Throttle
from ratelimits.waits import ProviderWaits, WaitVerdict


@dataclass(frozen=True)
class HostManners:
    per_second: float = 10.0
    at_once: int = 8


@dataclass(frozen=True)
class Windows:
    """What the fleet shares about providers' quotas, in Redis. Every call raises QueueUnavailable without it (RL-08)."""

    throttle: Throttle
    hosts: HostGate
    waits: ProviderWaits
    manners: HostManners = HostManners()

    @asynccontextmanager
    async def acquire(self, request: LibraryRequest, place: Place, job_id: str) -> AsyncIterator[Go | ComeBackAt]:
        """Go: the slot is taken, a host's slot until the end of the block. ComeBackAt: nothing is held."""
        match request:
            case SyncSource() | SyncDocument() if place.provider is not None:
                kind = UnitKind.SOURCE_SYNC if isinstance(request, SyncSource) else UnitKind.DOCUMENT_SYNC
                scope = ThrottleScope(place.provider, kind, request.organization_id, place.data_source_id)
                yield await self.throttle.take(scope, limit_for(place.provider, kind, place.limits), job_id)
            case StartCrawl() | CrawlUrl():
                closed = await self._closed(request, place)
                if closed is not None:
                    yield closed
                elif isinstance(request, CrawlUrl):
                    async with self._host_slot(request, place, job_id) as answer:
                        yield answer
                else:
                    yield Go()
            case SyncSource() | SyncDocument() | DocumentChunks():
                yield Go()

    async def close(self, request: LibraryRequest, place: Place, wait_s: float, reason: str) -> None:
        """The provider asked for a wait: its data source is closed to every unit kind, or the host of a crawl (RL-05)."""
        metrics.PROVIDER_CLOSURES.labels(metrics.provider_label(place.provider)).inc()
        if isinstance(request, CrawlUrl):
            await self.hosts.close(HostScope(host_and_port(request.url)), wait_s, reason)
        scope = _data_source(request, place)
        # Websites without a connection of their own share no quota: their hosts are what is closed.
        if scope is not None and not (isinstance(request, StartCrawl | CrawlUrl) and scope.data_source_id is None):
            await self.throttle.close(scope, wait_s, reason)

    async def must_fail_after_wait(self, job_id: str, wait_s: float, *, quota: bool = False) -> bool:
        """Counts one more wait that the provider asked for. True when the job has waited long enough: it fails instead."""
        verdict = await self.waits.note_wait(job_id, wait_s, quota=quota)
        return verdict is WaitVerdict.COUNTS_AS_FAILURE

    async def _closed(self, request: LibraryRequest, place: Place) -> ComeBackAt | None:
        scope = _data_source(request, place)
        if scope is None or scope.data_source_id is None:
            return None
        closed = await self.throttle.closed_until(scope)
        return ComeBackAt(closed[0], closed[1], closed=True) if closed is not None else None

    @asynccontextmanager
    async def _host_slot(self, request: CrawlUrl, place: Place, job_id: str) -> AsyncIterator[Go | ComeBackAt]:
        host = HostScope(host_and_port(request.url))
        rate = polite_rate(self.manners.per_second, place.crawl_delay_s)
        entered = await self.hosts.enter(host, rate, self.manners.at_once, job_id=job_id)
        if isinstance(entered, ComeBackAt):
            yield entered
            return
        try:
            yield Go()
        finally:
            try:
                await self.hosts.leave(host, entered.token)
            except QueueUnavailable:
                # The slot's lease frees it; what the unit did is done.
                log.warning("host_slot_not_freed", host=host.host)


def stated_wait_s(error: ProviderBusy, attempt: int) -> float:
    """How long a busy provider is left alone: as long as it said, or this attempt's backoff when it said nothing."""
    return error.retry_after_s if error.retry_after_s is not None else backoff_s(attempt)


def _data_source(request: LibraryRequest, place: Place) -> DataSourceScope | None:
    if place.provider is None:
        return None
    return DataSourceScope(place.provider, request.organization_id, place.data_source_id)
