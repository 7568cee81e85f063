"""Notion's API on a real socket, in three versions: shared pages only, an index that lags, cursors that die, one block level
a call, minutes instead of seconds, and file addresses that are signed anew at every read."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from aiohttp import web

from tests.providers.account import SECRET, Account
from tests.providers.fake_api import Asked, FakeApi
from tests.providers.notion.state import EARLY, LATE, MOST, VERSIONS, Database, Page, texts, uuid

TOKEN = f"ntn_{SECRET}"


class FakeNotion(FakeApi):
    def __init__(self) -> None:
        super().__init__()
        self.pages: dict[str, Page] = {}
        self.databases: dict[str, Database] = {}
        self.blocks: dict[str, list[dict[str, Any]]] = {}  # of a page or block
        self.property_items: dict[tuple[str, str], list[dict[str, Any]]] = {}
        self.locked: set[str] = set()
        self.unshared: set[str] = set()
        self.hidden_from_search: set[str] = set()
        self.page_size = MOST
        self.row_cap = 10_000
        self.search_is_cut = self.search_repeats_one = False
        self.dying_cursors = 0  # so many of the next uses of a cursor find it dead
        self.signatures = 0
        self._cursors: dict[str, tuple[str, int]] = {}
        self._made = 0

    # --- what a test says ---

    def block(self, parent: str, kind: str, data: dict[str, Any] | None = None, **more: Any) -> str:
        self._made += 1
        made = {"id": uuid(self._made, 0xB), "type": kind, kind: data if data is not None else {}, **more}
        self.blocks.setdefault(parent, []).append(made)
        return str(made["id"])

    def paragraph(self, parent: str, text: str) -> str:
        return self.block(parent, "paragraph", {"rich_text": texts(text)})

    def page(self, number: int, title: str, text: str = "", *, under: str | None = None, **more: Any) -> str:
        """A page of the workspace, or below another page, where its block stands."""
        id = uuid(number)
        parent = {"type": "page_id", "page_id": under} if under else {"type": "workspace", "workspace": True}
        self.pages[id] = Page(id, title, more.pop("parent", parent), **more)
        if text:
            self.paragraph(id, text)
        if under:
            self.blocks.setdefault(under, []).append({"id": id, "type": "child_page", "child_page": {"title": title}})
        return id

    def row(self, number: int, title: str, text: str, source: str, **more: Any) -> str:
        id = uuid(number)
        database = next(one.id for one in self.databases.values() if source in one.sources)
        parent = {"type": "data_source_id", "data_source_id": source, "database_id": database}
        self.pages[id] = Page(id, title, parent, **more)
        self.paragraph(id, text)
        return id

    def database(self, number: int, title: str, sources: int = 1, **more: Any) -> Database:
        names = {uuid(number * 10 + at, 0xD): title if sources == 1 else f"{title} {at}" for at in range(sources)}
        made = Database(uuid(number, 0xC), title, names, **more)
        self.databases[made.id] = made
        return made

    # --- what is answered ---

    async def answer(self, asked: Asked, request: web.Request) -> web.StreamResponse:
        if asked.headers.get("authorization") != f"Bearer {TOKEN}" or self.revoked:
            return _error(401, "unauthorized", "API token is invalid.")
        version = asked.headers.get("notion-version")
        if version is None:
            return _error(400, "missing_version", "Notion-Version header is required.")
        if version not in VERSIONS:
            return _error(400, "validation_error", f"Notion-Version {version} is not known.")
        parts = asked.path.removeprefix("/v1/").split("/")
        if parts[0] == "data_sources" and version == VERSIONS[0]:
            return _error(400, "invalid_request_url", "Invalid request URL.")
        given: dict[str, Any] = json.loads(asked.body) if asked.method == "POST" else dict(asked.query)
        if "start_cursor" in given and not (isinstance(given["start_cursor"], str) and given["start_cursor"]):
            return _error(400, "validation_error", "body.start_cursor should be a string.")
        if int(given.get("page_size", MOST)) > MOST:
            return _error(400, "validation_error", "body.page_size should be at most 100.")
        id = _dashed(parts[1]) if len(parts) > 1 else ""
        match (asked.method, parts[0], *parts[2:]):
            case ("GET", "users"):
                return web.json_response({"object": "user", "name": "Sync", "bot": {"workspace_name": "Acme"}})
            case ("POST", "search"):
                return self._search(given, version)
            case ("GET", "pages"):
                return self._page(id, version)
            case ("GET", "pages", "properties", prop):
                return self._list(
                    f"property {id} {prop}", self.property_items.get((id, prop), []), given, "property_item"
                )
            case ("GET", "databases"):
                return self._database(id, version)
            case ("POST", "databases" | "data_sources", "query"):
                return self._query(id, parts[0], given, version)
            case ("GET", "blocks"):
                return self._block(id, version)
            case ("GET", "blocks", "children"):
                return self._children(id, given, version)
        return _error(400, "invalid_request_url", "Invalid request URL.")

    def _search(self, given: dict[str, Any], version: str) -> web.Response:
        wanted = given.get("filter", {}).get("value")
        if wanted not in (None, "page", "database" if version == VERSIONS[0] else "data_source"):
            return _error(400, "validation_error", f"body.filter.value {wanted} is not known.")
        hidden = self.hidden_from_search | self.unshared
        pages = [page for page in self.pages.values() if page.id not in hidden and not page.trashed]
        pages.sort(key=lambda page: page.edited, reverse=True)
        found: list[Any] = [] if wanted not in (None, "page") else list(pages)
        for database in self.databases.values():
            if database.id in hidden or database.trashed or database.is_linked or wanted == "page":
                continue
            found += [database] if version == VERSIONS[0] else [(database, source) for source in database.sources]
        if self.search_repeats_one and len(found) > MOST:
            found.insert(MOST, found[0])
        return self._list(
            "search", found, given, "page_or_data_source", lambda one: self._shown(one, version), cut=self.search_is_cut
        )

    def _shown(self, one: Any, version: str) -> dict[str, Any]:
        if isinstance(one, Page):
            return self._shown_page(one, version)
        if isinstance(one, Database):
            return self._shown_database(one, version)
        database, source = one
        return {"object": "data_source", "id": source, "title": texts(database.sources[source]), "properties": {},
                "parent": {"type": "database_id", "database_id": database.id}, "database_parent": database.parent,
                "last_edited_time": EARLY, "created_time": EARLY, **_flags(False, version)}  # fmt: skip

    def _page(self, id: str, version: str) -> web.Response:
        page = self.pages.get(id)
        if page is None or id in self.unshared:
            return _not_found(id)
        if id in self.locked:
            return _error(403, "restricted_resource", "Insufficient permissions for this endpoint.")
        return web.json_response(self._shown_page(page, version))

    def _shown_page(self, page: Page, version: str) -> dict[str, Any]:
        parent = dict(page.parent)
        if "data_source_id" in parent and version == VERSIONS[0]:
            parent = {"type": "database_id", "database_id": parent["database_id"]}
        title = {"id": "title", "type": "title", "title": texts(page.title)}
        properties = {"Name" if "database_id" in parent else "title": title, **page.properties}
        shown = {
            "object": "page", "id": page.id, "created_time": _minute(page.created), "last_edited_time": _minute(page.edited),
            "url": f"{self.url}/{page.id.replace('-', '')}", "public_url": page.public_url, "parent": parent,
            "icon": None, "cover": None, "properties": properties,
            **_flags(page.trashed, version),
        }  # fmt: skip
        return self._signed({**shown, **page.raw})  # type: ignore[no-any-return]

    def _database(self, id: str, version: str) -> web.Response:
        database = self.databases.get(id)
        if database is None or database.is_linked or id in self.unshared:
            return _not_found(id)
        if id in self.locked:
            return _error(403, "restricted_resource", "Insufficient permissions for this endpoint.")
        return (
            self._many(database)
            if self._is_too_new(database, version)
            else web.json_response(self._shown_database(database, version))
        )

    def _shown_database(self, database: Database, version: str) -> dict[str, Any]:
        shown = {"object": "database", "id": database.id, "title": texts(database.title), "parent": database.parent,
                 "description": texts(database.description), "created_time": EARLY, "last_edited_time": EARLY,
                 "url": f"{self.url}/{database.id}", "public_url": None, **_flags(database.trashed, version)}  # fmt: skip
        if version == VERSIONS[0]:
            return {**shown, "properties": {"Name": {"id": "title", "type": "title", "title": {}}}}
        return {**shown, "data_sources": [{"id": id, "name": name} for id, name in database.sources.items()]}

    def _is_too_new(self, database: Database, version: str) -> bool:
        return version == VERSIONS[0] and len(database.sources) > 1

    def _many(self, database: Database) -> web.Response:
        about = {"error_type": "multiple_data_sources_for_database", "database_id": database.id,
                 "child_data_source_ids": list(database.sources), "minimum_api_version": VERSIONS[1]}  # fmt: skip
        return _error(400, "validation_error", "Databases with multiple data sources are not supported.", about)

    def _query(self, id: str, kind: str, given: dict[str, Any], version: str) -> web.Response:
        if kind == "databases":
            database = self.databases.get(id)
            if database is None or database.is_linked or id in self.unshared:
                return _not_found(id)
            if version != VERSIONS[0]:
                return _error(400, "invalid_request_url", "Invalid request URL.")
            if self._is_too_new(database, version):
                return self._many(database)
            sources = set(database.sources)
        else:
            sources = {id}
            owner = next((one for one in self.databases.values() if id in one.sources), None)
            if owner is None or {id, owner.id} & self.unshared:
                return _not_found(id)
        since = given.get("filter", {}).get("created_time", {}).get("on_or_after", "")
        rows = [
            page
            for page in self.pages.values()
            if page.parent.get("data_source_id") in sources and not page.trashed and page.id not in self.unshared
        ]
        rows = sorted((row for row in rows if _minute(row.created) >= since), key=lambda row: row.created)
        capped = len(rows) > self.row_cap
        return self._list(f"query {id} {since}", rows[: self.row_cap], given, "page_or_data_source",
                          lambda one: self._shown(one, version), cut=capped)  # fmt: skip

    def _block(self, id: str, version: str) -> web.Response:
        for parent, blocks in self.blocks.items():
            for block in blocks:
                if block["id"] == id and id not in self.unshared:
                    return web.json_response(self._shown_block(parent, block, version))
        return _not_found(id)

    def _children(self, id: str, given: dict[str, Any], version: str) -> web.Response:
        known = (
            {block["id"]: block for blocks in self.blocks.values() for block in blocks} if id not in self.pages else {}
        )
        if id in known and known[id]["type"] == "unsupported":
            return _error(400, "validation_error", "Block type is not supported via the API.")
        if id in self.unshared or (id not in self.pages and id not in known and id not in self.blocks):
            return _not_found(id)
        return self._list(
            f"children {id}", self.blocks.get(id, []), given, "block", lambda one: self._shown_block(id, one, version)
        )

    def _shown_block(self, parent: str, block: dict[str, Any], version: str) -> Any:
        shown = dict(block)
        if block["type"] == "meeting_notes" and version != VERSIONS[2]:
            shown = {**shown, "type": "transcription", "transcription": shown.pop("meeting_notes")}
        kind = "page_id" if parent in self.pages else "block_id"
        has_children = bool(self.blocks.get(block["id"])) or block["type"] in ("child_page", "child_database")
        return self._signed({
            "object": "block", "parent": {"type": kind, kind: parent}, "created_time": EARLY, "last_edited_time": EARLY,
            **_flags(False, version), "has_children": has_children, **shown,
        })  # fmt: skip

    def _list(
        self, key: str, entries: list[Any], given: dict[str, Any], kind: str, shown: Any = None, *, cut: bool = False
    ) -> web.Response:
        """Cursors are opaque and hold for their own listing only."""
        cursor, offset = given.get("start_cursor"), 0
        if cursor is not None:
            if self.dying_cursors > 0:
                self.dying_cursors -= 1
                self._cursors.pop(cursor, None)
            listing, offset = self._cursors.get(cursor, ("", 0))
            if listing != key:
                return _error(400, "validation_error", f"The start_cursor provided is invalid: {cursor}")
        size = min(int(given.get("page_size", MOST)), self.page_size)
        is_first_of_search = key == "search" and offset == 0
        if self.has_empty_page and key == "search" and cursor is not None and offset == size and cursor[0] == "e":
            return self._answered([], kind, self._cursor(key, offset, "c"))
        page, end = entries[offset : offset + size], offset + size
        more = end < len(entries)
        follows = self._cursor(key, end, "e" if self.has_empty_page and is_first_of_search else "c") if more else None
        if self.repeats and key == "search" and offset:
            follows = cursor
        results = [shown(one) if shown else one for one in page]
        return self._answered(results, kind, follows, cut=cut and follows is None)

    def _answered(self, results: list[Any], kind: str, follows: str | None, *, cut: bool = False) -> web.Response:
        status = {"type": "incomplete", "incomplete_reason": "query_result_limit_reached"}
        return web.json_response({
            "object": "list", "type": kind, kind: {}, "results": results, "next_cursor": follows,
            "has_more": follows is not None,
            **({"request_status": status} if cut else {}),
        })  # fmt: skip

    def _cursor(self, key: str, offset: int, mark: str) -> str:
        cursor = f"{mark}{len(self._cursors)}-{abs(hash((key, offset)))}"
        self._cursors[cursor] = (key, offset)
        return cursor

    def _signed(self, value: Any) -> Any:
        """Every address of Notion's own gets a signature of its own."""
        if isinstance(value, dict):
            return {name: self._signed(one) for name, one in value.items()}
        if isinstance(value, list):
            return [self._signed(one) for one in value]
        if isinstance(value, str) and value.startswith("https://files.notion.test/"):
            self.signatures += 1
            return f"{value}?X-Amz-Signature={self.signatures}"
        return value


def _flags(trashed: bool, version: str) -> dict[str, bool]:
    old = {"archived": trashed} if version != VERSIONS[2] else {}
    return {**old, "in_trash": trashed}


def _minute(moment: str) -> str:
    return f"{moment[:16]}:00.000Z" if len(moment) >= 16 else moment


def _dashed(id: str) -> str:
    try:
        return str(UUID(id))
    except ValueError:
        return id


def _not_found(id: str) -> web.Response:
    return _error(404, "object_not_found", f"Could not find object with ID: {id}. Is it shared with your integration?")


def _error(status: int, code: str, message: str, about: dict[str, Any] | None = None) -> web.Response:
    body = {"object": "error", "status": status, "code": code, "message": message, "request_id": "r"}
    return web.json_response({**body, **({"additional_data": about} if about else {})}, status=status)


def is_children(asked: Asked) -> bool:
    return asked.path.endswith("/children")


class NotionAccount(Account):
    type = "notion"

    def __init__(self, fake: FakeNotion, version: str = VERSIONS[1]) -> None:
        self.fake: FakeNotion = fake
        self.version = version
        self.settings: dict[str, object] = {}

    def config(self) -> dict[str, object]:
        return {"base_url": f"{self.fake.url}/v1", "api_version": self.version, "requests_per_second": 100_000,
                "walk_requests": 30, "reread_after_days": 0, **self.settings}  # fmt: skip

    def credentials(self) -> dict[str, str]:
        return {"token": TOKEN}

    def fill(self, count: int) -> list[str]:
        """Rows of three databases, and every tenth a page of the workspace."""
        fake = self.fake
        while len(fake.databases) < 3:
            fake.database(len(fake.databases) + 1, f"Table {len(fake.databases) + 1}")
        sources = [source for database in fake.databases.values() for source in database.sources]
        ids = []
        for number in range(len(fake.pages) + 1, len(fake.pages) + count + 1):
            title, text = f"Title of {number}", f"Word-{uuid(number)}-one"
            made = f"2026-01-05T{number // 60 % 24:02}:{number % 60:02}:30.000Z"
            if number % 10 == 0:
                ids.append(fake.page(number, title, text, created=made))
            else:
                ids.append(fake.row(number, title, text, sources[number % len(sources)], created=made))
        return ids

    def truth(self) -> dict[str, str]:
        fake = self.fake
        readable = [id for id, page in fake.pages.items() if id not in fake.locked | fake.unshared and not page.trashed]
        return {id: fake.blocks[id][0]["paragraph"]["rich_text"][0]["plain_text"] for id in readable}

    def write(self, id: str, text: str) -> None:
        self.fake.blocks[id][0]["paragraph"]["rich_text"] = texts(text)

    def change(self, ids: Iterable[str]) -> None:
        for id in ids:
            self.write(id, f"Word-{id}-two")
            self.fake.pages[id].edited = LATE

    def delete(self, ids: Iterable[str]) -> None:
        """Every second one is only trashed: its own address still shows it so."""
        for number, id in enumerate(ids):
            if number % 2:
                self.fake.pages[id].trashed = True
            else:
                del self.fake.pages[id]

    def lock(self, ids: Iterable[str]) -> None:
        self.change(ids := list(ids))
        self.fake.locked.update(ids)

    def say(self, item: str, *, title: str, text: str) -> None:
        self.fake.pages[item].title = title
        self.write(item, text)

    def is_page(self, asked: Asked) -> bool:
        return asked.path == "/v1/search"

    def is_fetch(self, asked: Asked) -> bool:
        return asked.path.startswith("/v1/pages/")
