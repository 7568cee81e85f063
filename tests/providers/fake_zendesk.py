"""Zendesk Guide on a real socket: brands, locales and translations, cursor and numbered pages, drafts, segments, users.

Brands are told apart by the first part of the path here (`/acme/api/v2/...`), as one socket has one host name.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

from aiohttp import web

from tests.providers.account import SECRET, Account
from tests.providers.fake_api import Asked, FakeApi

EMAIL = "ada@acme.test"
BASIC = "Basic " + base64.b64encode(f"{EMAIL}/token:{SECRET}".encode()).decode()
EARLY, LATE = "2026-01-05T09:00:00Z", "2026-02-01T10:15:00Z"
MOST = 100


class FakeZendesk(FakeApi):
    def __init__(self) -> None:
        super().__init__()
        self.brands: list[dict[str, Any]] = [
            {"id": 1, "name": "Acme", "subdomain": "acme", "active": True, "has_help_center": True,
             "help_center_state": "enabled", "is_deleted": False},
        ]  # fmt: skip
        self.locales = ["en-us", "fr"]
        self.categories: dict[str, list[dict[str, Any]]] = {"acme": [{"id": 7, "name": "General", "position": 1}]}
        self.sections: dict[str, list[dict[str, Any]]] = {
            "acme": [
                {"id": 42, "name": "Refunds", "category_id": 7, "parent_section_id": None, "position": 1},
                {"id": 43, "name": "Cards", "category_id": 7, "parent_section_id": 42, "position": 2},
                {"id": 44, "name": "Fees", "category_id": 7, "parent_section_id": 43, "position": 3},
                {"id": 45, "name": "Orphan", "category_id": 99, "parent_section_id": 98, "position": 4},
            ]
        }
        self.articles: dict[str, dict[str, Any]] = {}
        # article -> locale -> {title, body, draft}
        self.translations: dict[str, dict[str, dict[str, Any]]] = {}
        self.segments = [
            {"id": 500, "user_type": "signed_in_users", "built_in": True, "name": "Signed-in users"},
            {"id": 501, "user_type": "staff", "built_in": True, "name": "Agents"},
            {"id": 502, "user_type": "signed_in_users", "built_in": False, "name": "Gold customers"},
        ]
        self.role = "admin"
        self.may_list_brands = self.may_list_segments = True
        self.numbered = self.no_account = False

    async def answer(self, asked: Asked, request: web.Request) -> web.StreamResponse:
        if self.no_account:
            return web.json_response({"error": "No help desk at acme.zendesk.com"}, status=404)
        bearer = asked.headers.get("authorization")
        if bearer not in (BASIC, f"Bearer {SECRET}") or self.revoked:
            return web.json_response({"error": "Couldn't authenticate you"}, status=401)
        subdomain, _, path = asked.path.strip("/").partition("/api/v2/")
        path = path.removesuffix(".json")
        if path == "users/me":
            return web.json_response({"user": {"id": 11, "name": "Ada", "role": self.role}})
        if path == "brands":
            refused = not self.may_list_brands
            return _forbidden() if refused else self._page(asked, "brands", self.brands)
        brand = next((one for one in self.brands if one["subdomain"] == subdomain), None)
        if brand is None or not brand["has_help_center"]:
            return _not_found()
        if path == "help_center/locales":
            return web.json_response({"locales": self.locales, "default_locale": self.locales[0]})
        if path == "help_center/user_segments":
            refused = not self.may_list_segments
            return _forbidden() if refused else self._page(asked, "user_segments", self.segments)
        parts = path.split("/")[1:]
        locale = parts.pop(0) if parts[0] in self.locales else None
        if locale is None and self.role == "end-user" and parts[0] != "user_segments":
            return _not_found()
        match parts:
            case ["categories"]:
                return self._page(asked, "categories", self.categories.get(subdomain, []))
            case ["sections"]:
                return self._page(asked, "sections", self.sections.get(subdomain, []))
            case ["articles"]:
                return self._page(asked, "articles", self._listed(subdomain, locale))
            case ["articles", identifier]:
                shown = self._shown(identifier, locale) if identifier in self.articles else None
                if shown is None or self.articles[identifier]["brand"] != subdomain:
                    return _not_found()
                return web.json_response({"article": shown})
        return _not_found()

    def _listed(self, subdomain: str, locale: str | None) -> list[dict[str, Any]]:
        ids = [id for id, article in self.articles.items() if article["brand"] == subdomain]
        return [shown for id in ids if (shown := self._shown(id, locale)) is not None]

    def _shown(self, identifier: str, locale: str | None) -> dict[str, Any] | None:
        article = self.articles[identifier]
        shown_in = locale or article["source_locale"]
        translation = self.translations[identifier].get(shown_in)
        if translation is None or (self.role == "end-user" and (translation["draft"] or article["user_segment_id"])):
            return None
        shown = {name: value for name, value in article.items() if name != "brand"}
        return {**shown, **translation, "name": translation["title"], "locale": shown_in}

    def _page(self, asked: Asked, key: str, entries: list[dict[str, Any]]) -> web.Response:
        articles = key == "articles"
        if "page[size]" not in asked.query or self.numbered:
            return self._numbered(asked, key, entries)
        size, after = min(int(asked.query["page[size]"]), MOST), asked.query.get("page[after]", "")
        first = int(after.removeprefix("cursor-") or 0)
        if articles and self.has_empty_page and first == size and after != f"cursor-{size}":
            first = size
        if articles and self.has_empty_page and after == f"cursor-{size}":
            return self._cursor_page(asked, key, [], f"cursor-0{size}")
        more = first + size < len(entries)
        following = f"cursor-{first + size}" if more else None
        if articles and self.repeats and first:
            following = after
        return self._cursor_page(asked, key, entries[first : first + size], following)

    def _cursor_page(self, asked: Asked, key: str, shown: list[Any], following: str | None) -> web.Response:
        link = f"https://help.mapped.test{asked.path}?page[size]=100&page[after]={following}" if following else None
        meta = {"has_more": following is not None, "after_cursor": following, "before_cursor": None}
        return web.json_response({key: shown, "meta": meta, "links": {"next": link, "prev": None}})

    def _numbered(self, asked: Asked, key: str, entries: list[dict[str, Any]]) -> web.Response:
        page, size = int(asked.query.get("page", 1)), min(int(asked.query.get("per_page", 30)), MOST)
        if page > 100:
            return web.json_response({"error": "LimitError", "description": "too deep"}, status=400)
        first = (page - 1) * size
        more = first + size < len(entries)
        link = f"{self.url}{asked.path}?page={page + 1}&per_page={size}" if more else None
        if self.repeats and key == "articles" and page > 1:
            link = f"{self.url}{asked.path}?page={page}&per_page={size}"
        return web.json_response({key: entries[first : first + size], "count": len(entries), "next_page": link})


def _forbidden() -> web.Response:
    return web.json_response({"error": "Forbidden", "description": "not yours"}, status=403)


def _not_found() -> web.Response:
    return web.json_response({"error": "RecordNotFound", "description": "Not found"}, status=404)


class ZendeskAccount(Account):
    type = "zendesk"

    def __init__(self, fake: FakeZendesk) -> None:
        self.fake: FakeZendesk = fake
        self.more: dict[str, object] = {"locales": []}

    def config(self) -> dict[str, object]:
        subdomains = [brand["subdomain"] for brand in self.fake.brands]
        host = self.fake.url.split("//")[1]
        return {
            "base_url": f"http://{host}",
            "brand_urls": {"127": f"{self.fake.url}/acme", **{one: f"{self.fake.url}/{one}" for one in subdomains}},
            "requests_per_minute": 1_000_000,
            **self.more,
        }

    def credentials(self) -> dict[str, str]:
        return {"email": EMAIL, "api_token": SECRET}

    def fill(self, count: int, brand: str = "acme") -> list[str]:
        first = len(self.fake.articles)
        numbers = [str(360_000_000_001 + number) for number in range(first, first + count)]
        sections = self.fake.sections.get(brand) or [{"id": None}]
        for at, id in enumerate(numbers):
            self.fake.articles[id] = {
                "id": int(id), "brand": brand, "html_url": f"https://help.acme.test/hc/en-us/articles/{id}",
                "source_locale": "en-us", "section_id": sections[at % len(sections)]["id"], "created_at": EARLY,
                "updated_at": EARLY, "edited_at": EARLY, "user_segment_id": None, "user_segment_ids": [],
                "outdated_locales": [],
            }  # fmt: skip
            self.say_in(id, "en-us", f"Article {id}", f"<p>Word-{id}-one</p>")
        return [f"{id}:en-us" for id in numbers]

    def say_in(self, id: str, locale: str, title: str, body: str | None, *, draft: bool = False) -> None:
        self.fake.translations.setdefault(id, {})[locale] = {"title": title, "body": body, "draft": draft}

    def truth(self) -> dict[str, str]:
        return {
            f"{id}:{locale}": said["body"].removeprefix("<p>").removesuffix("</p>")
            for id, locales in self.fake.translations.items()
            for locale, said in locales.items()
            if not said["draft"]
        }

    def change(self, ids: Iterable[str]) -> None:
        for id, _, locale in (one.partition(":") for one in ids):
            self.fake.translations[id][locale]["body"] = f"<p>Word-{id}-two</p>"
            self.fake.articles[id]["updated_at"] = LATE

    def delete(self, ids: Iterable[str]) -> None:
        """Archived: gone from lists, 404 by id."""
        for id in [one.partition(":")[0] for one in ids]:
            del self.fake.articles[id], self.fake.translations[id]

    def lock(self, ids: Iterable[str]) -> None:
        """Nothing is locked one by one here: what goes back to draft is no longer there for readers."""
        for id, _, locale in (one.partition(":") for one in ids):
            self.fake.translations[id][locale]["draft"] = True

    def say(self, item: str, *, title: str, text: str) -> None:
        escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        self.say_in(item.partition(":")[0], "en-us", title, f"<p>{escaped}</p>")

    def is_page(self, asked: Asked) -> bool:
        return asked.path.endswith("/help_center/articles")

    def is_fetch(self, asked: Asked) -> bool:
        return "/articles/" in asked.path
