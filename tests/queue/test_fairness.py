"""Start-time fair queueing and priorities, seen in the order of claims."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from kbsync.domain.requests import Priority
from kbsync.domain.states import JobState
from kbsync.queue.operators import Action, QueueOperator
from kbsync.queue.queue import FleetQueue
from kbsync.queue.views import JobFilter
from tests.queue.support import a_request, ask, claim, completed, exchange


async def fill(
    queue: FleetQueue, tenant: str, count: int, priority: Priority = Priority.NORMAL, start: int = 0
) -> None:
    for first in range(start, start + count, 1_000):
        last = min(first + 1_000, start + count)
        await queue.enqueue([a_request(f"{tenant}-{n}", tenant=tenant, priority=priority) for n in range(first, last)])


def tenants(ids: list[str]) -> list[str]:
    return [job_id.rsplit("-", 1)[0] for job_id in ids]


@pytest.mark.spec("QU-15")
async def test_a_newcomer_beside_a_hundred_thousand_is_claimed_after_at_most_one_more(queue: FleetQueue) -> None:
    await fill(queue, "big", 100_000)
    assert tenants(await claim(queue, 50, "a")) == ["big"] * 50
    await fill(queue, "small", 1)
    assert "small-0" in await claim(queue, 2, "b")


@pytest.mark.spec("QU-15")
async def test_waiting_tenants_share_evenly_and_each_is_first_in_first_out(queue: FleetQueue) -> None:
    for tenant, count in (("a", 300), ("b", 200), ("c", 100), ("d", 100)):
        await fill(queue, tenant, count)
    order = [job_id for number in range(16) for job_id in await claim(queue, 25, f"t{number}")]
    for tenant in "abcd":
        assert tenants(order).count(tenant) == 100
        assert [job_id for job_id in order if job_id.startswith(tenant)] == [f"{tenant}-{n}" for n in range(100)]
    for first in range(0, 400, 4):
        assert sorted(tenants(order[first : first + 4])) == ["a", "b", "c", "d"]


@pytest.mark.spec("QU-15")
async def test_an_old_job_is_not_starved_by_an_endless_stream_of_new_tenants(queue: FleetQueue) -> None:
    """Newcomers get their places in the order they came, however their ids are spelled."""
    await fill(queue, "t0", 2)
    await claim(queue, 1)
    await queue.enqueue([a_request("zzz-old", tenant="old")])
    waited = 0
    for number in range(200):
        await queue.enqueue([a_request(f"aaa{number}-{part}", tenant=f"n{number}-{part}") for part in range(3)])
        if "zzz-old" in await claim(queue, 1, f"c{number}"):
            break
        waited += 1
    assert waited <= 2


@pytest.mark.spec("QU-15")
async def test_a_returned_job_does_not_queue_behind_its_tenants_backlog(queue: FleetQueue) -> None:
    await fill(queue, "big", 1_000)
    assert await claim(queue, 1, "t") == ["big-0"]
    await exchange(queue, 0, "x", 1000, ("big-0", "dt", "0 {}"))
    assert "big-0" in await claim(queue, 2, "u")


@pytest.mark.spec("QU-15")
async def test_many_returned_jobs_do_not_starve_fresh_ones_nor_other_tenants(queue: FleetQueue) -> None:
    await fill(queue, "big", 400)
    taken = await claim(queue, 200, "t")
    await exchange(queue, 0, "x", 1000, *[(job_id, "dt", "0 {}") for job_id in taken[:100]])
    await exchange(queue, 0, "x", 1000, *[(job_id, "bt", "") for job_id in taken[100:]])
    await fill(queue, "small", 1)
    order = await claim(queue, 20, "u")
    assert "small-0" in order[:3]
    fresh = [job_id for job_id in order if job_id.startswith("big") and int(job_id.split("-")[1]) >= 200]
    assert 8 <= len(fresh) <= 11


@pytest.mark.spec("QU-15")
async def test_ten_thousand_one_job_tenants_at_once_are_all_claimed(queue: FleetQueue) -> None:
    for first in range(0, 10_000, 1_000):
        await queue.enqueue([a_request(f"j{n}", tenant=f"t{n}") for n in range(first, first + 1_000)])
    taken: list[str] = []
    while batch := await claim(queue, 500, f"c{len(taken)}"):
        taken += batch
    assert sorted(taken) == sorted(f"j{n}" for n in range(10_000))
    assert taken[:999] == [f"j{n}" for n in range(999)]  # a turn has 1,000 places: later ones share the last of them


@pytest.mark.spec("QU-15")
async def test_flows_leave_no_trace_once_their_jobs_are_claimed(queue: FleetQueue, redis: Redis) -> None:
    for number in range(500):
        await queue.enqueue([a_request(f"j{number}", tenant=f"t{number}")])
    await claim(queue, 500)
    await fill(queue, "last", 2)
    await claim(queue, 2, "u")
    assert await redis.zcard("q:tags") <= 2


@pytest.mark.spec("QU-15", "QU-16")
@pytest.mark.parametrize("urgent", [0, 2])
@pytest.mark.parametrize("normal", [0, 3])
@pytest.mark.parametrize("background", [0, 4])
async def test_one_claim_over_the_bands_takes_them_in_order_and_moves_each_ones_clock(
    queue: FleetQueue, redis: Redis, urgent: int, normal: int, background: int
) -> None:
    for tenant, priority, count in (
        ("b", Priority.BACKGROUND, background), ("n", Priority.NORMAL, normal), ("u", Priority.URGENT, urgent)
    ):  # fmt: skip
        await fill(queue, tenant, count, priority)
    everything = urgent + normal + background
    if not everything:
        return
    order = await claim(queue, everything + 5)
    assert tenants(order) == ["u"] * urgent + ["n"] * normal + ["b"] * background
    clocks = {name.decode(): int(value) for name, value in (await ask(redis, "HGETALL", "q:vt")).items()}
    for letter, band, count in (("0", -9e15, urgent), ("1", -6e15, normal), ("2", -3e15, background)):
        assert clocks.get(f"v{letter}", band) == (band + 1 + 1000 * (count - 1) if count else band)


@pytest.mark.spec("QU-16")
async def test_priority_comes_first_and_fairness_within_it(queue: FleetQueue) -> None:
    await fill(queue, "n", 5)
    await fill(queue, "u", 3, Priority.URGENT)
    await fill(queue, "v", 1, Priority.URGENT)
    order = await claim(queue, 9)
    assert sorted(order[:2]) == ["u-0", "v-0"]
    assert order[2:4] == ["u-1", "u-2"]
    assert tenants(order[4:]) == ["n"] * 5


@pytest.mark.spec("QU-16")
@pytest.mark.parametrize("sizes", [[1], [7], [19], [20], [50], [3, 50, 1, 19, 2]])
async def test_background_gets_one_in_any_twenty_claims(queue: FleetQueue, sizes: list[int]) -> None:
    await fill(queue, "busy", 700, Priority.URGENT)
    await fill(queue, "tick", 200, Priority.BACKGROUND)
    order: list[str] = []
    while len(order) < 700:
        batch = await claim(queue, sizes[len(order) % len(sizes)], f"c{len(order)}")
        await exchange(queue, 0, "x", 1000, *[completed(job_id, f"c{len(order)}") for job_id in batch])
        order += batch
    names = tenants(order)
    assert all("tick" in names[first : first + 20] for first in range(len(names) - 19))
    assert names.count("tick") <= len(names) // 20 + len(sizes)
    background = [job_id for job_id in order if job_id.startswith("tick")]
    assert background == [f"tick-{n}" for n in range(len(background))]


@pytest.mark.spec("QU-16")
async def test_background_alone_takes_every_claim_and_saves_up_no_credit(queue: FleetQueue) -> None:
    await fill(queue, "tick", 60, Priority.BACKGROUND)
    assert tenants(await claim(queue, 30, "a")) == ["tick"] * 30
    await fill(queue, "busy", 100, Priority.URGENT)
    assert tenants(await claim(queue, 19, "b")) == ["busy"] * 19
    assert tenants(await claim(queue, 1, "c")) == ["tick"]


@pytest.mark.spec("QU-15", "QU-16")
async def test_background_taken_out_of_turn_keeps_fairness_inside_the_band(queue: FleetQueue) -> None:
    await fill(queue, "busy", 500, Priority.URGENT)
    await fill(queue, "a", 50, Priority.BACKGROUND)
    await claim(queue, 100, "x")  # five of a's go out of turn
    await fill(queue, "b", 1, Priority.BACKGROUND)
    order = await claim(queue, 40, "y")
    assert "b-0" in order


@pytest.mark.spec("QU-15", "QU-19")
@pytest.mark.parametrize("how", ["bulk", "by id", "drain"])
async def test_a_tenant_whose_jobs_were_removed_does_not_wait_behind_turns_it_never_used(
    queue: FleetQueue, operator: QueueOperator, how: str
) -> None:
    await fill(queue, "gone", 500)
    await fill(queue, "other", 1_000)
    if how == "bulk":
        await operator.act_on_all(Action.REMOVE, JobState.WAITING, JobFilter(tenant="gone"))
    elif how == "by id":
        await operator.act(Action.REMOVE, [f"gone-{n}" for n in reversed(range(500))])
    else:
        await operator.drain()
        await fill(queue, "other", 1_000)
    await fill(queue, "gone", 1, start=900)
    assert "gone-900" in await claim(queue, 3)


@pytest.mark.spec("QU-15", "QU-19")
async def test_what_is_left_of_a_tenant_after_a_removal_keeps_its_order(
    queue: FleetQueue, operator: QueueOperator
) -> None:
    await fill(queue, "t", 20)
    await queue.enqueue([a_request("t-keep", tenant="t", kind="other")])
    await operator.act_on_all(Action.REMOVE, JobState.WAITING, JobFilter(kind="unit"))
    await fill(queue, "t", 2, start=50)
    assert await claim(queue, 5) == ["t-keep", "t-50", "t-51"]
