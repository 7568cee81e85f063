"""Scribe's public API on a real socket: key check, offset pages over a newest-first list, quotas, two kinds of document."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from aiohttp import web

from tests.providers.account import SECRET, Account
from tests.providers.fake_api import Asked, FakeApi

KEY = f"sc_abcd.{SECRET}"
MOST = 100


def uuid(number: int, kind: int = 0xD) -> str:
    return str(UUID(int=(kind << 120) | number))


class FakeScribe(FakeApi):
    def __init__(self) -> None:
        super().__init__()
        self.documents: dict[str, dict[str, Any]] = {}  # newest last; listed the other way round
        self.teams = {uuid(n, 0xB): f"Team {n}" for n in range(1, 4)}
        self.locked: set[str] = set()
        self.plan_is_too_small = False
        self.host_in_links = ""
        self.pictures = "https://pictures.test"
        self.signatures = 0

    async def answer(self, asked: Asked, request: web.Request) -> web.StreamResponse:
        key = asked.headers.get("x-api-key")
        if key is None:
            return _detail(401, "Authentication credentials were not provided.")
        if key != KEY or self.revoked:
            return _detail(401, "Invalid API key.")
        if self.plan_is_too_small:
            return _detail(403, "Your plan does not include the public API.")
        if not asked.path.endswith("/"):
            return web.Response(status=301, headers={"Location": asked.path + "/"})
        if asked.path == "/v1/teams/":
            return web.json_response([{"id": id, "name": name} for id, name in self.teams.items()])
        if asked.path == "/v1/documents/":
            return self._page(asked, request)
        return self._one(asked.path.removeprefix("/v1/documents/").strip("/"))

    def _page(self, asked: Asked, request: web.Request) -> web.Response:
        limit, offset = min(int(asked.query.get("limit", MOST)), MOST), int(asked.query.get("offset", 0))
        kind, teams = asked.query.get("type"), request.query.getall("team_ids", [])
        chosen = [
            document
            for document in reversed(self.documents.values())
            if (kind is None or document.get("type") == kind) and (not teams or document["team"]["id"] in teams)
        ]
        if self.has_empty_page and offset == limit:  # nothing stands at these offsets; the list goes on behind them
            behind = self._link(asked, limit, 2 * limit)
            return web.json_response({"count": len(chosen), "next": behind, "results": []})
        first = offset - limit if self.has_empty_page and offset else offset
        results = chosen[first : first + limit]
        following = offset + limit if first + limit < len(chosen) else None
        if self.repeats and offset:
            following = offset
        link = None if following is None else self._link(asked, limit, following)
        return web.json_response(
            {"count": len(chosen), "next": link, "previous": None, "results": [self._shown(one) for one in results]}
        )

    def _link(self, asked: Asked, limit: int, offset: int) -> str:
        host = self.host_in_links or self.url
        query = urlencode({**asked.query, "limit": limit, "offset": offset})
        return f"{host}/v1/documents/?{query}"

    def _one(self, identifier: str) -> web.Response:
        document = self.documents.get(identifier)
        if document is None:
            return _detail(404, "Not found.")
        if identifier in self.locked:
            return _detail(403, "You do not have permission to perform this action.")
        return web.json_response(self._shown(document))

    def _shown(self, document: dict[str, Any]) -> dict[str, Any]:
        """Every read signs the pictures' addresses anew."""
        self.signatures += 1
        actions = [
            {**one, "screenshot_url": f"{self.pictures}/{one['id']}.png?signature={self.signatures}"}
            if isinstance(one, dict) and one.get("screenshot_url")
            else one
            for one in document.get("actions") or []
        ]
        return {**document, "actions": actions}


def _detail(status: int, text: str) -> web.Response:
    return web.json_response({"detail": text}, status=status)


class ScribeAccount(Account):
    type = "scribe"

    def __init__(self, fake: FakeScribe) -> None:
        self.fake: FakeScribe = fake

    def config(self) -> dict[str, object]:
        return {"base_url": self.fake.url, "types": ["scribe"], "requests_per_minute": 1_000_000}

    def credentials(self) -> dict[str, str]:
        return {"api_key": KEY}

    def fill(self, count: int) -> list[str]:
        first = len(self.fake.documents)
        ids = [uuid(number) for number in range(first, first + count)]
        teams = list(self.fake.teams.items())
        for number, id in enumerate(ids):
            team, name = teams[number % len(teams)]
            self.fake.documents[id] = {
                "id": id, "type": "scribe", "name": f"How to do {id}", "description": "", "content": None,
                "link": f"https://scribehow.test/shared/{id}", "team": {"id": team, "name": name}, "user_owner": None,
                "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z",
                "actions": [
                    {"id": f"a-{id}", "description": f"Word-{id}-one", "screenshot_url": "https://pictures.test/x.png"},
                    {"id": f"b-{id}", "description": "Click **Save**", "screenshot_url": None},
                ],
            }  # fmt: skip
        return ids

    def truth(self) -> dict[str, str]:
        readable = {id: one for id, one in self.fake.documents.items() if id not in self.fake.locked}
        return {id: one["actions"][0]["description"] for id, one in readable.items()}

    def change(self, ids: Iterable[str]) -> None:
        for id in ids:
            self.fake.documents[id]["actions"][0]["description"] = f"Word-{id}-two"
            self.fake.documents[id]["updated_at"] = "2026-02-01T00:00:00Z"

    def delete(self, ids: Iterable[str]) -> None:
        for id in ids:
            del self.fake.documents[id]

    def lock(self, ids: Iterable[str]) -> None:
        self.change(ids := list(ids))
        self.fake.locked.update(ids)

    def say(self, item: str, *, title: str, text: str) -> None:
        self.fake.documents[item]["name"] = title
        self.fake.documents[item]["actions"][0]["description"] = text

    def is_page(self, asked: Asked) -> bool:
        return asked.path == "/v1/documents/"

    def is_fetch(self, asked: Asked) -> bool:
        return asked.path.startswith("/v1/documents/") and asked.path != "/v1/documents/"
