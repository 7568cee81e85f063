"""A site to crawl."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.website.fake_site import FakeSite


@pytest.fixture
async def site() -> AsyncIterator[FakeSite]:
    async with FakeSite() as started:
        yield started
