"""Provider-stated waits end: in number and in time."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from kbsync.domain.errors import QueueUnavailable
from ops.embedded.process import free_port
from ratelimits.waits import ProviderWaits, WaitVerdict, waits_key

START_MS = 1_790_000_000_000
HOUR_MS = 3_600_000
JOB = "kb-document-sync-1"


@pytest.mark.spec("RL-05")
async def test_a_hundred_in_a_row_are_delays_and_the_next_ones_are_failures(redis: Redis) -> None:
    waits = ProviderWaits(redis)
    for n in range(100):
        assert await waits.note_wait(JOB, 60, now_ms=START_MS + n * 60_000) == WaitVerdict.DELAY
    for n in range(100, 103):
        assert await waits.note_wait(JOB, 60, now_ms=START_MS + n * 60_000) == WaitVerdict.COUNTS_AS_FAILURE


@pytest.mark.spec("RL-05")
async def test_three_days_of_waits_are_the_end_of_delays(redis: Redis) -> None:
    waits = ProviderWaits(redis)
    assert await waits.note_wait(JOB, 86_400, now_ms=START_MS) == WaitVerdict.DELAY
    assert await waits.note_wait(JOB, 86_400, now_ms=START_MS + 72 * HOUR_MS - 1) == WaitVerdict.DELAY
    assert await waits.note_wait(JOB, 60, now_ms=START_MS + 72 * HOUR_MS) == WaitVerdict.COUNTS_AS_FAILURE


@pytest.mark.spec("RL-05")
async def test_success_starts_the_count_again_and_jobs_have_their_own(redis: Redis) -> None:
    waits = ProviderWaits(redis, max_waits=1)
    assert await waits.note_wait(JOB) == WaitVerdict.DELAY
    assert await waits.note_wait("kb-document-sync-2") == WaitVerdict.DELAY
    assert await waits.note_wait(JOB) == WaitVerdict.COUNTS_AS_FAILURE
    await waits.clear(JOB)
    await waits.clear(JOB)
    assert await waits.note_wait(JOB) == WaitVerdict.DELAY


@pytest.mark.spec("RL-05")
async def test_the_time_of_a_spent_quota_is_not_held_against_the_job(redis: Redis) -> None:
    waits = ProviderWaits(redis)
    month_s = 30 * 86_400.0
    assert await waits.note_wait(JOB, month_s, quota=True, now_ms=START_MS) == WaitVerdict.DELAY
    after = START_MS + int(month_s) * 1000 + 1_000
    assert await waits.note_wait(JOB, 60, now_ms=after) == WaitVerdict.DELAY
    assert await waits.note_wait(JOB, 60, now_ms=after + 72 * HOUR_MS) == WaitVerdict.COUNTS_AS_FAILURE


@pytest.mark.spec("RL-05")
async def test_the_count_outlives_the_wait_it_counts(redis: Redis) -> None:
    await ProviderWaits(redis).note_wait(JOB, 30 * 86_400.0, quota=True)
    assert await redis.ttl(waits_key(JOB)) > 33 * 86_400


@pytest.mark.spec("RL-08")
async def test_without_redis_nothing_is_decided() -> None:
    nowhere: Redis = Redis.from_url(f"redis://127.0.0.1:{free_port()}/0")
    with pytest.raises(QueueUnavailable):
        await ProviderWaits(nowhere).note_wait(JOB)
    with pytest.raises(QueueUnavailable):
        await ProviderWaits(nowhere).clear(JOB)
