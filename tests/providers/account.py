"""A made-up account at a provider's fake server: what the suite of every provider may ask of one (LS-18)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from tests.providers.fake_api import Asked, FakeApi

SECRET = "s3cret-" + "k" * 24


class Account(ABC):
    """External ids are the library's ids of the items."""

    type: str
    fake: FakeApi

    @abstractmethod
    def config(self) -> dict[str, object]: ...

    @abstractmethod
    def credentials(self) -> dict[str, str]:
        """With SECRET in it, so that a test can look for it where it must not be."""

    @abstractmethod
    def fill(self, count: int) -> list[str]:
        """Puts `count` more readable items into a few sections; answers their external ids."""

    @abstractmethod
    def truth(self) -> dict[str, str]:
        """Every item that a sync must end up with, unreadable ones left out: external id -> a word of its text."""

    @abstractmethod
    def change(self, ids: Iterable[str]) -> None:
        """New text (with a new word) and a later time."""

    @abstractmethod
    def delete(self, ids: Iterable[str]) -> None: ...

    @abstractmethod
    def lock(self, ids: Iterable[str]) -> None:
        """Still listed as far as the provider lists such items, and no longer readable with these credentials."""

    @abstractmethod
    def say(self, item: str, *, title: str, text: str) -> None:
        """Gives one item this title and a paragraph of this text."""

    @abstractmethod
    def is_page(self, asked: Asked) -> bool:
        """Whether a request is one page of the listing of items."""

    @abstractmethod
    def is_fetch(self, asked: Asked) -> bool:
        """Whether a request fetches one document's content; never, where the listing brings it."""

    # From now on, the switches of `FakeApi`

    def revoke(self) -> None:
        self.fake.revoked = True

    def repeat_cursor(self) -> None:
        self.fake.repeats = True

    def empty_page(self) -> None:
        self.fake.has_empty_page = True
