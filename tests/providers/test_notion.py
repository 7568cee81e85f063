"""Notion: the suite, and what only Notion does."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.providers.conformance import Account, Conformance
from tests.providers.fake_notion import FakeNotion, NotionAccount


@pytest.fixture
async def fake() -> AsyncIterator[FakeNotion]:
    async with FakeNotion().served() as served:
        yield served


@pytest.fixture
def notion(fake: FakeNotion) -> NotionAccount:
    return NotionAccount(fake)


class TestNotion(Conformance):
    @pytest.fixture
    async def account(self, notion: NotionAccount) -> Account:
        return notion
