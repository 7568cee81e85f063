"""flipper-client's stores behind our interface. Run with PYTHONPATH=.cache/redis4."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from flipper import Condition
from flipper.bucketing import Percentage, PercentageBucketer
from flipper.client import FeatureFlagClient
from flipper.contrib.memory import MemoryFeatureFlagStore
from flipper.contrib.redis import RedisFeatureFlagStore
from redis import Redis as BlockingRedis

from kbsync.domain.errors import FlagStoreUnavailable
from kbsync.flags.contract import Flags
from kbsync.flags.flipper_client import FlipperClientFlags, redis_flags
from ops.embedded.process import free_port
from ops.embedded.redis import EmbeddedRedis

FLAG = "pause_api2_knowledge_base_sync"


@pytest.fixture(params=["memory", "redis"])
def store(request: pytest.FixtureRequest, redis_server: EmbeddedRedis) -> Any:
    if request.param == "memory":
        return MemoryFeatureFlagStore()
    client: BlockingRedis = BlockingRedis.from_url(redis_server.url)
    client.flushall()
    return RedisFeatureFlagStore(client)


@pytest.fixture
def flags(store: Any) -> Flags:
    return FlipperClientFlags.over(store)


@pytest.mark.spec("KS-04")
async def test_everybody_and_single_organizations(flags: Flags) -> None:
    assert not await flags.is_enabled(FLAG, 7)
    await flags.set_actor(FLAG, 7, True)
    await flags.set_actor(FLAG, 7, True)
    assert [await flags.is_enabled(FLAG, each) for each in (7, 8, None)] == [True, False, False]
    snapshot = await flags.snapshot(FLAG)
    assert snapshot.organizations == {7}
    assert not snapshot.on_for_all
    assert snapshot.other_gates == ()
    await flags.set_boolean(FLAG, True)
    assert [await flags.is_enabled(FLAG, each) for each in (7, 8, None)] == [True, True, True]
    assert (await flags.snapshot(FLAG)).on_for_all
    await flags.set_actor(FLAG, 7, True)
    await flags.set_boolean(FLAG, False)
    assert [await flags.is_enabled(FLAG, each) for each in (7, 8, None)] == [False, False, False]
    await flags.set_actor(FLAG, 7, True)
    await flags.set_actor(FLAG, 7, False)
    assert not await flags.is_enabled(FLAG, 7)


@pytest.mark.spec("KS-04")
async def test_what_the_app_s_own_client_set_is_read(store: Any, flags: Flags) -> None:
    client = FeatureFlagClient(store)
    client.create(FLAG, is_enabled=True, client_data={"team": "search"})
    assert await flags.is_enabled(FLAG)
    client.add_condition(FLAG, Condition(organization_id=7))
    assert [await flags.is_enabled(FLAG, each) for each in (7, 8, None)] == [True, False, False]
    snapshot = await flags.snapshot(FLAG)
    assert not snapshot.on_for_all
    assert snapshot.other_gates == ("flipper-client's conditions",)
    await flags.set_actor(FLAG, 8, True)
    assert client.get_client_data(FLAG) == {"team": "search", "organizations": [8]}


@pytest.mark.spec("KS-04")
async def test_a_bucketer_is_on_for_some(store: Any, flags: Flags) -> None:
    client = FeatureFlagClient(store)
    client.create(FLAG, is_enabled=True)
    client.set_bucketer(FLAG, PercentageBucketer(percentage=Percentage(0.5)))
    snapshot = await flags.snapshot(FLAG)
    assert {snapshot.is_enabled(7) for _ in range(200)} == {True, False}
    assert snapshot.other_gates == ("flipper-client's bucketer",)


@pytest.mark.spec("KS-05")
async def test_a_store_that_is_gone_or_slow_is_said_so() -> None:
    nowhere = RedisFeatureFlagStore(BlockingRedis(port=free_port()))
    with pytest.raises(FlagStoreUnavailable):
        await FlipperClientFlags.over(nowhere).is_enabled(FLAG)
    release = threading.Event()

    class Slow(MemoryFeatureFlagStore):  # type: ignore[misc]  # flipper-client carries no types
        def get(self, feature_name: str) -> None:
            release.wait(10)

    with pytest.raises(FlagStoreUnavailable):
        await FlipperClientFlags.over(Slow(), timeout_s=0.05).is_enabled(FLAG)
    release.set()


@pytest.mark.spec("KS-04")
async def test_the_setting_s_address_is_the_app_s_own_store(redis_server: EmbeddedRedis) -> None:
    client: BlockingRedis = BlockingRedis.from_url(redis_server.url)
    client.flushall()
    FeatureFlagClient(RedisFeatureFlagStore(client)).create(FLAG, is_enabled=True)
    assert await redis_flags(redis_server.url).is_enabled(FLAG, 7)
    with pytest.raises(FlagStoreUnavailable):
        await redis_flags(f"redis://127.0.0.1:{free_port()}/0").is_enabled(FLAG)
