"""One made-up Confluence as three kinds of account see it: a cloud site, the cloud's gateway, and Data Center."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

from tests.providers.account import SECRET, Account
from tests.providers.confluence.fake import CLOUD_ID, CONTEXT, EMAIL, LATE, FakeConfluence, Item
from tests.providers.fake_api import Asked


class CloudAccount(Account):
    type = "confluence"

    def __init__(self, fake: FakeConfluence) -> None:
        self.fake: FakeConfluence = fake
        self.more: dict[str, object] = {}

    def config(self) -> dict[str, object]:
        return {"base_url": self.fake.url, "requests_per_minute": 1_000_000, **self.more}

    def credentials(self) -> dict[str, str]:
        return {"email": EMAIL, "api_token": SECRET}

    def fill(self, count: int, space: str = "SUP", **more: Any) -> list[str]:
        """The first seven of a space are above the others."""
        first = len(self.fake.items)
        ids = [str(1_000_000 + number) for number in range(first, first + count)]
        above = [one.id for one in self.fake.items.values() if one.space == space][:7] + ids
        for at, id in enumerate(ids):
            parent = above[at % 7] if first + at >= 7 and above[at % 7] != id else None
            self.fake.add(Item(id, space, f"Page {id}", f"<p>Word-{id}-one</p>", parent=parent, **more))
        return ids

    def truth(self) -> dict[str, str]:
        readable = (one for one in self.fake.items.values() if one.status == "current" and not one.hidden)
        return {one.id: one.body.removeprefix("<p>").removesuffix("</p>") for one in readable if one.kind == "page"}

    def change(self, ids: Iterable[str]) -> None:
        for item in (self.fake.items[id] for id in ids):
            item.body, item.version, item.when = f"<p>Word-{item.id}-two</p>", item.version + 1, LATE

    def delete(self, ids: Iterable[str]) -> None:
        """Into the bin; what stood below moves up."""
        for item in [self.fake.items[id] for id in ids]:
            item.status = "trashed"
            for below in self.fake.items.values():
                if below.parent == item.id:
                    below.parent = item.parent

    def lock(self, ids: Iterable[str]) -> None:
        """A restriction that leaves the asking account out: no list has the page, and by its id it is a 404."""
        self.delete(ids := list(ids))
        for id in ids:
            self.fake.items[id].status, self.fake.items[id].hidden = "current", True

    def say(self, item: str, *, title: str, text: str) -> None:
        self.fake.items[item].title, self.fake.items[item].body = title, f"<p>{escape(text)}</p>"

    def is_page(self, asked: Asked) -> bool:
        return asked.path.endswith("/pages")

    def is_fetch(self, asked: Asked) -> bool:
        return asked.path.rpartition("/")[0].endswith("/api/v2/pages")


class GatewayAccount(CloudAccount):
    """A token with scopes: the site itself does not take it."""

    def __init__(self, fake: FakeConfluence) -> None:
        super().__init__(fake)
        fake.only_scoped = True

    def config(self) -> dict[str, object]:
        return {**super().config(), "gateway_url": self.fake.url, "cloud_id": CLOUD_ID, **self.more}

    def credentials(self) -> dict[str, str]:
        return {"access_token": SECRET}


class DataCenterAccount(CloudAccount):
    def config(self) -> dict[str, object]:
        return {**super().config(), "deployment": "data_center", "base_url": self.fake.url + CONTEXT, **self.more}

    def credentials(self) -> dict[str, str]:
        return {"token": SECRET}

    def is_page(self, asked: Asked) -> bool:
        return asked.path.endswith("/rest/api/content")

    def is_fetch(self, asked: Asked) -> bool:
        return asked.path.rpartition("/")[0].endswith("/rest/api/content")
