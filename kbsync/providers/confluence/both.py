"""What the cloud and Data Center answer alike (LS-07)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from kbsync.domain.errors import ItemGone, ProviderUnreachable
from kbsync.providers.confluence.payloads import Readers, Space, identifier_in, readers_in, within
from kbsync.providers.confluence.wire import Wire, if_allowed
from kbsync.providers.fields import text_in


class BothApis:
    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def me(self) -> Mapping[str, Any]:
        return await self._wire.me()

    async def readers_of(self, identifier: str) -> Readers:
        path = f"rest/api/content/{quote(identifier, safe='')}/restriction/byOperation/read"
        value = await if_allowed(self._wire.get(path, {"expand": "restrictions.user,restrictions.group"}))
        return readers_in(within(value, "restrictions"))

    async def permissions_of(self, space: Space) -> Any:
        path = f"rest/api/space/{quote(space.key, safe='')}"
        return within(await if_allowed(self._wire.get(path, {"expand": "permissions"})), "permissions")

    async def current_page(self, path: str, parameters: Mapping[str, str | int]) -> Mapping[str, Any]:
        """Raises ItemGone for what is archived, in the bin or a draft."""
        value = await self._wire.get(path, parameters)
        if not isinstance(value, Mapping) or identifier_in(value) is None:
            raise ProviderUnreachable("Confluence answered something that is no page")
        if value.get("status") not in (None, "current"):
            raise ItemGone(f"The page is not current any more: it is {text_in(value, 'status')}")
        return value
