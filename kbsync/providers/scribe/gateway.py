"""The only file that knows Scribe's wire: the public API 1.0.0, read-only (LS-07)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from kbsync.domain.errors import (
    CredentialsRefused,
    ProviderError,
    ProviderRefused,
    ProviderUnreachable,
)
from kbsync.http.client import SafeClient
from kbsync.providers.api import JsonApi, Parameters, for_the_source, said_in
from kbsync.providers.scribe.config import ScribeConfig

PAGE = 100
MAX_PAGES = 1_000
NOT_LISTED = "Scribe does not list its documents."


@dataclass(frozen=True)
class DocumentsPage:
    """`count` is how many documents Scribe says there are in all; `next_offset` None: this was the last page."""

    results: list[Any]
    count: int | None
    next_offset: int | None


class ScribeGateway:
    def __init__(self, client: SafeClient, config: ScribeConfig, api_key: str) -> None:
        self._config = config
        self._api = JsonApi(
            client,
            config.base_url,
            headers={"X-API-Key": api_key},
            what="Scribe",
            judge=_meaning,
            per_second=config.requests_per_minute / 60,
        )

    async def teams(self) -> list[str]:
        """The names of the teams that the key opens. Raises CredentialsRefused, ProviderRefused (plan) and the rest."""
        answer = await for_the_source(self._api.get("v1/teams/"), NOT_LISTED)
        teams = answer.value if isinstance(answer.value, list) else []
        return [str(team.get("name") or "a team without a name") for team in teams if isinstance(team, Mapping)]

    async def pages(self, kind: str) -> AsyncIterator[DocumentsPage]:
        """The pages of one type's documents, newest first, to the provider's own end. Of a `next` link only the offset is
        used: behind a proxy its scheme and host may be wrong. Raises ProviderError for a page that can't be read."""
        offset: int | None = 0
        while offset is not None:
            page = _page_of((await for_the_source(self._api.get(self._list_path(kind, offset)), NOT_LISTED)).value)
            yield page
            offset = page.next_offset

    async def document(self, identifier: str) -> Any:
        """Raises ItemGone, ItemUnreadable and the rest."""
        return (await self._api.get(f"v1/documents/{quote(identifier, safe='')}/")).value

    def _list_path(self, kind: str, offset: int) -> str:
        parameters: Parameters = {"limit": PAGE, "offset": offset, "type": kind}
        teams = "".join(f"&team_ids={team}" for team in self._config.team_ids)
        return "v1/documents/?" + "&".join(f"{name}={value}" for name, value in parameters.items()) + teams


def _page_of(value: Any) -> DocumentsPage:
    if not isinstance(value, Mapping) or not isinstance(value.get("results"), list):
        raise ProviderUnreachable("Scribe answered a page without results")
    count = value.get("count")
    return DocumentsPage(value["results"], count if isinstance(count, int) else None, _offset_in(value.get("next")))


def _offset_in(link: object) -> int | None:
    """The offset of a `next` link. Raises ProviderUnreachable for a link without one: where it leads is not known."""
    if link is None or link == "":
        return None
    offsets = parse_qs(urlsplit(str(link)).query).get("offset", [])
    if not offsets or not offsets[-1].isdecimal():
        raise ProviderUnreachable("Scribe sent a next page that can't be followed")
    return int(offsets[-1])


def _meaning(status: int, value: Any) -> ProviderError | None:
    if status == 401:
        return CredentialsRefused("Scribe refused the API key (401). Give the source a new key.", 401)
    if status == 403:
        said = said_in(value)
        if "plan" in said.lower():
            return ProviderRefused("Scribe refused the key (403): its plan has no public API.", 403)
    return None
