"""All queues of a region: which Redis, which URLs, which ids are live."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from kbsync.domain.errors import QueueUnavailable, SettingsError
from kbsync.queue.connect import open_redis
from kbsync.queue.fleet import Fleet
from kbsync.queue.jobs import Enqueuer
from kbsync.queue.operators import QueueOperator
from ops.embedded import process
from ops.embedded.redis import EmbeddedRedis, server_binary
from tests.queue.support import Recorder, a_request, a_worker, claim, completed, exchange, running, until


@pytest.fixture
def second_server(tmp_path: Path) -> Iterator[EmbeddedRedis]:
    server = EmbeddedRedis(tmp_path / "second", keep=False)
    server.start()
    yield server
    server.stop()


@pytest.mark.spec("QU-22")
async def test_a_queue_may_live_on_its_own_redis(url: str, redis: Redis, second_server: EmbeddedRedis) -> None:
    fleet: Enqueuer = Fleet(url, {"chunks": second_server.url})
    assert isinstance(fleet, Fleet)
    await fleet.enqueue("sync", [a_request("s")])
    await fleet.enqueue("chunks", [a_request("c")])
    assert (await fleet.queue("sync").counts()).waiting == 1
    assert (await fleet.queue("chunks").counts()).waiting == 1
    assert await redis.exists("arq:job:c") == 0
    assert await fleet.live_job_ids(["s", "c", "n"]) == {"s", "c"}
    await fleet.ping_write()
    second_server.stop()
    await fleet.enqueue("sync", [a_request("t")])
    with pytest.raises(QueueUnavailable):
        await fleet.enqueue("chunks", [a_request("d")])
    with pytest.raises(QueueUnavailable):
        await fleet.ping_write()
    with pytest.raises(QueueUnavailable):
        await fleet.live_job_ids(["s"])
    await fleet.close()


@pytest.mark.spec("QR-05", "QU-18")
async def test_live_ids_are_those_waiting_delayed_or_active_in_few_round_trips(fleet: Fleet, redis: Redis) -> None:
    queue = fleet.queue("q")
    await queue.enqueue([a_request("ended")])
    await claim(queue, 1)
    await exchange(queue, 0, "x", 1000, completed("ended"))
    await queue.enqueue([a_request("active")])
    await claim(queue, 1, "u")
    await queue.enqueue([a_request("waiting"), a_request("delayed", delay_ms=9_999)])
    await fleet.live_job_ids(["x"])
    await redis.config_resetstat()
    found = await fleet.live_job_ids(["active", "waiting", "delayed", "ended", *(f"n{n}" for n in range(4_000))])
    assert found == {"active", "waiting", "delayed"}
    assert (await redis.info("commandstats"))["cmdstat_evalsha"]["calls"] == 5
    assert await fleet.live_job_ids([]) == set()


@pytest.mark.spec("QU-22")
@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("redis+cluster://a:1/0", "Cluster"),
        ("http://a/", "redis://"),
        ("redis+sentinel://:secret@/mymaster/0", "Sentinel URL"),
        ("redis+sentinel://a:26379", "Sentinel URL"),
        ("redis+sentinel://a:x/mymaster/0", "numbers"),
    ],
)
def test_a_url_that_cannot_hold_a_queue_is_refused_with_the_reason(url: str, says: str) -> None:
    with pytest.raises(SettingsError, match=says) as refused:
        Fleet(url)
    assert "secret" not in str(refused.value)


@pytest.fixture
def sentinel(redis_server: EmbeddedRedis, tmp_path: Path) -> Iterator[int]:
    """A real sentinel watching the test server."""
    port = process.free_port()
    config = tmp_path / "sentinel.conf"
    config.write_text(f"bind 127.0.0.1\nport {port}\nsentinel monitor mymaster 127.0.0.1 {redis_server.port} 1\n")
    log = tmp_path / "sentinel.log"
    started = process.start([server_binary(), config, "--sentinel"], log)
    process.wait_until(lambda: process.accepts_connections(port), started, log, "Sentinel")
    yield port
    process.stop(started, 15)


@pytest.mark.spec("QU-22", "QU-20")
async def test_sentinel_names_the_master_for_producers_and_workers(sentinel: int, redis: Redis) -> None:
    url = f"redis+sentinel://127.0.0.1:1,127.0.0.1:{sentinel}/mymaster/0"
    fleet = Fleet(url)
    recorder = Recorder()
    async with running(a_worker(url, recorder)):
        await fleet.enqueue("q", [a_request("j")])
        await until(lambda: recorder.runs == ["j"])
    assert (await fleet.queue("q").counts()).completed == 1
    await fleet.close()


async def test_a_client_given_to_a_worker_stays_open(url: str, fleet: Fleet) -> None:
    client = open_redis(url)
    recorder = Recorder()
    await fleet.enqueue("q", [a_request("j")])
    async with running(a_worker(client, recorder)):
        await until(lambda: recorder.runs == ["j"])
    assert await client.ping()
    await client.connection_pool.disconnect()


@pytest.mark.spec("QU-18")
async def test_queues_do_not_see_each_other(fleet: Fleet) -> None:
    await fleet.enqueue("one", [a_request("a")])
    await fleet.enqueue("two", [a_request("b"), a_request("c")])
    await QueueOperator(fleet.queue("one")).pause()
    assert (await fleet.queue("one").counts()).waiting == 1
    assert (await fleet.queue("two").counts()).paused is False
    assert await claim(fleet.queue("two"), 9) == ["b", "c"]
