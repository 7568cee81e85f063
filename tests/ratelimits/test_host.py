"""Politeness to hosts on a real Redis, in simulated time."""

from __future__ import annotations

import heapq
import time
from collections import Counter
from datetime import datetime

import pytest
from redis.asyncio import Redis

from kbsync.domain.errors import QueueUnavailable
from ops.embedded.process import free_port
from ratelimits.host import Entered, HostGate, polite_rate
from ratelimits.scope import HostScope
from ratelimits.throttle import ComeBackAt

HOST = HostScope("docs.example.org")
START = 1_790_000_000_000_000


def us(when: datetime) -> int:
    return round(when.timestamp() * 1_000_000)


class Crawl:
    """Jobs that enter, hold their slot for `hold_us` and leave, or sleep as told, in simulated time."""

    def __init__(self, gate: HostGate, *, per_second: float, at_once: int, hold_us: int) -> None:
        self.gate, self.per_second, self.at_once, self.hold_us = gate, per_second, at_once, hold_us
        self.entered: list[int] = []
        self.asked: Counter[str] = Counter()
        self.most_at_once = 0

    async def run(self, jobs: int, lateness_us: int = 0, start: int = START) -> None:
        inside = 0
        todo: list[tuple[int, int, str, str]] = [(start, n, f"job-{n}", "") for n in range(jobs)]
        heapq.heapify(todo)
        while todo:
            now, n, job, token = heapq.heappop(todo)
            if token:
                assert await self.gate.leave(HOST, token, now_us=now)
                inside -= 1
                continue
            self.asked[job] += 1
            answer = await self.gate.enter(HOST, self.per_second, self.at_once, job_id=job, now_us=now)
            if isinstance(answer, Entered):
                self.entered.append(now)
                inside += 1
                self.most_at_once = max(self.most_at_once, inside)
                heapq.heappush(todo, (now + self.hold_us, n, job, answer.token))
            else:
                assert us(answer.until) > now
                heapq.heappush(todo, (us(answer.until) + lateness_us, n, job, ""))

    @property
    def busiest_second(self) -> int:
        times = sorted(self.entered)
        return max(sum(1 for at in times if first <= at < first + 1_000_000) for first in times)


async def test_a_host_is_asked_ten_times_a_second_and_each_job_wakes_once(redis: Redis) -> None:
    crawl = Crawl(HostGate(redis), per_second=10, at_once=8, hold_us=50_000)
    await crawl.run(200)
    assert len(crawl.entered) == 200
    assert crawl.busiest_second <= 11  # one more by the slack of half an interval
    assert max(crawl.asked.values()) == 2
    assert 19.5 <= (max(crawl.entered) - START) / 1_000_000 <= 45


async def test_late_jobs_still_go_when_the_fleet_is_the_slow_one(redis: Redis) -> None:
    crawl = Crawl(HostGate(redis), per_second=10, at_once=8, hold_us=50_000)
    await crawl.run(100, lateness_us=3_000_000)
    assert len(crawl.entered) == 100
    assert crawl.busiest_second <= 11
    assert max(crawl.asked.values()) == 2


async def test_slow_pages_hold_no_more_than_eight_slots_and_wake_nobody_in_a_herd(redis: Redis) -> None:
    crawl = Crawl(HostGate(redis), per_second=10, at_once=8, hold_us=2_000_000)  # four pages a second at best
    await crawl.run(100)
    assert len(crawl.entered) == 100
    assert crawl.most_at_once == 8
    assert sum(crawl.asked.values()) <= 4 * 100


async def test_a_crawl_delay_is_kept(redis: Redis) -> None:
    crawl = Crawl(HostGate(redis), per_second=polite_rate(10, 5), at_once=8, hold_us=50_000)
    await crawl.run(12)
    gaps = [later - earlier for earlier, later in zip(crawl.entered, crawl.entered[1:], strict=False)]
    assert min(gaps) >= 4_750_000
    assert max(crawl.asked.values()) == 2


@pytest.mark.parametrize(
    ("delay", "rate"), [(None, 10), (0, 10), (-1, 10), (0.05, 10), (5, 0.2), (float("inf"), 10), (float("nan"), 10)]
)
def test_robots_make_it_slower_never_faster(delay: float | None, rate: float) -> None:
    assert polite_rate(10, delay) == rate


async def test_jobs_that_come_all_at_once_after_an_outage_keep_the_pace(redis: Redis) -> None:
    gate = HostGate(redis)
    for n in range(50):
        await gate.enter(HOST, 10, 8, job_id=f"job-{n}", now_us=START)
    crawl = Crawl(gate, per_second=10, at_once=100, hold_us=1_000)
    await crawl.run(50, start=START + 50_000_000)
    assert crawl.busiest_second <= 11


async def test_a_holder_that_dies_frees_its_slot_by_itself(redis: Redis) -> None:
    gate = HostGate(redis, lease_s=30)
    dead = await gate.enter(HOST, 1000, 1, job_id="dies", now_us=START)
    assert isinstance(dead, Entered)
    assert isinstance(await gate.enter(HOST, 1000, 1, job_id="b", now_us=START + 29_000_000), ComeBackAt)
    alive = await gate.enter(HOST, 1000, 1, job_id="b", now_us=START + 31_000_000)
    assert isinstance(alive, Entered)
    # The dead one may turn out to be slow only: it can't free what is another's now.
    assert not await gate.leave(HOST, dead.token, now_us=START + 31_000_000)
    assert isinstance(await gate.enter(HOST, 1000, 1, job_id="c", now_us=START + 32_000_000), ComeBackAt)


async def test_a_job_without_a_time_does_not_overtake_those_that_wait(redis: Redis) -> None:
    gate = HostGate(redis)
    assert isinstance(await gate.enter(HOST, 10, 8, job_id="a", now_us=START), Entered)
    waiting = await gate.enter(HOST, 10, 8, job_id="b", now_us=START)
    assert isinstance(waiting, ComeBackAt)
    assert await gate.enter(HOST, 10, 8, job_id="b", now_us=START + 1_000) == waiting
    assert isinstance(await gate.enter(HOST, 10, 8, job_id="new", now_us=us(waiting.until)), ComeBackAt)
    assert isinstance(await gate.enter(HOST, 10, 8, job_id="b", now_us=us(waiting.until)), Entered)


async def test_a_reserved_time_is_good_for_one_entry(redis: Redis) -> None:
    gate = HostGate(redis)
    for job in "abc":
        told = await gate.enter(HOST, 10, 8, job_id=job, now_us=START)
    assert isinstance(told, ComeBackAt)
    assert isinstance(await gate.enter(HOST, 10, 8, job_id="b", now_us=START + 100_000), Entered)
    # b again, a retry say: it has no time of its own now, and c's turn is next.
    assert isinstance(await gate.enter(HOST, 10, 8, job_id="b", now_us=us(told.until)), ComeBackAt)
    assert isinstance(await gate.enter(HOST, 10, 8, job_id="c", now_us=us(told.until)), Entered)


@pytest.mark.spec("RL-05")
async def test_a_busy_answer_closes_the_host_for_everybody(redis: Redis) -> None:
    gate = HostGate(redis)
    until = await gate.close(HOST, 120, "503, come back later", now_us=START)
    assert us(until) == START + 120_000_000
    assert await gate.close(HOST, 5, "429", now_us=START) == until
    told = [await gate.enter(HOST, 10, 8, job_id=f"job-{n}", now_us=START) for n in range(5)]
    dues = [answer.until for answer in told if isinstance(answer, ComeBackAt) and answer.closed]
    assert len(set(dues)) == 5
    assert min(dues) >= until
    assert isinstance(await gate.enter(HOST, 10, 8, job_id="job-0", now_us=us(dues[0])), Entered)


async def test_a_very_high_pace_costs_a_round_trip_and_no_wait(redis: Redis) -> None:
    gate = HostGate(redis)
    begun = time.perf_counter()
    for n in range(500):
        answer = await gate.enter(HOST, 100_000, 1_000, job_id=f"job-{n}")
        assert isinstance(answer, Entered)
        if n % 2:
            assert await gate.leave(HOST, answer.token)
    assert time.perf_counter() - begun < 5


async def test_hosts_know_nothing_of_each_other_and_their_keys_expire(redis: Redis) -> None:
    gate = HostGate(redis)
    for host in (HOST, HostScope("other.example.org")):
        assert isinstance(await gate.enter(host, 0.1, 1, job_id="a"), Entered)
        assert isinstance(await gate.enter(host, 0.1, 1, job_id="b"), ComeBackAt)
    for key in await redis.keys("*"):
        assert await redis.pttl(key) > 0


@pytest.mark.spec("RL-08")
async def test_without_redis_nobody_enters() -> None:
    nowhere: Redis = Redis.from_url(f"redis://127.0.0.1:{free_port()}/0")
    with pytest.raises(QueueUnavailable):
        await HostGate(nowhere).enter(HOST, job_id="a")
