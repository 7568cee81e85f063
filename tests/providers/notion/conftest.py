"""A made-up Notion, and the account that each test reads it by."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.providers.notion.fake import FakeNotion, NotionAccount
from tests.providers.notion.state import VERSIONS


@pytest.fixture
async def fake() -> AsyncIterator[FakeNotion]:
    async with FakeNotion().served() as served:
        yield served


@pytest.fixture
def notion(fake: FakeNotion) -> NotionAccount:
    return NotionAccount(fake)


@pytest.fixture(params=VERSIONS)
def any_version(fake: FakeNotion, request: pytest.FixtureRequest) -> NotionAccount:
    return NotionAccount(fake, request.param)
