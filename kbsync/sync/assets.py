"""An asset's lasting name in, the address that works now out: asked of the provider, within its quota (LS-25).

    tenant, audience, the document's own text ---> provider built, its window taken ---> address, checked ---> given out

Bytes never pass through here, and no address is kept: it is the provider's, signed for a while.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from kbsync.domain.audience import Asker
from kbsync.domain.errors import (
    AddressRefused,
    ItemGone,
    ItemUnreadable,
    ProviderBusy,
    ProviderError,
    ProviderUnreachable,
    SettingsError,
)
from kbsync.domain.retry import backoff_s
from kbsync.domain.text import has_unstorable_characters
from kbsync.http.client import SafeClient
from kbsync.library.assets import AssetPlace, place_of_asset
from kbsync.providers.contract import ASSET_SCHEME, AssetSource, DocumentRef
from kbsync.sync.context import Units
from kbsync.telemetry import log, metrics
from ratelimits.limits import UnitKind, limit_for
from ratelimits.scope import ThrottleScope
from ratelimits.throttle import ComeBackAt, Throttle

MAX_NAME = 300
NAME = re.compile(r"[^\s<>()\[\]\"\\\x00-\x20\x7f]{1,300}")
PATIENCE_S = 20.0  # a person waits at the other end
UNREACHABLE_WAIT_S = 5.0
BROKEN_WAIT_S = 300.0


@dataclass(frozen=True)
class AssetAt:
    """Where the asset is now: ASCII, http(s), no credentials, a host that may be followed."""

    url: str


@dataclass(frozen=True)
class NoAsset:
    """There is nothing for this asker under this name: no document, no such reference in it, nothing behind it."""


@dataclass(frozen=True)
class AssetGone:
    """The document names it, and the provider has it no more."""


@dataclass(frozen=True)
class AssetLater:
    """Nobody was asked, or nobody answered. `over_quota`: the source's own window is full."""

    wait_s: float
    why: str
    over_quota: bool = False


AssetAnswer = AssetAt | NoAsset | AssetGone | AssetLater


@dataclass(frozen=True)
class Assets:
    """`client_of` is the client that may reach what a source may reach: its allow-list judges the addresses."""

    units: Units
    throttle: Throttle
    client_of: Callable[[int], SafeClient]

    async def address_of(self, organization_id: int, document_id: int, asset: str, asker: Asker) -> AssetAnswer:
        """Before: the asker may read this organization. Raises ServerUnavailable."""
        if not NAME.fullmatch(asset) or has_unstorable_characters(asset):
            return NoAsset()
        async with self.units.database.organization(organization_id) as connection:
            place = await place_of_asset(connection, organization_id, document_id, ASSET_SCHEME + asset, asker)
        if place is None:
            return NoAsset()
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await self._ask(place, document_id, asset)
        except TimeoutError:
            return AssetLater(UNREACHABLE_WAIT_S, "the source took too long to answer")
        except ItemGone:
            return AssetGone()
        except (ItemUnreadable, AddressRefused) as error:
            log.warning("asset_refused", document_id=document_id, source_id=place.id, error=str(error))
            return NoAsset()
        except ProviderUnreachable:
            return AssetLater(UNREACHABLE_WAIT_S, "the source does not answer")
        except (ProviderError, SettingsError) as error:
            # In an editor's words on the source's page, with the next sync; who reads a document can do nothing about it.
            log.warning("asset_not_asked", document_id=document_id, source_id=place.id, error=str(error))
            return AssetLater(BROKEN_WAIT_S, "the source can't be asked: its connection needs an editor")

    async def _ask(self, place: AssetPlace, document_id: int, asset: str) -> AssetAnswer:
        scope = ThrottleScope(place.type, UnitKind.DOCUMENT_SYNC, place.organization_id, place.data_source_id)
        async with self.units.provider_of(place) as provider:
            if not isinstance(provider, AssetSource):
                return NoAsset()
            later = await self._window(scope, place, f"asset-{document_id}-{_digest(asset)}")
            if later is not None:
                return later
            try:
                url = await provider.asset_url(DocumentRef(place.external_id, place.url), asset)
            except ProviderBusy as error:
                wait_s = error.retry_after_s if error.retry_after_s is not None else backoff_s(1)
                metrics.PROVIDER_CLOSURES.labels(metrics.provider_label(place.type)).inc()
                await self.throttle.close(scope.data_source, wait_s, str(error))
                return AssetLater(wait_s, "the source asked to be left alone")
        return AssetAt(await self.client_of(place.id).checked_url(url))

    async def _window(self, scope: ThrottleScope, place: AssetPlace, name: str) -> AssetLater | None:
        """None: a slot is taken. A closed source reserves none, so that readers don't fill the windows behind the closure; in
        a full window the same asset keeps the one slot it was told to come back for."""
        closed = await self.throttle.closed_until(scope.data_source)
        if closed is not None and (wait_s := _until(closed[0])) > 0:
            return AssetLater(wait_s, "the source asked to be left alone")
        answer = await self.throttle.take(scope, limit_for(place.type, scope.unit_kind, place.limits), name)
        if isinstance(answer, ComeBackAt):
            return AssetLater(_until(answer.until), "the source's window is full", over_quota=not answer.closed)
        return None


def _until(moment: datetime) -> float:
    return (moment - datetime.now(UTC)).total_seconds()


def _digest(asset: str) -> str:
    return hashlib.sha256(asset.encode()).hexdigest()[:16]
