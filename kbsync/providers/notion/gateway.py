"""The only file that knows Notion's wire: the three API versions in use, read-only (LS-07)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote

from kbsync.domain.errors import (
    CredentialsRefused,
    ProviderError,
    ProviderRefused,
    ProviderUnreachable,
)
from kbsync.http.client import SafeClient
from kbsync.providers.api import Answer, JsonApi, Parameters, for_the_source, said_in
from kbsync.providers.fields import text_in
from kbsync.providers.notion.config import NotionConfig
from kbsync.providers.notion.payloads import mapping_in

PAGE = 100
NOT_LISTED = "Notion does not list what is there. May the connection read content?"
MAX_PAGES = 5_000
OLDEST = "2022-06-28"


class CursorDied(ProviderUnreachable):
    """Notion no longer knows the cursor that it gave: the list is read again from its top."""


class NeedsNewerVersion(ProviderRefused):
    """The database has several data sources, which the oldest API version can't tell apart."""


@dataclass(frozen=True)
class ListPage:
    """`doubt`: why the list is not whole though nothing follows. `capped`: Notion stops here, and more would follow."""

    entries: list[Any]
    doubt: str | None = None
    capped: bool = False


class NotionGateway:
    """`now` is the time that Notion's last answer was stamped with."""

    def __init__(self, client: SafeClient, config: NotionConfig, token: str) -> None:
        self.has_data_sources = config.api_version != OLDEST
        self.now = datetime.now(UTC)
        self._api = JsonApi(
            client,
            config.base_url,
            headers={"Authorization": f"Bearer {token}", "Notion-Version": config.api_version},
            what="Notion",
            judge=_meaning,
            per_second=config.requests_per_second,
        )

    async def me(self) -> Mapping[str, Any]:
        """Whose token it is. Raises CredentialsRefused, ProviderRefused and the rest."""
        value = (await for_the_source(self._get("users/me"), NOT_LISTED)).value
        return value if isinstance(value, Mapping) else {}

    def search(self) -> AsyncGenerator[ListPage]:
        """Pages and databases (or data sources), what was edited last first. Raises ProviderError for a page of it that
        can't be read."""
        newest_first = {"timestamp": "last_edited_time", "direction": "descending"}
        return self._pages(
            "search", lambda cursor: for_the_source(self._post("search", cursor, sort=newest_first), NOT_LISTED)
        )

    async def page(self, identifier: str) -> Any:
        return (await self._get(f"pages/{_part(identifier)}")).value

    async def database(self, identifier: str) -> Any:
        return (await self._get(f"databases/{_part(identifier)}")).value

    async def block(self, identifier: str) -> Any:
        return (await self._get(f"blocks/{_part(identifier)}")).value

    def children(self, identifier: str) -> AsyncGenerator[ListPage]:
        """One level of a page's or block's blocks."""
        return self._listed("blocks", f"blocks/{_part(identifier)}/children")

    def property_items(self, page: str, prop: str) -> AsyncGenerator[ListPage]:
        # Property ids arrive percent-encoded.
        return self._listed("references", f"pages/{_part(page)}/properties/{quote(prop, safe='%')}")

    async def rows(self, identifier: str, *, is_data_source: bool) -> AsyncGenerator[ListPage]:
        """The rows of a database or data source, oldest first. A query ends after 10,000 rows; what follows is asked for
        from the time of the last one on, which brings some rows twice."""
        path = f"{'data_sources' if is_data_source else 'databases'}/{_part(identifier)}/query"
        since: str | None = None
        while True:
            asked: dict[str, Any] = {"sorts": [{"timestamp": "created_time", "direction": "ascending"}]}
            if since is not None:
                asked["filter"] = {"timestamp": "created_time", "created_time": {"on_or_after": since}}
            is_capped, last = False, since
            async for page in self._pages("rows", lambda cursor, asked=asked: self._post(path, cursor, **asked)):  # type: ignore[misc]
                yield ListPage(page.entries, page.doubt)
                is_capped = is_capped or page.capped
                for row in page.entries:
                    last = max(filter(None, (last, text_in(row, "created_time"))), default=None)
            if not is_capped:
                return
            if last is None or last == since:
                yield ListPage([], "Notion shows only a part of a database that has too many rows of one time.")
                return
            since = last

    def _listed(self, what: str, path: str) -> AsyncGenerator[ListPage]:
        async def ask(cursor: str | None) -> Answer:
            parameters: Parameters = {"page_size": PAGE, **({"start_cursor": cursor} if cursor else {})}
            return await self._get(path, parameters)

        return self._pages(what, ask)

    async def _pages(self, what: str, ask: Callable[[str | None], Awaitable[Answer]]) -> AsyncGenerator[ListPage]:
        """To the provider's own end. A cursor that died begins the list anew, once: entries may come twice."""
        cursor: str | None = None
        met: set[str] = set()
        began_anew = False
        while True:
            try:
                value = (await ask(cursor)).value
            except CursorDied:
                if began_anew or cursor is None:
                    yield ListPage([], f"Notion lost its place in a list of {what} twice.")
                    return
                began_anew, cursor = True, None
                met.clear()
                continue
            if not isinstance(value, Mapping) or not isinstance(value.get("results"), list):
                raise ProviderUnreachable(f"Notion answered a page without {what}")
            cursor = _next(value)
            loops = cursor is not None and (cursor in met or len(met) >= MAX_PAGES)
            is_cut = mapping_in(value, "request_status").get("type") == "incomplete"
            is_cut_search = is_cut and what == "search"
            doubt = f"Notion's list of {what} does not come to an end." if loops else None
            doubt = "Notion's search shows only a part of what there is." if is_cut_search else doubt
            yield ListPage(value["results"], doubt, is_cut)
            if cursor is None or loops:
                return
            met.add(cursor)

    async def _get(self, path: str, parameters: Parameters | None = None) -> Answer:
        return self._stamped(await self._api.get(path, parameters))

    async def _post(self, path: str, cursor: str | None, **body: Any) -> Answer:
        place = {"start_cursor": cursor} if cursor else {}
        return self._stamped(await self._api.post(path, {"page_size": PAGE, **place, **body}))

    def _stamped(self, answer: Answer) -> Answer:
        try:
            self.now = parsedate_to_datetime(answer.headers.get("date", "")).astimezone(UTC)
        except ValueError:
            self.now = datetime.now(UTC)
        return answer


def _part(identifier: str) -> str:
    return quote(identifier, safe="")


def _next(value: Mapping[str, Any]) -> str | None:
    """Raises ProviderUnreachable for more to come that can't be asked for: then nobody knows where the list ends."""
    cursor = value.get("next_cursor")
    if value.get("has_more") is False:
        return None
    if isinstance(cursor, str) and cursor:
        return cursor
    if value.get("has_more"):
        raise ProviderUnreachable("Notion says that more follows, and not where")
    return None


def _meaning(status: int, value: Any) -> ProviderError | None:
    code, said = text_in(value, "code"), said_in(value)
    if status == 401 or code == "invalid_grant":
        return CredentialsRefused(f"Notion refused the token ({status}). Give the source a new one.", status)
    if status == 403 and not isinstance(value, Mapping):
        return ProviderUnreachable("Notion's edge refused the request (403)")
    if status == 409:
        return ProviderUnreachable("Notion answered 409")
    if status == 400 and "start_cursor" in said:
        return CursorDied("Notion no longer knows where it was in a list")
    if status == 400 and mapping_in(value, "additional_data").get("error_type") == "multiple_data_sources_for_database":
        return NeedsNewerVersion(
            "A database has several data sources: give the source api_version 2025-09-03 or later.", status
        )
    return None
