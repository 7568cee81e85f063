"""Provider throttles on a real Redis: in simulated time where hours pass, in windows of 0.6 s where clocks matter."""

from __future__ import annotations

import asyncio
import heapq
import time
from collections import Counter
from datetime import UTC, datetime

import pytest
from redis.asyncio import Redis

from kbsync.domain.errors import QueueUnavailable
from ops.embedded.process import free_port
from ops.embedded.redis import EmbeddedRedis
from ratelimits.limits import Limit, UnitKind
from ratelimits.scope import CLOSURES_KEY, INDEX_KEY, DataSourceScope, ThrottleScope
from ratelimits.throttle import Closure, ComeBackAt, Go, Throttle

NOTION = ThrottleScope("notion", UnitKind.DOCUMENT_SYNC, 7, 31)
FOUR_A_MINUTE = Limit(4, 60)
START_MS = 1_790_000_007_300  # some time inside a minute


def ms(when: datetime) -> int:
    return round(when.timestamp() * 1000)


class Fleet:
    """Jobs that take, sleep as told and take again, in simulated time; what happened is in `gone` and `takes`."""

    def __init__(self, throttle: Throttle, limit: Limit, scope: ThrottleScope = NOTION) -> None:
        self.throttle, self.limit, self.scope = throttle, limit, scope
        self.gone: list[int] = []
        self.takes: Counter[str] = Counter()

    async def run(self, arrivals: dict[str, int], lateness_ms: int = 0) -> None:
        due = [(at, number, job) for number, (job, at) in enumerate(arrivals.items())]
        heapq.heapify(due)
        while due:
            now, number, job = heapq.heappop(due)
            self.takes[job] += 1
            answer = await self.throttle.take(self.scope, self.limit, job, now_ms=now)
            if isinstance(answer, ComeBackAt):
                assert ms(answer.until) > now
                heapq.heappush(due, (ms(answer.until) + lateness_ms, number, job))
            else:
                self.gone.append(now)

    @property
    def busiest_window(self) -> int:
        return max(Counter(at // self.limit.window_ms for at in self.gone).values())


@pytest.mark.spec("RL-04", "RL-03", "PF-08")
async def test_158_documents_at_4_a_minute_all_go_with_two_takes_at_most(redis: Redis) -> None:
    fleet = Fleet(Throttle(redis), FOUR_A_MINUTE)
    await fleet.run({f"kb-document-sync-{n}": START_MS for n in range(158)})
    assert len(fleet.gone) == 158
    assert fleet.busiest_window == 4
    assert max(fleet.takes.values()) == 2
    assert sum(fleet.takes.values()) == 158 + 154  # the first four go at once
    assert max(fleet.gone) - START_MS < 40 * 60_000


@pytest.mark.spec("RL-04")
async def test_jobs_that_trickle_in_behind_a_backlog_get_a_slot_of_their_own(redis: Redis) -> None:
    fleet = Fleet(Throttle(redis), FOUR_A_MINUTE)
    await fleet.run({f"job-{n}": START_MS + n * 3_700 for n in range(100)}, lateness_ms=2_000)
    assert fleet.busiest_window == 4
    assert max(fleet.takes.values()) == 2


@pytest.mark.spec("RL-02")
async def test_two_clients_never_exceed_a_limit_together(redis: Redis, redis_server: EmbeddedRedis) -> None:
    limit = Limit(5, 0.6)
    scope = ThrottleScope("notion", UnitKind.SOURCE_SYNC, 7, 31)
    clients: list[Redis] = [Redis.from_url(redis_server.url) for _ in range(2)]
    gone: list[int] = []

    async def job(throttle: Throttle, name: str) -> None:
        while True:
            answer = await throttle.take(scope, limit, name)
            if isinstance(answer, Go):
                assert answer.at is not None
                gone.append(ms(answer.at))
                return
            await asyncio.sleep(max(0.0, answer.until.timestamp() - time.time()))

    throttles = [Throttle(client) for client in clients]
    await asyncio.gather(*(job(throttles[n % 2], f"job-{n}") for n in range(20)))
    assert len(gone) == 20
    assert max(Counter(at // 600 for at in gone).values()) <= 5
    for client in clients:
        await client.connection_pool.disconnect()


@pytest.mark.spec("RL-01")
@pytest.mark.parametrize(
    "other",
    [
        ThrottleScope("scribe", UnitKind.DOCUMENT_SYNC, 7, 31),
        ThrottleScope("notion", UnitKind.SOURCE_SYNC, 7, 31),
        ThrottleScope("notion", UnitKind.DOCUMENT_SYNC, 8, 31),
        ThrottleScope("notion", UnitKind.DOCUMENT_SYNC, 7, 32),
        ThrottleScope("notion", UnitKind.DOCUMENT_SYNC, 7, None),
    ],
)
async def test_only_the_same_four_parts_share_a_window(redis: Redis, other: ThrottleScope) -> None:
    throttle, one = Throttle(redis), Limit(1, 60)
    assert await throttle.take(NOTION, one, "a", now_ms=START_MS) == Go()
    assert isinstance(await throttle.take(NOTION, one, "b", now_ms=START_MS), ComeBackAt)
    assert await throttle.take(other, one, "b", now_ms=START_MS) == Go()


@pytest.mark.spec("RL-01")
async def test_keys_are_spelled_as_documented_and_expire_by_themselves(redis: Redis) -> None:
    throttle = Throttle(redis)
    for job in "ab":
        await throttle.take(NOTION, Limit(1, 60), job, now_ms=START_MS)
    await throttle.close(NOTION.data_source, 30, "429", now_ms=START_MS)
    window = START_MS // 60_000
    prefix = "kbsync:throttle:notion:document_sync:7:31:60000"
    expected = {
        f"{prefix}:{window}", f"{prefix}:{window + 1}", f"{prefix}:frontier", f"{prefix}:job:b",
        "kbsync:closed:notion:7:31", "kbsync:throttles", "kbsync:closures",
    }  # fmt: skip
    keys = {key.decode() for key in await redis.keys("*")}
    assert keys == expected
    for key in keys - {INDEX_KEY, CLOSURES_KEY}:
        assert 0 < await redis.pttl(key) <= 180_000


@pytest.mark.spec("RL-01")
async def test_windows_in_real_time_are_gone_after_they_ended(redis: Redis) -> None:
    throttle, limit = Throttle(redis), Limit(1, 0.05)
    for job in "ab":
        await throttle.take(NOTION, limit, job)
    async with asyncio.timeout(5):
        while set(await redis.keys("*")) - {INDEX_KEY.encode()}:
            await asyncio.sleep(0.02)  # Redis alone can end it
    await throttle.take(ThrottleScope("notion", UnitKind.SOURCE_SYNC, 7, 31), limit, "c")
    assert await redis.zcard(INDEX_KEY) == 1  # the next use drops what is over


@pytest.mark.spec("RL-02")
async def test_a_reservation_outlives_the_client_that_got_it(redis: Redis, redis_server: EmbeddedRedis) -> None:
    one = Limit(1, 60)
    await Throttle(redis).take(NOTION, one, "a", now_ms=START_MS)
    told = await Throttle(redis).take(NOTION, one, "b", now_ms=START_MS)
    assert isinstance(told, ComeBackAt)
    other: Redis = Redis.from_url(redis_server.url)
    assert await Throttle(other).take(NOTION, one, "b", now_ms=ms(told.until)) == Go()
    # The window is b's alone: it was counted when it was reserved, and only then.
    assert isinstance(await Throttle(other).take(NOTION, one, "c", now_ms=ms(told.until)), ComeBackAt)
    await other.connection_pool.disconnect()


@pytest.mark.spec("RL-02")
async def test_a_job_that_dies_with_its_slot_wastes_that_slot_only(redis: Redis) -> None:
    throttle, two = Throttle(redis), Limit(2, 60)
    await throttle.take(NOTION, two, "dies", now_ms=START_MS)
    assert await throttle.take(NOTION, two, "lives", now_ms=START_MS) == Go()
    again = await throttle.take(NOTION, two, "dies", now_ms=START_MS)
    assert isinstance(again, ComeBackAt)
    assert ms(again.until) // 60_000 == START_MS // 60_000 + 1


@pytest.mark.spec("RL-04")
async def test_asking_early_keeps_the_reservation_and_counts_nothing(redis: Redis) -> None:
    throttle, one = Throttle(redis), Limit(1, 60)
    await throttle.take(NOTION, one, "a", now_ms=START_MS)
    first = await throttle.take(NOTION, one, "b", now_ms=START_MS)
    assert await throttle.take(NOTION, one, "b", now_ms=START_MS + 10) == first
    third = await throttle.take(NOTION, one, "c", now_ms=START_MS + 10)
    assert isinstance(first, ComeBackAt)
    assert isinstance(third, ComeBackAt)
    assert ms(third.until) // 60_000 == ms(first.until) // 60_000 + 1


@pytest.mark.spec("RL-04")
async def test_after_an_outage_lapsed_jobs_start_again_within_the_limit(redis: Redis) -> None:
    fleet = Fleet(Throttle(redis), FOUR_A_MINUTE)
    jobs = [f"job-{n}" for n in range(40)]
    for job in jobs:  # the first four go and are not run again here
        await fleet.throttle.take(NOTION, FOUR_A_MINUTE, job, now_ms=START_MS)
    after_outage = START_MS + 3 * 3_600_000
    await fleet.run(dict.fromkeys(jobs[4:], after_outage))
    assert len(fleet.gone) == 36
    assert fleet.busiest_window == 4
    assert max(fleet.takes.values()) == 2


@pytest.mark.spec("RL-05")
async def test_a_stated_wait_closes_every_unit_kind_of_the_data_source_and_no_other(redis: Redis) -> None:
    throttle = Throttle(redis)
    until = await throttle.close(NOTION.data_source, 90, "429 from Notion: \n wait", now_ms=START_MS)
    assert ms(until) == START_MS + 90_000
    for kind in UnitKind:
        answer = await throttle.take(ThrottleScope("notion", kind, 7, 31), FOUR_A_MINUTE, "j", now_ms=START_MS)
        assert isinstance(answer, ComeBackAt)
        assert answer.closed
        assert answer.until >= until
        assert "429 from Notion: wait" in answer.reason
    other = ThrottleScope("notion", UnitKind.DOCUMENT_SYNC, 7, 32)
    assert await throttle.take(other, FOUR_A_MINUTE, "j", now_ms=START_MS) == Go()


@pytest.mark.spec("RL-05", "RL-04")
async def test_a_backlog_that_finds_it_closed_sleeps_once_and_is_spread_afterwards(redis: Redis) -> None:
    fleet = Fleet(Throttle(redis), FOUR_A_MINUTE)
    until = await fleet.throttle.close(NOTION.data_source, 1_000, "429", now_ms=START_MS)
    await fleet.run({f"job-{n}": START_MS for n in range(50)})
    assert min(fleet.gone) >= ms(until)
    assert fleet.busiest_window == 4
    assert max(fleet.takes.values()) == 2


@pytest.mark.spec("RL-05")
async def test_jobs_with_a_reservation_wait_for_a_closure_that_came_later(redis: Redis) -> None:
    fleet = Fleet(Throttle(redis), FOUR_A_MINUTE)
    for n in range(20):
        await fleet.throttle.take(NOTION, FOUR_A_MINUTE, f"job-{n}", now_ms=START_MS)
    until = await fleet.throttle.close(NOTION.data_source, 130, "429", now_ms=START_MS)
    await fleet.run({f"job-{n}": START_MS + 70_000 for n in range(4, 20)})
    assert min(fleet.gone) >= ms(until)
    assert fleet.busiest_window == 4
    assert max(fleet.takes.values()) <= 3


@pytest.mark.spec("RL-05")
async def test_a_shorter_wait_does_not_open_early(redis: Redis) -> None:
    throttle = Throttle(redis)
    long = await throttle.close(NOTION.data_source, 90, "quota", now_ms=START_MS)
    assert await throttle.close(NOTION.data_source, 5, "429", now_ms=START_MS) == long
    closed = await throttle.closed_until(NOTION.data_source)
    assert closed == (long, "quota")


@pytest.mark.spec("RL-05")
async def test_a_lifted_closure_does_not_hold_back_those_who_come_after(redis: Redis) -> None:
    throttle, one = Throttle(redis), Limit(1, 60)
    await throttle.close(NOTION.data_source, 86_400, "quota", now_ms=START_MS)
    await throttle.take(NOTION, one, "asleep", now_ms=START_MS)
    assert await throttle.reopen(NOTION.data_source)
    assert not await throttle.reopen(NOTION.data_source)
    assert await throttle.take(NOTION, one, "a", now_ms=START_MS) == Go()
    second = await throttle.take(NOTION, one, "b", now_ms=START_MS)
    assert isinstance(second, ComeBackAt)
    assert ms(second.until) < START_MS + 120_000


@pytest.mark.spec("RL-07")
async def test_a_limit_lowered_at_run_time_binds_jobs_that_already_hold_a_slot(redis: Redis) -> None:
    throttle = Throttle(redis)
    told = [await throttle.take(NOTION, FOUR_A_MINUTE, f"job-{n}", now_ms=START_MS) for n in range(8)]
    due = max(ms(answer.until) for answer in told if isinstance(answer, ComeBackAt))
    lower = Limit(1, 60)
    answers = [await throttle.take(NOTION, lower, f"job-{n}", now_ms=due) for n in range(4, 8)]
    assert answers.count(Go()) == 1


@pytest.mark.spec("RL-07")
async def test_a_limit_raised_at_run_time_is_used_at_once(redis: Redis) -> None:
    throttle, higher = Throttle(redis), Limit(40, 60)
    for n in range(40):
        await throttle.take(NOTION, FOUR_A_MINUTE, f"job-{n}", now_ms=START_MS)
    assert await throttle.take(NOTION, higher, "job-39", now_ms=START_MS) == Go()  # although its slot is far ahead
    gone = [await throttle.take(NOTION, higher, f"new-{n}", now_ms=START_MS) for n in range(36)]
    assert gone.count(Go()) == 35
    last = gone[-1]
    assert isinstance(last, ComeBackAt)
    assert ms(last.until) // 60_000 == START_MS // 60_000 + 1


@pytest.mark.spec("RL-07")
async def test_a_raised_limit_moves_a_job_that_asks_again_to_the_earliest_window_with_room(redis: Redis) -> None:
    throttle, higher = Throttle(redis), Limit(6, 60)
    for n in range(40):
        await throttle.take(NOTION, FOUR_A_MINUTE, f"job-{n}", now_ms=START_MS)
    assert [await throttle.take(NOTION, higher, f"job-{n}", now_ms=START_MS) for n in (36, 37)] == [Go(), Go()]
    moved = [await throttle.take(NOTION, higher, f"job-{n}", now_ms=START_MS) for n in (39, 38, 35)]
    dues = [ms(answer.until) for answer in moved if isinstance(answer, ComeBackAt)]
    assert [due // 60_000 - START_MS // 60_000 for due in dues] == [1, 1, 2]  # two more fit into each window
    assert [await throttle.take(NOTION, higher, f"job-{n}", now_ms=START_MS) for n in (39, 38, 35)] == moved
    window_they_held = f"{NOTION.key(60_000)}:{START_MS // 60_000 + 9}"
    pipe = redis.pipeline()
    pipe.hget(window_they_held, "n")
    (left,) = await pipe.execute()
    assert left == b"0"  # jobs 36 to 39 have left it
    for n, due in zip((39, 38, 35), dues, strict=True):
        assert await throttle.take(NOTION, higher, f"job-{n}", now_ms=due) == Go()


@pytest.mark.spec("RL-04", "RL-07")
async def test_a_job_that_goes_early_gives_its_reserved_slot_back(redis: Redis) -> None:
    throttle, one, two = Throttle(redis), Limit(1, 60), Limit(2, 60)
    await throttle.take(NOTION, one, "a", now_ms=START_MS)
    told = await throttle.take(NOTION, one, "b", now_ms=START_MS)
    assert isinstance(told, ComeBackAt)
    assert await throttle.take(NOTION, two, "b", now_ms=START_MS) == Go()
    assert await throttle.take(NOTION, one, "c", now_ms=ms(told.until)) == Go()


@pytest.mark.spec("RL-04")
async def test_the_slots_of_a_window_are_spread_over_it(redis: Redis) -> None:
    throttle = Throttle(redis)
    told = [await throttle.take(NOTION, FOUR_A_MINUTE, f"job-{n}", now_ms=START_MS) for n in range(8)]
    dues = [ms(answer.until) for answer in told if isinstance(answer, ComeBackAt)]
    window = (START_MS // 60_000 + 1) * 60_000
    assert [due - window for due in dues] == [3_000, 14_250, 25_500, 36_750]


@pytest.mark.spec("RL-07")
async def test_windows_show_used_limit_reserved_and_closed(redis: Redis) -> None:
    throttle = Throttle(redis)
    for n in range(15):
        await throttle.take(NOTION, FOUR_A_MINUTE, f"job-{n}", now_ms=START_MS)
    await throttle.take(ThrottleScope("a b:c", UnitKind.SOURCE_SYNC, 1, None), Limit(20, 1), "j", now_ms=START_MS)
    until = await throttle.close(NOTION.data_source, 90, "429", now_ms=START_MS)
    notion, other = await throttle.windows(now_ms=START_MS)
    assert (notion.scope, notion.used, notion.limit, notion.reserved) == (NOTION, 4, 4, 11)
    assert (notion.closed_until, notion.closed_reason, notion.window_s) == (until, "429", 60)
    assert notion.ends_at == datetime.fromtimestamp((START_MS // 60_000 + 1) * 60, UTC)
    assert (other.scope.provider, other.used, other.limit, other.closed_until) == ("a b:c", 1, 20, None)


@pytest.mark.spec("RL-07", "RL-05")
async def test_closures_are_listed_even_when_nobody_asks_for_a_slot(redis: Redis) -> None:
    throttle = Throttle(redis)
    assert await throttle.closures() == []
    odd = DataSourceScope("a b:c", 8, None)
    soon = await throttle.close(NOTION.data_source, 60, "429")
    late = await throttle.close(odd, 3_600, "quota spent")
    await throttle.close(DataSourceScope("scribe", 1, 1), 60, "429", now_ms=START_MS - 3_600_000)
    assert [each for each in await throttle.closures() if each.scope.provider != "scribe"] == [
        Closure(odd, late, "quota spent"),
        Closure(NOTION.data_source, soon, "429"),
    ]
    await throttle.reopen(odd)
    assert odd not in [each.scope for each in await throttle.closures()]


@pytest.mark.spec("RL-07")
async def test_many_scopes_are_listed_and_a_page_is_as_long_as_asked(redis: Redis) -> None:
    throttle = Throttle(redis)
    for n in range(300):
        await throttle.take(ThrottleScope("notion", UnitKind.DOCUMENT_SYNC, n, n), FOUR_A_MINUTE, "j", now_ms=START_MS)
    assert len(await throttle.windows(now_ms=START_MS)) == 300
    assert len(await throttle.windows(at_most=10, now_ms=START_MS)) == 10


@pytest.mark.spec("RL-07")
async def test_a_closed_scope_shows_what_is_reserved_behind_the_closure(redis: Redis) -> None:
    throttle = Throttle(redis)
    await throttle.close(NOTION.data_source, 30 * 86_400, "quota spent", now_ms=START_MS)
    for n in range(9):
        await throttle.take(NOTION, FOUR_A_MINUTE, f"job-{n}", now_ms=START_MS)
    (view,) = await throttle.windows(now_ms=START_MS)
    assert (view.used, view.reserved, view.limit) == (0, 9, 4)


@pytest.mark.spec("RL-08")
async def test_without_redis_a_take_says_so_and_grants_nothing() -> None:
    nowhere: Redis = Redis.from_url(f"redis://127.0.0.1:{free_port()}/0", socket_connect_timeout=0.2)
    throttle = Throttle(nowhere)
    with pytest.raises(QueueUnavailable):
        await throttle.take(NOTION, FOUR_A_MINUTE, "j")
    with pytest.raises(QueueUnavailable):
        await throttle.close(DataSourceScope("notion", 7, 31), 1, "429")
    with pytest.raises(QueueUnavailable):
        await throttle.windows()


@pytest.mark.spec("RL-08")
async def test_a_redis_that_refuses_to_write_grants_nothing(redis: Redis) -> None:
    throttle = Throttle(redis)
    await redis.config_set("maxmemory", "1")
    try:
        with pytest.raises(QueueUnavailable):
            await throttle.take(NOTION, FOUR_A_MINUTE, "j")
    finally:
        await redis.config_set("maxmemory", "0")
    assert await throttle.take(NOTION, FOUR_A_MINUTE, "j") == Go()


@pytest.mark.spec("RL-06")
async def test_a_throttled_tenant_leaves_another_ones_window_alone(redis: Redis) -> None:
    throttle = Throttle(redis)
    for n in range(100):
        await throttle.take(NOTION, FOUR_A_MINUTE, f"job-{n}", now_ms=START_MS)
    neighbour = ThrottleScope("notion", UnitKind.DOCUMENT_SYNC, 8, 40)
    assert await throttle.take(neighbour, FOUR_A_MINUTE, "job-0", now_ms=START_MS) == Go()
