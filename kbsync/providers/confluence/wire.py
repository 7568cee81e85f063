"""What both of Confluence's APIs have in common on the wire: meanings of refusals, pages that are too large (LS-07)."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Any

from kbsync.domain.errors import (
    CredentialsRefused,
    ItemGone,
    ItemUnreadable,
    ProviderError,
    ProviderRefused,
    ProviderUnreachable,
)
from kbsync.http.client import SafeClient
from kbsync.providers.api import JsonApi, for_the_source, said_in
from kbsync.providers.confluence.config import ConfluenceConfig
from kbsync.providers.confluence.payloads import mappings
from kbsync.providers.fields import text_in

MAX_PAGES = 10_000
MAX_EMPTY_PAGES = 5  # one after the other, each naming a next one: such a list is not believed to end
SMALLEST_PAGE = 5
REFUSAL = "Confluence does not list it. Check the address, and what this user may see."
_SHRINK = 4


@dataclass(frozen=True)
class ListPage:
    """One page of a list. `base`: where its links begin. `loops`: the next page was read already, or none of many had
    anything in it: the list does not come to an end."""

    entries: list[Any]
    base: str
    loops: bool = False


@dataclass(frozen=True)
class Body:
    """A page's text. `storage` and `view` are None where Confluence does not give them."""

    title: str | None
    url: str | None
    space_key: str | None
    storage: str | None
    view: str | None = None


class _TooMuchAtOnce(ProviderUnreachable):
    """A server error that a smaller page may get round."""


class Wire:
    """One API's calls with its usual answers. Raises ProviderError."""

    def __init__(self, client: SafeClient, config: ConfluenceConfig, authorization: str) -> None:
        self.site = config.site
        self.api = JsonApi(
            client,
            config.api,
            headers={"Authorization": authorization, "X-Atlassian-Token": "no-check"},
            what="Confluence",
            judge=meaning,
            per_second=config.requests_per_minute / 60,
        )

    async def get(self, path: str, parameters: Mapping[str, str | int] | None = None) -> Any:
        try:
            return (await self.api.get(path, parameters)).value
        except _TooMuchAtOnce as error:
            raise ProviderUnreachable(str(error)) from error

    async def me(self) -> Mapping[str, Any]:
        """Whose the credentials are, as Confluence tells it; {} for nothing that can be understood."""
        value = (await for_the_source(self.api.get("rest/api/user/current"), REFUSAL)).value
        return value if isinstance(value, Mapping) else {}

    async def page(
        self, path: str, parameters: Mapping[str, str | int], size: int
    ) -> tuple[Any, Mapping[str, str], int]:
        """One page of a list, its headers, and the size that the server could bear, which is not larger than `size`. For a
        list a refusal is about the source, never about a document."""
        while True:
            try:
                answer = await for_the_source(self.api.get(path, {**parameters, "limit": size}), REFUSAL)
                return answer.value, answer.headers, size
            except _TooMuchAtOnce as error:
                if size <= SMALLEST_PAGE:
                    raise ProviderUnreachable(str(error)) from error
                size = max(SMALLEST_PAGE, size // _SHRINK)


def results_in(value: Any) -> list[Any]:
    results = value.get("results") if isinstance(value, Mapping) else None
    if not isinstance(results, list):
        raise ProviderUnreachable("Confluence answered a page without results")
    return results


async def if_allowed(call: Awaitable[Any]) -> Any:
    """None for what these credentials may not ask for. Raises CredentialsRefused and what may pass."""
    try:
        return await call
    except (ItemGone, ItemUnreadable):
        return None
    except ProviderRefused as error:
        if isinstance(error, CredentialsRefused):
            raise
        return None


_NO_LICENCE = re.compile(r"not permitted to use confluence|not licensed|no license", re.IGNORECASE)


def meaning(status: int, value: Any) -> ProviderError | None:
    words = _words(value)
    match status:
        case 401 if "scope" in words.lower():
            return ProviderRefused(f"Confluence refused (401): the token lacks a scope. {words}", 401)
        case 401:
            return CredentialsRefused(
                "Confluence refused the credentials (401). Give the source a new token; in the cloud, one with scopes needs "
                "the site's cloud_id.",
                401,
            )
        case 403 if _NO_LICENCE.search(words):
            return ProviderRefused(f"Confluence refused (403): this user may not use Confluence. {words}", 403)
        case 403 if "ip" in words.lower().split() or "allowlist" in words.lower():
            return ProviderRefused(f"Confluence refused (403): this address is not on its allow-list. {words}", 403)
        case 400 if "cursor" in words.lower():
            return ProviderUnreachable("Confluence no longer knows its cursor: the list begins anew with the next try")
        case 400 | 413 | 414:
            return ProviderRefused(f"Confluence answered {status}. {words}".rstrip(), status)
        case 500 | 502 | 504:
            return _TooMuchAtOnce(f"Confluence answered {status}")
    return None


def _words(value: Any) -> str:
    """The words of an error of either API or of the gateway."""
    errors = mappings(value.get("errors")) if isinstance(value, Mapping) else []
    said = [text for one in errors for name in ("code", "title", "detail") if (text := text_in(one, name))]
    return " ".join(" ".join(said).split())[:300] or said_in(value)
