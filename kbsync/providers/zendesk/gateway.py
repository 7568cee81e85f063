"""The only file that knows Zendesk's wire: one brand's Help Center API, v2 (LS-07)."""

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

PAGE = 100
MAX_PAGES = 5_000
NOT_LISTED = "Zendesk does not list it. Is the help center activated, and may this user see it?"


@dataclass(frozen=True)
class ListPage:
    """`loops`: the next page is one that was read already: the list does not come to an end."""

    entries: list[Any]
    loops: bool = False


NOT_THERE = "There is no Zendesk account at the source's base_url."


class BrandGateway:
    """`base_url` is the brand's own address: a help center answers for the subdomain that is addressed."""

    def __init__(self, client: SafeClient, base_url: str, authorization: str, per_second: float) -> None:
        self._api = JsonApi(
            client,
            base_url.rstrip("/") + "/api/v2",
            headers={"Authorization": authorization},
            what="Zendesk",
            judge=_meaning,
            per_second=per_second,
        )

    async def me(self) -> Mapping[str, Any]:
        """Raises ProviderRefused where no account answers, and the rest."""
        value = (await for_the_source(self._api.get("users/me"), NOT_THERE)).value
        user = value.get("user") if isinstance(value, Mapping) else None
        return user if isinstance(user, Mapping) else {}

    async def locales(self) -> tuple[str, list[str]]:
        """The help center's default locale and all that are enabled, lower-case."""
        value = (await for_the_source(self._api.get("help_center/locales"), NOT_LISTED)).value
        if not isinstance(value, Mapping) or not isinstance(value.get("locales"), list):
            raise ProviderUnreachable("Zendesk answered without locales")
        names = [name.lower() for name in value["locales"] if isinstance(name, str)]
        default = value.get("default_locale")
        first = default.lower() if isinstance(default, str) else (names[0] if names else "en-us")
        return first, names or [first]

    def brands(self) -> AsyncIterator[ListPage]:
        return self._pages("brands", "brands")

    def categories(self, locale: str | None) -> AsyncIterator[ListPage]:
        return self._pages(_in(locale, "categories"), "categories")

    def sections(self, locale: str | None) -> AsyncIterator[ListPage]:
        return self._pages(_in(locale, "sections"), "sections")

    def articles(self, locale: str | None) -> AsyncIterator[ListPage]:
        """Without a locale (agents) each article once, in its source locale; with one those that are translated into it."""
        return self._pages(_in(locale, "articles"), "articles", sort_by="created_at", sort_order="asc")

    def segments(self) -> AsyncIterator[ListPage]:
        return self._pages("help_center/user_segments", "user_segments")

    async def article(self, identifier: str, locale: str) -> Any:
        """Raises ItemGone, ItemUnreadable and the rest."""
        path = f"help_center/{quote(locale, safe='')}/articles/{quote(identifier, safe='')}"
        value = (await self._api.get(path)).value
        return value.get("article") if isinstance(value, Mapping) else None

    async def _pages(self, path: str, key: str, **parameters: str) -> AsyncIterator[ListPage]:
        """By cursor, to the provider's own end; by page numbers where it answers with them. Links are read for their
        values only: a brand's may point to a host of its own, where the credentials must not go."""
        following: dict[str, str | int] | None = {"page[size]": PAGE}
        read: set[str] = set()
        while following is not None:
            asked: Parameters = {**parameters, **following}
            value = (await for_the_source(self._api.get(path, asked), NOT_LISTED)).value
            entries = value.get(key) if isinstance(value, Mapping) else None
            if not isinstance(entries, list):
                raise ProviderUnreachable(f"Zendesk answered a page without {key}")
            read.add(str(sorted(following.items())))
            following = _next(value)
            loops = following is not None and (str(sorted(following.items())) in read or len(read) >= MAX_PAGES)
            yield ListPage(entries, loops)
            if loops:
                return


def _in(locale: str | None, what: str) -> str:
    return f"help_center/{quote(locale, safe='')}/{what}" if locale else f"help_center/{what}"


def _next(value: Mapping[str, Any]) -> dict[str, str | int] | None:
    """Raises ProviderUnreachable for more to come that can't be asked for: then nobody knows where the list ends."""
    meta = value.get("meta")
    if isinstance(meta, Mapping):
        if not meta.get("has_more"):
            return None
        cursor = meta.get("after_cursor") or _in_link(value.get("links"), "page[after]")
        if not isinstance(cursor, str) or not cursor:
            raise ProviderUnreachable("Zendesk says that more follows, and not where")
        return {"page[size]": PAGE, "page[after]": cursor}
    link = value.get("next_page")
    if link is None:
        return None
    # A page's number means nothing without the size that it was counted with.
    number, size = _value_in(link, "page"), _value_in(link, "per_page")
    if number is None or not number.isdecimal():
        raise ProviderUnreachable("Zendesk sent a next page that can't be followed")
    following: dict[str, str | int] = {"page": int(number)}
    if size is not None and size.isdecimal():
        following["per_page"] = int(size)
    return following


def _in_link(links: object, name: str) -> str | None:
    return _value_in(links.get("next"), name) if isinstance(links, Mapping) else None


def _value_in(link: object, name: str) -> str | None:
    values = parse_qs(urlsplit(link).query).get(name, []) if isinstance(link, str) else []
    return values[-1] if values else None


def _meaning(status: int, value: Any) -> ProviderError | None:
    is_json = isinstance(value, Mapping)
    said = said_in(value) or (str(value.get("error"))[:200] if is_json else "")
    if status == 401:
        return CredentialsRefused(
            "Zendesk refused the credentials (401). Give the source a new token, and see that token access is on.", 401
        )
    if status == 403 and not is_json:
        return ProviderUnreachable("Zendesk's edge refused the request (403)")
    if status == 404 and ("no help desk" in said.lower() or "suspended" in said.lower()):
        return ProviderRefused("There is no Zendesk account at this address: check the subdomain.", status)
    if status == 409:
        return ProviderUnreachable("Zendesk answered 409")
    return None
