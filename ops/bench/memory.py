"""PF-06: bytes of Redis memory a waiting job takes, and a kept finished one, on the embedded server and on Redis 7."""

from __future__ import annotations

import asyncio

from redis.asyncio import Redis

from kbsync.queue.fleet import Fleet
from kbsync.queue.jobs import JobRequest
from kbsync.queue.queue import QueueCounts
from ops.bench import contestants
from ops.bench.figures import Bar, Figure, Row, Sample, limit
from ops.bench.machine import redis_7, server_name, version_of
from ops.bench.ours import QUEUE, FleetProducer
from ops.bench.peers.driver import BATCH, requests
from ops.bench.processes import Arena, arena, redis_up
from ops.bench.table import Options
from ops.embedded.redis import server_binary

WAITING = 50_000
KEPT = 10_000  # as many as a queue keeps
WITHIN_S = 60.0
TEXT_OVERHEAD = len('{"text":""}')


def measure(options: Options) -> list[Figure]:
    waiting, kept = options.count(WAITING, 5_000), options.count(KEPT, 2_000)
    found: dict[str, tuple[Sample, Sample]] = {}
    servers = {"embedded": server_binary(), "Redis 7": redis_7()}
    with arena(options.folder, contestants.payload_bytes(), contestants.concurrency()) as place:
        for name, binary in servers.items():
            if binary is not None and (name == "embedded" or version_of(binary).startswith("7.")):
                with redis_up(options.folder, binary) as server:
                    per_waiting = asyncio.run(bytes_per_waiting(server.url, waiting, place.payload_bytes))
                with redis_up(options.folder, binary) as server:
                    per_kept = bytes_per_kept(place, server.url, kept)
                found[name] = (Sample((per_waiting,), "bytes"), Sample((per_kept,), "bytes"))
                options.say(f"{name}: {per_waiting:.0f} bytes waiting, {per_kept:.0f} kept")
    here, seven = found.get("embedded"), found.get("Redis 7")
    checks = (
        limit("bytes waiting on the embedded server", here and here[0], 450, Bar.AT_MOST),
        limit("on Redis 7", seven and seven[0], 500, Bar.AT_MOST),
        limit("kept on the embedded server", here and here[1], 300, Bar.AT_MOST),
        limit("on Redis 7", seven and seven[1], 300, Bar.AT_MOST),
    )
    rows = [
        Row(
            f"{what} on {name} ({server_name(binary) if binary else 'not here'})",
            found[name][place] if name in found else None,
        )
        for name, binary in servers.items()
        for place, what in enumerate((f"one of {waiting:,} waiting jobs", f"one of {kept:,} kept jobs"))
    ]
    notes = (f"payload {contestants.payload_bytes()} bytes, ids of 23 characters; used_memory, before and after",)
    return [Figure("PF-06", "Redis memory", checks, tuple(rows), notes)]


def jobs(count: int, payload_bytes: int) -> list[JobRequest]:
    """Jobs under ids as the library's are, whose payload is that long as compact JSON."""
    payload = {"text": "x" * (payload_bytes - TEXT_OVERHEAD)}
    return [JobRequest(f"kb-document-sync-{number:06}", "sync_document", payload, "org-1") for number in range(count)]


async def bytes_per_waiting(url: str, count: int, payload_bytes: int) -> float:
    """On an empty server: what `count` waiting jobs add, after a first one that brings what every queue has."""
    fleet = Fleet(url)
    redis = fleet.client_at(url)
    await fleet.enqueue(QUEUE, [JobRequest("first", "sync_document", {"text": ""}, "org-1")])
    before = await used_memory(redis)
    asked = jobs(count, payload_bytes)
    for at in range(0, count, BATCH):
        await fleet.enqueue(QUEUE, asked[at : at + BATCH])
    added = await used_memory(redis) - before
    assert (await fleet.queue(QUEUE).counts()).waiting == count + 1
    await fleet.close()
    return added / count


def bytes_per_kept(place: Arena, url: str, count: int) -> float:
    """On an empty server: what a worker's `count` finished jobs leave there, beyond what its first one left."""
    with place.worker(contestants.ours(), url, "noop"):
        asyncio.run(_enqueue_and_wait(place, url, 1, "first"))
    before = asyncio.run(_used_memory_at(url))
    with place.worker(contestants.ours(), url, "noop"):
        asyncio.run(_enqueue_and_wait(place, url, count, "job"))
    return (asyncio.run(_used_memory_at(url)) - before) / count


async def _enqueue_and_wait(place: Arena, url: str, count: int, prefix: str) -> None:
    fleet = Fleet(url)
    producer = FleetProducer(fleet)
    queue = fleet.queue(QUEUE)
    kept = (await queue.counts()).completed + count
    asked = requests(count, place.payload_bytes, prefix)
    for at in range(0, count, BATCH):
        await producer.many(asked[at : at + BATCH])
    async with asyncio.timeout(WITHIN_S):
        while not _all_ended(await queue.counts(), kept):
            await asyncio.sleep(0.05)
    await fleet.close()


def _all_ended(counts: QueueCounts, kept: int) -> bool:
    return counts.completed >= min(kept, KEPT) and counts.waiting + counts.active == 0


async def used_memory(redis: Redis) -> int:
    info = await redis.info("memory")
    return int(info["used_memory"])


async def _used_memory_at(url: str) -> int:
    fleet = Fleet(url)
    used = await used_memory(fleet.client_at(url))
    await fleet.close()
    return used
