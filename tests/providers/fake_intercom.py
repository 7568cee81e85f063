"""Intercom's articles on a real socket: versions, numbered pages over a live list, translations, help centers, quotas."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from aiohttp import web

from tests.providers.account import SECRET, Account
from tests.providers.fake_api import Asked, FakeApi

EARLY, LATE = 1_767_603_600, 1_769_940_900
MOST = 150


class FakeIntercom(FakeApi):
    def __init__(self) -> None:
        super().__init__()
        self.articles: dict[str, dict[str, Any]] = {}
        self.collections: list[dict[str, Any]] = [
            {"id": "4", "name": "Billing", "parent_id": None, "help_center_id": 1, "order": 1},
            {"id": "18", "name": "Refunds", "parent_id": "4", "help_center_id": None, "order": 1},
            {"id": "19", "name": "Cards", "parent_id": "18", "help_center_id": None, "order": 2},
            {"id": "30", "name": "For partners", "parent_id": None, "help_center_id": 2, "order": 2},
        ]
        self.next_is_object = self.next_is_missing = False
        self.counts = True
        self.signatures = 0

    async def answer(self, asked: Asked, request: web.Request) -> web.StreamResponse:
        if asked.headers.get("authorization") != f"Bearer {SECRET}" or self.revoked:
            return _errors(401, "token_revoked" if self.revoked else "unauthorized", "Access Token Invalid")
        if "json" not in asked.headers.get("accept", ""):
            return _errors(406, "not_acceptable", "Accept must be JSON")
        if asked.path == "/me":
            return _ok({"type": "admin", "app": {"id_code": "abc", "name": "Acme", "region": "US"}})
        if asked.path == "/help_center/help_centers":
            centers = [{"id": 1, "display_name": "Help"}, {"id": 2, "display_name": "Partners"}]
            return _ok({"type": "list", "data": centers})
        version = asked.headers.get("intercom-version", "2.1")
        if asked.path == "/help_center/collections":
            return _ok(self._page(asked, self.collections))
        if asked.path == "/articles":
            live = sorted(self.articles.values(), key=lambda one: -int(one["updated_at"] or 0))
            return _ok(self._page(asked, [self._shown(one, version) for one in live], articles=True))
        article = self.articles.get(asked.path.removeprefix("/articles/"))
        return (
            _errors(404, "not_found", "Resource Not Found") if article is None else _ok(self._shown(article, version))
        )

    def _shown(self, article: dict[str, Any], version: str) -> dict[str, Any]:
        self.signatures += 1
        shown = {**article, "body": _signed(article.get("body"), self.signatures)}
        if tuple(map(int, version.split("."))) >= (2, 16):
            shown.pop("parent_id", None)
            shown.pop("parent_type", None)
            shown["body_markdown"] = "not what we read"
        return shown

    def _page(self, asked: Asked, entries: list[dict[str, Any]], *, articles: bool = False) -> dict[str, Any]:
        size, page = min(int(asked.query.get("per_page", 25)), MOST), int(asked.query.get("page", 1))
        first = (page - 1) * size
        if articles and self.has_empty_page and page > 1:
            first -= size
        shown = entries[first : first + size]
        pages = -(-len(entries) // size) + (self.has_empty_page and articles)
        if articles and self.has_empty_page and page == 2:
            shown = []
        following: Any = page + 1 if page < pages else None
        if articles and self.repeats and page == 2:
            following = 2
        link: Any = None
        if following is not None and not self.next_is_missing:
            link = f"https://api.intercom.test{asked.path}?page={following}&per_page={size}"
            link = {"page": following, "per_page": size} if self.next_is_object else link
        about = {"type": "pages", "page": page, "per_page": size, "total_pages": pages, "next": link}
        return {"type": "list", "total_count": len(entries) if self.counts else None, "pages": about, "data": shown}


def _signed(body: Any, number: int) -> Any:
    return body.replace("?signed", f"?expires=1&signature={number}") if isinstance(body, str) else body


def _ok(value: dict[str, Any]) -> web.Response:
    headers = {"X-RateLimit-Limit": "1666", "X-RateLimit-Remaining": "1000", "X-RateLimit-Reset": "1769940910"}
    return web.json_response(value, headers=headers)


def _errors(status: int, code: str, message: str) -> web.Response:
    body = {"type": "error.list", "errors": [{"code": code, "message": message, "field": None}]}
    return web.json_response(body, status=status)


class IntercomAccount(Account):
    type = "intercom"

    def __init__(self, fake: FakeIntercom) -> None:
        self.fake: FakeIntercom = fake

    def config(self) -> dict[str, object]:
        return {"base_url": self.fake.url, "requests_per_minute": 1_000_000}

    def credentials(self) -> dict[str, str]:
        return {"token": SECRET}

    def fill(self, count: int) -> list[str]:
        first = len(self.fake.articles)
        ids = [str(6_000_000 + number) for number in range(first, first + count)]
        chains = ([4], [18, 4], [19, 18, 4], [30])
        for number, id in enumerate(ids):
            chain = chains[number % len(chains)]
            self.fake.articles[id] = {
                "id": id, "type": "article", "title": f"Article {id}", "description": "", "body": f"<p>Word-{id}-one</p>",
                "state": "published", "created_at": EARLY, "updated_at": EARLY + number, "author_id": 1,
                "url": f"https://help.acme.test/en/articles/{id}", "parent_id": chain[0], "parent_type": "collection",
                "parent_ids": chain, "default_locale": "en", "translated_content": {"type": "article_translated_content"},
            }  # fmt: skip
        return ids

    def truth(self) -> dict[str, str]:
        published = {id: one for id, one in self.fake.articles.items() if one["state"] == "published"}
        return {id: one["body"].removeprefix("<p>").removesuffix("</p>") for id, one in published.items()}

    def change(self, ids: Iterable[str]) -> None:
        for id in ids:
            self.fake.articles[id] |= {"body": f"<p>Word-{id}-two</p>", "updated_at": LATE}

    def delete(self, ids: Iterable[str]) -> None:
        for id in ids:
            del self.fake.articles[id]

    def lock(self, ids: Iterable[str]) -> None:
        """Nothing is locked one by one here: what is unpublished is no longer there for readers."""
        for id in ids:
            self.fake.articles[id] |= {"state": "draft", "url": None, "updated_at": LATE}

    def say(self, item: str, *, title: str, text: str) -> None:
        escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        self.fake.articles[item] |= {"title": title, "body": f"<p>{escaped}</p>"}

    def is_page(self, asked: Asked) -> bool:
        return asked.path == "/articles"

    def is_fetch(self, asked: Asked) -> bool:
        return asked.path.startswith("/articles/")
