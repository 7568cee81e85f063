"""A queue on an empty server. KBSYNC_TEST_REDIS names another server binary to run the same tests on."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from kbsync.queue.fleet import Fleet
from kbsync.queue.operators import QueueOperator
from kbsync.queue.queue import FleetQueue
from ops.embedded.redis import EmbeddedRedis
from tests.queue.support import QUEUE


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedRedis]:
    binary = os.environ.get("KBSYNC_TEST_REDIS")
    server = EmbeddedRedis(tmp_path_factory.mktemp("redis"), keep=False, binary=Path(binary) if binary else None)
    server.start()
    yield server
    server.stop()


@pytest.fixture
async def fleet(redis_server: EmbeddedRedis, redis: Redis) -> AsyncIterator[Fleet]:
    opened = Fleet(redis_server.url)
    yield opened
    await opened.close()


@pytest.fixture
def queue(fleet: Fleet) -> FleetQueue:
    return fleet.queue(QUEUE)


@pytest.fixture
def operator(queue: FleetQueue) -> QueueOperator:
    return QueueOperator(queue)


@pytest.fixture
def url(redis_server: EmbeddedRedis) -> str:
    return redis_server.url
