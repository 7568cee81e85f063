"""The only file that knows Intercom's wire (LS-07)."""

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
from kbsync.providers.api import JsonApi, for_the_source
from kbsync.providers.intercom.config import IntercomConfig

PAGE = 100
MAX_PAGES = 2_000
NOT_LISTED = "Intercom does not list it. Does the token have the right scopes?"
_REFUSED_CODES = frozenset(
    {"unauthorized", "token_not_found", "token_revoked", "token_blocked", "token_expired", "token_unauthorized"}
)


@dataclass(frozen=True)
class ListPage:
    """`total` is how many entries Intercom says there are. `loops`: its next page is one that was read already."""

    entries: list[Any]
    total: int | None
    loops: bool = False


class IntercomGateway:
    def __init__(self, client: SafeClient, config: IntercomConfig, token: str) -> None:
        self._api = JsonApi(
            client,
            config.base_url,
            # Without a version each customer's app has another one.
            headers={"Authorization": f"Bearer {token}", "Intercom-Version": config.api_version},
            what="Intercom",
            judge=_meaning,
            per_second=config.requests_per_minute / 60,
        )

    async def me(self) -> tuple[str, str]:
        """The app's name and its region."""
        value = (await for_the_source(self._api.get("me"), NOT_LISTED)).value
        app = value.get("app") if isinstance(value, Mapping) else None
        if not isinstance(app, Mapping):
            return "a token without an app", ""
        return str(app.get("name") or app.get("id_code") or "an app without a name"), str(app.get("region") or "")

    async def help_centers(self) -> list[Mapping[str, Any]]:
        value = (await for_the_source(self._api.get("help_center/help_centers"), NOT_LISTED)).value
        return [one for one in _entries(value) if isinstance(one, Mapping)]

    def collections(self) -> AsyncIterator[ListPage]:
        return self._pages("help_center/collections")

    def articles(self) -> AsyncIterator[ListPage]:
        """Every article, drafts included, the newest change first."""
        return self._pages("articles")

    async def article(self, identifier: str) -> Any:
        """Raises ItemGone, ItemUnreadable and the rest."""
        return (await self._api.get(f"articles/{quote(identifier, safe='')}")).value

    async def _pages(self, path: str) -> AsyncIterator[ListPage]:
        """To the provider's own end. Its next page may be an address, an object or a number: only the values count, so
        that no token follows a link."""
        following: dict[str, str | int] | None = {"page": 1}
        read: set[str] = set()
        while following is not None:
            value = (await for_the_source(self._api.get(path, {"per_page": PAGE, **following}), NOT_LISTED)).value
            entries = _entries(value)
            read.add(str(sorted(following.items())))
            following = _next(value, following)
            loops = following is not None and (str(sorted(following.items())) in read or len(read) >= MAX_PAGES)
            total = value.get("total_count")
            yield ListPage(entries, total if isinstance(total, int) else None, loops)
            if loops:
                return


def _entries(value: Any) -> list[Any]:
    entries = value.get("data") if isinstance(value, Mapping) else None
    if not isinstance(entries, list):
        raise ProviderUnreachable("Intercom answered a page without data")
    return entries


def _next(value: Mapping[str, Any], asked: Mapping[str, str | int]) -> dict[str, str | int] | None:
    """Raises ProviderUnreachable for a next page that can't be understood: then nobody knows where the list ends."""
    pages = value.get("pages")
    if not isinstance(pages, Mapping):
        return None
    following = pages.get("next")
    if isinstance(following, str) and following:
        query = parse_qs(urlsplit(following).query)
        following = {name: query[name][-1] for name in ("page", "starting_after") if name in query}
    if isinstance(following, Mapping):
        if following.get("starting_after"):
            return {"starting_after": str(following["starting_after"])}
        page = str(following.get("page") or "")
        if page.isdecimal():
            return {"page": int(page)}
        raise ProviderUnreachable("Intercom sent a next page that can't be followed")
    # No next page, and yet pages left: the count of pages decides.
    number, total = asked.get("page"), pages.get("total_pages")
    if isinstance(number, int) and isinstance(total, int) and number < total:
        return {"page": number + 1}
    return None


def _meaning(status: int, value: Any) -> ProviderError | None:
    is_json = isinstance(value, Mapping)
    errors = value.get("errors") if is_json else None
    codes = {str(one.get("code")) for one in errors if isinstance(one, Mapping)} if isinstance(errors, list) else set()
    if status == 401 or (status == 403 and codes & _REFUSED_CODES):
        return CredentialsRefused(f"Intercom refused the token ({status}). Give the source a new one.", status)
    if status == 403 and "api_plan_restricted" in codes:
        return ProviderRefused("Intercom refused (403): the workspace's plan has no access to articles.", status)
    if status == 405 and not is_json:
        return ProviderUnreachable("Intercom's edge answered with a captcha (405)")
    return None
