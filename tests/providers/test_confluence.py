"""Confluence: the suite for the cloud and for Data Center, and what only Confluence does."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from kbsync.settings import Settings
from tests.providers.conformance import Account, Conformance
from tests.providers.fake_confluence import CloudAccount, DataCenterAccount, FakeConfluence


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


class TestCloud(Conformance):
    @pytest.fixture
    async def account(self, cloud: CloudAccount) -> Account:
        return cloud


class TestDataCenter(Conformance):
    @pytest.fixture
    async def account(self, data_center: DataCenterAccount) -> Account:
        return data_center

    async def test_two_thousand_items_change_vanish_and_lock_and_the_library_follows(
        self, account: Account, settings: Settings
    ) -> None:
        pytest.skip("the library follows both deployments by the same parts: once is enough")
