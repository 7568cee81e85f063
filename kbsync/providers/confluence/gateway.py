"""Which wire a source speaks, and what both of them answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Protocol

from kbsync.http.client import SafeClient
from kbsync.providers.confluence.cloud import CloudGateway
from kbsync.providers.confluence.config import ConfluenceConfig
from kbsync.providers.confluence.data_center import DataCenterGateway
from kbsync.providers.confluence.payloads import Entry, Readers, Space
from kbsync.providers.confluence.wire import Body, ListPage, Wire


class Gateway(Protocol):
    """`lists_by_offset`: a list may shift while it is read, and proves itself only by being read again. `lists_readers`:
    the list of pages tells their restrictions. `light` leaves out all but ids."""

    lists_by_offset: bool
    lists_readers: bool

    async def me(self) -> Mapping[str, Any]: ...

    def spaces(self, keys: Sequence[str], *, archived: bool, light: bool = False) -> AsyncIterator[ListPage]: ...

    def entries(self, space: Space, kind: str, *, light: bool = False) -> AsyncIterator[ListPage]: ...

    async def readers(self, space: Space, kind: str) -> dict[str, Readers] | None: ...

    async def readers_of(self, identifier: str) -> Readers: ...

    async def permissions_of(self, space: Space) -> Any: ...

    async def place(self, kind: str, identifier: str) -> Entry | None: ...

    async def body(self, kind: str, identifier: str) -> Body: ...

    async def names(self, people: Sequence[tuple[str, str]]) -> dict[str, str]: ...

    async def file_address(self, kind: str, identifier: str, is_it: Callable[[str], bool]) -> str | None: ...


def gateway_of(client: SafeClient, config: ConfluenceConfig, authorization: str) -> Gateway:
    wire = Wire(client, config, authorization)
    return CloudGateway(wire) if config.is_cloud else DataCenterGateway(wire)
