"""A made-up Confluence, and the accounts that each test reads it by: at the cloud, at Data Center, at either."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.providers.confluence.accounts import CloudAccount, DataCenterAccount
from tests.providers.confluence.fake import FakeConfluence


@pytest.fixture
async def fake() -> AsyncIterator[FakeConfluence]:
    async with FakeConfluence().served() as served:
        yield served


@pytest.fixture
def cloud(fake: FakeConfluence) -> CloudAccount:
    return CloudAccount(fake)


@pytest.fixture
def data_center(fake: FakeConfluence) -> DataCenterAccount:
    return DataCenterAccount(fake)


@pytest.fixture(params=["cloud", "data_center"])
def either(request: pytest.FixtureRequest, fake: FakeConfluence) -> CloudAccount:
    return CloudAccount(fake) if request.param == "cloud" else DataCenterAccount(fake)
