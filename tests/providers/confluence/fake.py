"""Confluence on a real socket, as a cloud site, behind the cloud's gateway, and as Data Center with a context path.

One store of spaces and pages answers for all three. Cloud: cursors, links that begin with /wiki, archived pages unless the
word `current` is said, 404 for all that is not visible. Data Center: offsets, a cap that links may not know of.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from aiohttp import web

from tests.providers.account import SECRET
from tests.providers.fake_api import Asked, FakeApi

EMAIL = "ada@acme.test"
BASIC = "Basic " + base64.b64encode(f"{EMAIL}:{SECRET}".encode()).decode()
BEARER = f"Bearer {SECRET}"
CLOUD_ID = "11111111-2222-3333-4444-555555555555"
SITE, GATEWAY, CONTEXT = "/wiki", f"/ex/confluence/{CLOUD_ID}/wiki", "/confluence"
PUBLIC_BASE = "https://acme.test/wiki"
EARLY, LATE = "2026-01-05T09:00:00.000Z", "2026-02-01T10:15:00.000Z"
MOST = 100
ANYBODY = [
    {"operation": {"operation": "read", "targetType": "space"}, "anonymousAccess": False, "unlicensedAccess": False,
     "subjects": {"group": {"results": [{"name": "confluence-users-acme"}]}, "user": {"results": []}}},
    {"operation": {"operation": "delete", "targetType": "page"}, "anonymousAccess": True, "subjects": None},
]  # fmt: skip


def _as_it_is(entry: Any) -> Any:
    return entry


def permission(*groups: str, anonymous: bool = False) -> list[dict[str, Any]]:
    return [
        {"operation": {"operation": "read", "targetType": "space"}, "anonymousAccess": anonymous,
         "subjects": {"group": {"results": [{"name": one} for one in groups]}, "user": {"results": []}}}
    ]  # fmt: skip


@dataclass
class Item:
    """A page, post or folder. `groups` and `people`: who may read it; `hidden`: not the account that asks."""

    id: str
    space: str
    title: Any
    body: Any
    kind: str = "page"
    status: str = "current"
    parent: str | None = None
    parent_kind: str = "page"
    version: Any = 1
    when: Any = EARLY
    groups: list[str] = field(default_factory=list)
    people: list[str] = field(default_factory=list)
    hidden: bool = False
    shown_as: str | None = None  # HTML of the view
    files: dict[str, str] = field(default_factory=dict)  # id -> name
    odd: dict[str, Any] = field(default_factory=dict)  # laid over what is answered


class FakeConfluence(FakeApi):
    def __init__(self) -> None:
        super().__init__()
        self.spaces: dict[str, dict[str, Any]] = {}
        self.add_space("SUP", "Support")
        self.items: dict[str, Item] = {}
        self.people = {"5b10a": "Ada Lovelace", "ff80": "Grace Hopper"}
        self.permissions: dict[str, Any] = {"SUP": permission(anonymous=True)}
        self.missing_scopes: tuple[str, ...] = ()
        self.unindexed: set[str] = set()
        self.is_stranger = self.only_scoped = False
        self.search_refused = self.links_in_headers = self.start_slips = self.start_skips = self.endless_empty = False
        self.bears = 10_000  # entries a list page; more is 504
        self.media_url = "https://media.test"
        self.signatures = 0

    def add_space(self, key: str, name: str, **more: Any) -> None:
        number = 65_537 + len(self.spaces)
        self.spaces[key] = {"id": str(number), "key": key, "name": name, "type": "global", "status": "current",
                            "homepageId": None, **more}  # fmt: skip

    def add(self, item: Item) -> Item:
        self.items[item.id] = item
        return item

    async def answer(self, asked: Asked, request: web.Request) -> web.StreamResponse:
        path, said = asked.path, asked.headers.get("authorization", "")
        for prefix, accepted in ((SITE, (BASIC,)), (GATEWAY, (BASIC, BEARER)), (CONTEXT, (BEARER,))):
            if not path.startswith(prefix + "/"):
                continue
            if self.revoked or said not in accepted or (prefix == SITE and self.only_scoped):
                return web.Response(status=401, text="<html><h1>Unauthorized</h1></html>", content_type="text/html")
            rest = path.removeprefix(prefix + "/")
            if prefix == GATEWAY and any(scope in rest for scope in self.missing_scopes):
                return web.json_response({"code": 401, "message": "Unauthorized; scope does not match"}, status=401)
            parts = rest.split("/")
            if parts[:2] == ["rest", "api"]:
                return self._v1(asked, parts[2:], is_cloud=prefix != CONTEXT)
            if parts[:2] == ["api", "v2"] and prefix != CONTEXT:
                return self._v2(asked, parts[2:])
        return web.Response(status=404, text="<html>nothing here</html>", content_type="text/html")

    # --- the cloud's v2 ---

    def _v2(self, asked: Asked, parts: list[str]) -> web.Response:
        match parts:
            case ["spaces"]:
                status, keys = asked.query.get("status"), asked.query.get("keys")
                chosen = [one for one in self.spaces.values() if status is None or one["status"] == status]
                return self._cursor_page(asked, [one for one in chosen if not keys or one["key"] in keys.split(",")])
            case ["spaces", number, "pages" | "blogposts" as what]:
                space = next((one for one in self.spaces.values() if one["id"] == number), None)
                if space is None:
                    return _v2_error(404, "NOT_FOUND", "Not Found")
                if asked.query.get("body-format") not in (None, "storage", "atlas_doc_format"):
                    return _v2_error(
                        400, "INVALID_REQUEST_PARAMETER", "body-format is not one of storage, atlas_doc_format"
                    )
                kind = "page" if what == "pages" else "blogpost"
                statuses = asked.query.get("status", "current,archived").split(",")
                found = [one for one in self._seen(space["key"], kind) if one.status in statuses]
                return self._cursor_page(asked, found, self._v2_item, is_items=True)
            case ["pages" | "blogposts" | "folders", identifier]:
                item = self.items.get(identifier)
                wanted = asked.query.get("status", "current,archived").split(",")
                if item is None or item.hidden or item.status not in wanted or f"{item.kind}s" != parts[0]:
                    return _v2_error(404, "NOT_FOUND", "Not Found")
                return web.json_response(self._v2_item(item, asked.query.get("body-format")))
            case ["pages" | "blogposts", identifier, "attachments"]:
                files = self.items[identifier].files.items() if identifier in self.items else ()
                link = f"/download/attachments/{identifier}/"
                return self._cursor_page(
                    asked, [{"id": id, "title": name, "downloadLink": link + quote(name)} for id, name in files]
                )
            case ["users-bulk"]:
                ids = json.loads(asked.body)["accountIds"]
                known = [{"accountId": id, "displayName": self.people[id]} for id in ids if id in self.people]
                return web.json_response({"results": known})
        return _v2_error(404, "NOT_FOUND", "Not Found")

    def _seen(self, key: str, kind: str) -> list[Item]:
        if self.is_stranger:
            return []
        return [one for one in self.items.values() if one.space == key and one.kind == kind and not one.hidden]

    def _v2_item(self, item: Item, body: str | None = None) -> dict[str, Any]:
        webui = f"/spaces/{item.space}/pages/{item.id}"
        shown: dict[str, Any] = {
            "id": item.id, "status": item.status, "title": item.title, "spaceId": self.spaces[item.space]["id"],
            "parentId": item.parent, "parentType": item.parent_kind if item.parent else None, "position": 3,
            "authorId": "5b10a", "version": {"number": item.version, "createdAt": item.when, "authorId": "5b10a"},
            "_links": {"webui": webui, "base": PUBLIC_BASE} if body else {"webui": webui},
        }  # fmt: skip
        if body == "storage" and item.shown_as is None:
            shown["body"] = {"storage": {"representation": "storage", "value": item.body}}
        elif body == "view":
            shown["body"] = {"view": {"representation": "view", "value": item.shown_as}}
        return {**shown, **item.odd}

    def _cursor_page(
        self, asked: Asked, entries: list[Any], show: Callable[[Any], Any] = _as_it_is, *, is_items: bool = False
    ) -> web.Response:
        limit = int(asked.query.get("limit", 25))
        if limit > self.bears:
            return web.Response(status=504, text="<html>gateway time-out</html>", content_type="text/html")
        cursor, size = asked.query.get("cursor"), min(limit, MOST)
        if cursor is not None and not cursor.startswith("eyJ"):
            return _v2_error(400, "INVALID_REQUEST_PARAMETER", "Provided value for 'cursor' is not a valid cursor")
        said = json.loads(base64.b64decode(cursor)) if cursor else {"at": 0}
        first = said["at"]
        following: dict[str, Any] | None = {"at": first + size} if first + size < len(entries) else None
        shown = entries[first : first + size]
        if is_items and self.has_empty_page and first == size and "again" not in said:
            shown, following = [], {"at": size, "again": 1}
        if is_items and self.endless_empty and first:
            shown, following = [], {"at": first + 1}
        if is_items and self.repeats and first:
            following = said
        base = SITE if "/wiki/" in asked.path else ""
        rest = "/api/v2/" + asked.path.split("/api/v2/")[1] if "/api/v2/" in asked.path else "/rest/api/content/search"
        links: dict[str, str] = {"base": PUBLIC_BASE}
        headers = {}
        if following is not None:
            token = base64.b64encode(json.dumps(following).encode()).decode()
            others = {name: value for name, value in asked.query.items() if name != "cursor"}
            link = f"{base}{rest}?cursor={quote(token)}&{urlencode({**others, 'limit': str(size)})}"
            headers["Link"] = f'<{link}>; rel="next", <{PUBLIC_BASE}>; rel="base"'
            if not self.links_in_headers:
                links["next"] = link
        return web.json_response({"results": [show(one) for one in shown], "_links": links}, headers=headers)

    # --- v1: all of Data Center, some of the cloud ---

    def _v1(self, asked: Asked, parts: list[str], *, is_cloud: bool) -> web.Response:
        match parts:
            case ["user", "current"]:
                known = {"type": "known", "displayName": "Ada Lovelace", "accountId": "5b10a"}
                return web.json_response(
                    {"type": "anonymous", "displayName": "Anonymous"} if self.is_stranger else known
                )
            case ["user"]:
                name = self.people.get(asked.query["key"])
                return web.json_response({"displayName": name}) if name else _v1_error(404, "No user")
            case ["space"] if not is_cloud:
                spaces = [one for one in self.spaces.values() if one["status"] == asked.query["status"]]
                home = [{**one, "id": int(one["id"]), "homepage": {"id": one["homepageId"]}} for one in spaces]
                return self._offset_page(asked, home)
            case ["space", key]:
                shown = self.permissions.get(key)
                return (
                    _v1_error(403, "Not permitted") if shown == "refused" else web.json_response({"permissions": shown})
                )
            case ["content", "search"]:
                found = re.fullmatch(r'space="(.*)" and type=(\w+)', asked.query["cql"])
                if self.search_refused or found is None:
                    return _v1_error(403, "Not permitted to search")
                seen = [one for one in self._seen(found[1], found[2]) if one.id not in self.unindexed]
                return self._cursor_page(asked, seen, lambda one: {"id": one.id, "restrictions": _restrictions(one)})
            case ["content"] if not is_cloud:
                seen = [
                    one for one in self._seen(asked.query["spaceKey"], asked.query["type"]) if one.status == "current"
                ]
                light = "expand" not in asked.query
                return self._offset_page(
                    asked, seen, lambda one: {"id": one.id} if light else self._v1_item(one, ""), is_items=True
                )
            case ["content", identifier, "restriction", "byOperation", "read"]:
                item = self.items.get(identifier)
                if item is None or item.hidden or "no-restrictions" in item.odd:
                    return _v1_error(404, "No content")
                return web.json_response({"operation": "read", **_restrictions(item)["read"]})
            case ["content", identifier, "child", "attachment", file, "download"] if is_cloud:
                if file not in self.items[identifier].files:
                    return _v1_error(404, "No attachment")
                self.signatures += 1
                return web.Response(
                    status=302, headers={"Location": f"{self.media_url}/file/{file}/binary?token={self.signatures}"}
                )
            case ["content", identifier, "child", "attachment"] if not is_cloud:
                link = f"/download/attachments/{identifier}/"
                files = self.items[identifier].files.items()
                return self._offset_page(
                    asked, [{"id": id, "title": name, "_links": {"download": link + quote(name)}} for id, name in files]
                )
            case ["content", identifier] if not is_cloud:
                item = self.items.get(identifier)
                if item is None or item.hidden or item.status != "current":
                    return _v1_error(404, "No content found with id")
                return web.json_response(self._v1_item(item, asked.query.get("expand", "")))
        return _v1_error(404, "No such resource")

    def _v1_item(self, item: Item, expand: str) -> dict[str, Any]:
        above: list[dict[str, Any]] = []
        parent = self.items.get(item.parent or "")
        while parent is not None and len(above) < 50:
            above.insert(0, {"id": parent.id, "type": parent.kind, "title": parent.title})
            parent = self.items.get(parent.parent or "")
        shown: dict[str, Any] = {
            "id": item.id, "type": item.kind, "status": item.status, "title": item.title, "ancestors": above,
            "version": {"number": item.version, "when": item.when}, "extensions": {"position": "none"},
            "restrictions": _restrictions(item), "space": {"key": item.space},
            "_links": {"webui": f"/display/{item.space}/{quote(str(item.title))}", "base": f"{self.url}{CONTEXT}"},
        }  # fmt: skip
        if "body.storage" in expand and item.shown_as is None:
            shown["body"] = {"storage": {"value": item.body, "representation": "storage"}}
        elif "body.view" in expand:
            shown["body"] = {"view": {"value": item.shown_as, "representation": "view"}}
        return {**shown, **item.odd}

    def _offset_page(
        self, asked: Asked, entries: list[Any], show: Callable[[Any], Any] = _as_it_is, *, is_items: bool = False
    ) -> web.Response:
        limit, start = int(asked.query.get("limit", 25)), int(asked.query.get("start", 0))
        if limit > self.bears:
            return _v1_error(500, "java.lang.OutOfMemoryError")
        size = min(limit, MOST)
        has_hole = is_items and self.has_empty_page
        first = start - size if has_hole and start > size else start
        shown = [] if has_hole and start == size else entries[first : first + size]
        following: int | None = start + size if first + size < len(entries) or (has_hole and start == size) else None
        if following is not None and is_items:
            following += (limit - size) * self.start_skips - (self.start_slips and start == size)
            following = start if self.repeats and start else following
        links: dict[str, str] = {"base": f"{self.url}{CONTEXT}", "context": CONTEXT}
        if following is not None:
            links["next"] = f"{asked.path.removeprefix(CONTEXT)}?limit={limit}&start={following}"
        results = [show(one) for one in shown]
        return web.json_response(
            {"results": results, "start": start, "limit": size, "size": len(shown), "_links": links}
        )


def _restrictions(item: Item) -> dict[str, Any]:
    groups = {"results": [{"name": one, "type": "group"} for one in item.groups], "size": len(item.groups)}
    people = {"results": [{"accountId": one, "type": "known"} for one in item.people], "size": len(item.people)}
    return {"read": {"operation": "read", "restrictions": {"group": groups, "user": people}}}


def _v2_error(status: int, code: str, title: str) -> web.Response:
    return web.json_response(
        {"errors": [{"status": status, "code": code, "title": title, "detail": None}]}, status=status
    )


def _v1_error(status: int, message: str) -> web.Response:
    data = {"authorized": False, "valid": True, "errors": [], "successful": False}
    return web.json_response({"statusCode": status, "message": message, "data": data}, status=status)
