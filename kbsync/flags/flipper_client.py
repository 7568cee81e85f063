"""flipper-client's stores (Redis, S3, Consul ...) behind the same interface. Needs the extra `kbsync[flipper]`.

flipper-client has no actors, so the organizations a flag is on for one by one are kept in its `client_data`, under
`organizations`. Its conditions are asked with `organization_id`. Its calls block, so each runs in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from flipper import FeatureFlagClient
from flipper.bucketing import NoOpBucketer
from flipper.contrib.redis import RedisFeatureFlagStore
from flipper.contrib.storage import FeatureFlagStoreItem
from redis import Redis as BlockingRedis

from kbsync.domain.errors import FlagStoreUnavailable

if TYPE_CHECKING:
    from kbsync.db.pool import Connection

T = TypeVar("T")
ORGANIZATIONS = "organizations"


@dataclass(frozen=True)
class FlipperClientSnapshot:
    """`item` is flipper-client's own record of the flag, None when nobody made it."""

    item: Any  # flipper-client carries no types

    def is_enabled(self, organization_id: int | None = None) -> bool:
        if self.item is None:
            return False
        if organization_id is None:
            # A condition counts as met when its subject is not passed: such a flag is on for some, not for all.
            return not self._has("conditions") and bool(self.item.is_enabled())
        return organization_id in self.organizations or bool(self.item.is_enabled(organization_id=organization_id))

    @property
    def on_for_all(self) -> bool:
        return self.item is not None and self.item.raw_is_enabled and not self.other_gates

    @property
    def organizations(self) -> frozenset[int]:
        return frozenset() if self.item is None else frozenset(_client_data(self.item).get(ORGANIZATIONS, ()))

    @property
    def other_gates(self) -> tuple[str, ...]:
        if self.item is None or not self.item.raw_is_enabled:
            return ()
        return tuple(f"flipper-client's {part}" for part in ("conditions", "bucketer") if self._has(part))

    def _has(self, part: str) -> bool:
        value = self.item.meta.get(part)
        return bool(value) and (part != "bucketer" or value.get("type") != NoOpBucketer.get_type())


class FlipperClientFlags:
    """A `Flags` store over a FeatureFlagClient. Writes of one flag are read, changed and written: last one wins."""

    def __init__(self, client: FeatureFlagClient, store: Any, *, timeout_s: float = 1.0) -> None:
        self._client = client
        self._store = store  # flipper-client carries no types
        self._timeout_s = timeout_s

    @classmethod
    def over(cls, store: Any, *, timeout_s: float = 1.0) -> FlipperClientFlags:
        """`store` is one of flipper.contrib's stores."""
        return cls(FeatureFlagClient(store), store, timeout_s=timeout_s)

    async def snapshot(self, name: str) -> FlipperClientSnapshot:
        return FlipperClientSnapshot(await self._answer(lambda: self._store.get(name)))

    async def is_enabled(self, name: str, organization_id: int | None = None) -> bool:
        return (await self.snapshot(name)).is_enabled(organization_id)

    async def set_boolean(self, name: str, on: bool, *, within: Connection | None = None) -> None:
        def write() -> None:
            item = self._made(name)
            if _client_data(item).get(ORGANIZATIONS):
                self._client.set_client_data(name, {**_client_data(item), ORGANIZATIONS: []})
            if on:
                self._client.enable(name)
            else:
                self._client.disable(name)

        await self._answer(write)

    async def set_actor(self, name: str, organization_id: int, on: bool, *, within: Connection | None = None) -> None:
        def write() -> None:
            data = _client_data(self._made(name))
            organizations = set(data.get(ORGANIZATIONS, ())) - {organization_id}
            if on:
                organizations.add(organization_id)
            self._client.set_client_data(name, {**data, ORGANIZATIONS: sorted(organizations)})

        await self._answer(write)

    def _made(self, name: str) -> FeatureFlagStoreItem:
        item = self._store.get(name)
        if item is None:
            self._client.create(name)
            item = self._store.get(name)
        return item

    async def _answer(self, call: Callable[[], T]) -> T:
        try:
            return await asyncio.wait_for(asyncio.to_thread(call), self._timeout_s)
        # Each store has its own client with its own errors, and none may pass for an answer.
        except Exception as error:
            raise FlagStoreUnavailable(f"the flag store does not answer ({type(error).__name__}: {error})") from error


def redis_flags(url: str, *, timeout_s: float = 1.0) -> FlipperClientFlags:
    """flipper-client's Redis store at `url`, under its default keys."""
    # The socket gives up too, so that a dead server leaves no threads behind.
    client: BlockingRedis = BlockingRedis.from_url(url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s)
    return FlipperClientFlags.over(RedisFeatureFlagStore(client), timeout_s=timeout_s)


def _client_data(item: Any) -> dict[str, Any]:
    data: dict[str, Any] = item.meta.get("client_data") or {}
    return data
