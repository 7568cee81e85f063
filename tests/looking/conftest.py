from __future__ import annotations

import pytest
from redis.asyncio import Redis

from kbsync.settings import Settings, load_settings
from ops.embedded.redis import EmbeddedRedis


@pytest.fixture
def settings(database_url: str, redis_server: EmbeddedRedis, redis: Redis) -> Settings:
    """A deployment's settings on the test's own servers, quick where a person would wait."""
    return load_settings(
        profile="embedded",
        database_url=database_url,
        redis_url=redis_server.url,
        lease_s=2,
        first_backoff_s=0.2,
        fetch_per_second=100_000,
        fetch_at_once=64,
        fetch_allow_addresses=["127.0.0.1"],
    )
