"""Each measurement of our own side once, small, on real servers and with the worker that ships: it counts what it says it
counts. How fast anything is, is for `make bench`."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import asyncpg
import pytest

from kbsync.library.principals import Role
from ops.bench import api_rate, crash, draining, enqueueing, io_jobs, memory, million, pick_up, resting, throttling
from ops.bench.contestants import Contestant
from ops.bench.machine import redis_7
from ops.bench.page_times import Browser, NoPage
from ops.bench.processes import Arena, NoReport, kbsync_up, new_token, redis_up
from ops.bench.table import Options
from ops.embedded.redis import EmbeddedRedis


def quiet(folder: Path) -> Options:
    return Options(folder, quick=True, rounds=1, say=lambda text: None)


@pytest.mark.spec("PF-01")
def test_a_drain_counts_every_job_of_one_process_and_of_two(place: Arena, us: Contestant) -> None:
    assert draining.drain(place, us, 300) > 0
    assert draining.drain(place, us, 600, processes=2) > 0


@pytest.mark.spec("PF-02")
def test_io_jobs_sleep_their_time_beside_a_loop_without_a_queue(place: Arena, us: Contestant) -> None:
    # 200 jobs of 50 ms on 100 slots last 0.1 s at least, whatever runs them: no one can be faster than 2,000 a second.
    assert 0 < draining.drain(place, us, 200, "sleep") <= 2_000
    assert 0 < io_jobs.no_queue(place, us, 200) <= 2_000


@pytest.mark.spec("PF-03")
def test_an_idle_worker_makes_under_two_calls_a_second(place: Arena, us: Contestant) -> None:
    seconds = 5
    calls = pick_up.idle_calls(place, us, seconds)
    assert 0 < calls.by_clients.total() < 2 * seconds
    assert "BLPOP" in calls.by_clients or "EVALSHA" in calls.by_clients


@pytest.mark.spec("PF-03")
def test_each_pick_up_is_from_its_own_call_to_its_own_first_line(place: Arena, us: Contestant) -> None:
    waits = pick_up.pick_ups(place, us, 20)
    assert 0 < waits.p50 <= waits.p99


@pytest.mark.spec("PF-04")
async def test_an_enqueue_is_one_round_trip(redis_server: EmbeddedRedis, redis: object) -> None:
    calls = await enqueueing.calls_of_singles(redis_server.url, 30)
    assert dict(calls.by_clients) == {"EVALSHA": 30}


@pytest.mark.spec("PF-04")
def test_bulk_and_single_enqueues_are_rates_of_all_their_jobs(place: Arena, us: Contestant) -> None:
    assert enqueueing.enqueue(place, us, "bulk", 2_500) > 0
    assert enqueueing.enqueue(place, us, "single", 20) > 0


@pytest.mark.spec("PF-05")
def test_every_request_of_the_load_is_accepted_and_owed(place: Arena) -> None:
    with (
        redis_up(place.folder) as server,
        kbsync_up(place.folder, "api", KBSYNC_DATABASE_URL=place.database_url, KBSYNC_REDIS_URL=server.url) as api,
    ):
        token = new_token(place.database_url, Role.PRODUCER)
        assert api_rate.load(api.port, token, calls=3, size=100, connections=2, first=1) > 0
        assert api_rate.load(api.port, token, calls=20, size=1, connections=8, first=1_000) > 0
        with pytest.raises(RuntimeError, match="401"):
            api_rate.load(api.port, "wrong", calls=1, size=1, connections=1, first=1)
    assert asyncio.run(_owed(place.database_url)) == 320


async def _owed(database_url: str) -> int:
    connection = await asyncpg.connect(database_url)
    count: int = await connection.fetchval("select count(*) from kbsync.unit_requests where ended_at is null")
    await connection.close()
    return count


@pytest.mark.spec("PF-06")
def test_a_waiting_and_a_kept_job_take_the_bytes_they_may_on_the_embedded_server(place: Arena) -> None:
    with redis_up(place.folder) as server:
        assert 200 < asyncio.run(memory.bytes_per_waiting(server.url, 10_000, 200)) <= 450
    with redis_up(place.folder) as server:
        assert 20 < memory.bytes_per_kept(place, server.url, 4_000) <= 300


@pytest.mark.spec("PF-06")
@pytest.mark.needs("redis-server")
def test_a_waiting_job_takes_the_bytes_it_may_on_redis_7(tmp_path: Path) -> None:
    with redis_up(tmp_path, redis_7()) as server:
        assert 200 < asyncio.run(memory.bytes_per_waiting(server.url, 50_000, 200)) <= 500


@pytest.mark.spec("PF-07")
def test_steps_keep_the_size_of_either_queue_and_are_timed(tmp_path: Path) -> None:
    with redis_up(tmp_path) as few, redis_up(tmp_path) as many:
        took = asyncio.run(million.rates([(few.url, 200), (many.url, 2_000)], 200, 3, quiet(tmp_path)))
    for by_what in took:
        assert {what: len(values) for what, values in by_what.items()} == {"a claim": 3, "an enqueue": 3, "a count": 3}


@pytest.mark.spec("PF-07")
def test_pages_are_timed_for_who_is_signed_in(place: Arena) -> None:
    with (
        redis_up(place.folder) as server,
        kbsync_up(place.folder, "api", KBSYNC_DATABASE_URL=place.database_url, KBSYNC_REDIS_URL=server.url) as api,
    ):
        took, missing = million.page_times([api.port], new_token(place.database_url, *Role), 2)
        stranger = Browser(api.port)
        with pytest.raises(NoPage):
            stranger.sign_in("wrong")
        stranger.close()
    assert missing == {}
    assert {page: len(values) for page, values in took[0].items()} == dict.fromkeys(million.PAGES, 2)


@pytest.mark.spec("PF-08", "RL-04")
def test_158_documents_wake_up_twice_at_most_and_a_delay_is_two_commands_at_most(place: Arena) -> None:
    with redis_up(place.folder) as server:
        went = asyncio.run(throttling._simulate_at(server.url))
    assert len(went.ran_ms) == 158
    assert max(went.takes.values()) <= 2
    assert went.busiest(throttling.FOUR_A_MINUTE) == 4
    cost = throttling.cost_of_delays(place, 158)
    assert cost.delays == 158 - 3  # the window holds four, and one job came before
    assert 1 < cost.per_delay <= 2


@pytest.mark.spec("PF-09")
def test_a_killed_workers_job_runs_elsewhere(place: Arena, us: Contestant) -> None:
    quick = replace(place, settings={"KBSYNC_LEASE_S": "1"})
    assert 0 < crash.recovery(quick, us, cut_s=20) < 20


@pytest.mark.spec("PF-09")
def test_a_job_that_does_not_come_back_is_cut_and_not_waited_for(place: Arena, us: Contestant) -> None:
    patient = replace(place, settings={"KBSYNC_LEASE_S": "600"})
    assert crash.recovery(patient, us, cut_s=0.5) == float("inf")


@pytest.mark.spec("PF-14")
def test_a_worker_weighs_the_same_after_more_jobs(place: Arena) -> None:
    weights = resting.weights_over_jobs(place, 500, 3, quiet(place.folder))
    assert len(weights) == 3
    assert weights[-1] / weights[0] <= resting.FLAT


def test_a_contestant_that_ends_or_says_nothing_is_no_figure(place: Arena, us: Contestant) -> None:
    broken = replace(us, command=["/bin/sh", "-c", "echo it broke >&2; exit 3"])
    with pytest.raises(NoReport, match="ended with 3: it broke"):
        draining.drain(place, broken, 10)
    silent = replace(us, command=["/bin/sh", "-c", "sleep 60"])
    with place.worker(silent, "none", "noop") as driver, pytest.raises(NoReport, match="said nothing for 0 s"):
        driver.next(0.1)
