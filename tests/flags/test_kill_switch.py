"""The kill switch: fresh, cheap to ask, honest when it can't know, and audited."""

from __future__ import annotations

import asyncio
from datetime import date

import pytest

from kbsync.db.pool import Database
from kbsync.domain.errors import DatabaseUnavailable, FlagStoreUnavailable
from kbsync.flags.flipper_gates import FlipperGates
from kbsync.flags.flipper_tables import FlipperTables
from kbsync.flags.kill_switch import AUDIT_TARGET, PAUSE_FLAG, KillSwitch, Pause
from kbsync.flags.memory import MemoryFlags


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class SlowFlags(MemoryFlags):
    """Answers when `release` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.release = asyncio.Event()
        self.asked = asyncio.Event()

    async def snapshot(self, name: str) -> FlipperGates:
        self.asked.set()
        await self.release.wait()
        return await super().snapshot(name)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_the_flag_s_name_is_the_one_that_the_producer_app_reads() -> None:
    assert PAUSE_FLAG == "pause_api2_knowledge_base_sync"


@pytest.mark.spec("KS-01")
async def test_an_answer_is_at_most_a_second_old(database: Database, clock: Clock) -> None:
    flags = MemoryFlags()
    switch = KillSwitch(flags, database, clock=clock)
    assert not await switch.paused(7)
    await flags.set_boolean(PAUSE_FLAG, True)  # somebody else's change
    clock.now += 0.999
    assert not await switch.paused(7)
    assert flags.reads == 1
    clock.now += 0.001
    assert await switch.paused(7)
    assert flags.reads == 2


@pytest.mark.spec("KS-01")
async def test_many_askers_cost_one_read(database: Database, clock: Clock) -> None:
    flags = SlowFlags()
    switch = KillSwitch(flags, database, clock=clock)
    askers = [asyncio.create_task(switch.paused(n)) for n in range(100)]
    await flags.asked.wait()
    askers[0].cancel()  # the one that began the read
    await asyncio.sleep(0)
    flags.release.set()
    answers = await asyncio.gather(*askers, return_exceptions=True)
    assert isinstance(answers[0], asyncio.CancelledError)
    assert answers[1:] == [False] * 99
    assert flags.reads == 1


@pytest.mark.spec("KS-01")
async def test_the_age_of_an_answer_counts_from_when_it_was_asked_for(database: Database, clock: Clock) -> None:
    flags = SlowFlags()
    switch = KillSwitch(flags, database, clock=clock)
    asker = asyncio.create_task(switch.paused(7))
    await flags.asked.wait()
    clock.now += 0.9
    flags.release.set()
    assert not await asker
    clock.now += 0.1
    await switch.paused(7)
    assert flags.reads == 2


@pytest.mark.spec("KS-05", "KS-01")
async def test_an_answer_that_comes_too_late_is_no_answer(database: Database, clock: Clock) -> None:
    flags = SlowFlags()
    switch = KillSwitch(flags, database, clock=clock)
    asker = asyncio.create_task(switch.paused(7))
    await flags.asked.wait()
    clock.now += 1.1
    flags.release.set()
    with pytest.raises(FlagStoreUnavailable):
        await asker


@pytest.mark.spec("KS-05")
async def test_without_a_store_it_guesses_nothing_and_recovers_by_itself(database: Database, clock: Clock) -> None:
    flags = MemoryFlags()
    switch = KillSwitch(flags, database, clock=clock)
    assert not await switch.paused(7)
    flags.reachable = False
    clock.now += 0.5
    assert not await switch.paused(7)  # still fresh
    clock.now += 0.5
    for _ in range(2):
        with pytest.raises(FlagStoreUnavailable):
            await switch.paused(7)
    flags.reachable = True
    assert not await switch.paused(7)


@pytest.mark.spec("KS-06", "KS-04")
async def test_pause_and_resume_say_who_and_why(database: Database) -> None:
    switch = KillSwitch(FlipperTables(database), database)
    assert not await switch.paused(7)
    await switch.pause("human:ada", "Notion is on fire")
    assert await switch.paused(7)  # at once in the process that did it
    assert await switch.paused(None)
    state = await switch.describe()
    assert state.for_all is not None
    assert (state.for_all.who, state.for_all.why) == ("human:ada", "Notion is on fire")
    assert state.for_all.since is not None
    assert state.on
    await switch.resume("human:bo", "it is out")
    assert not await switch.paused(7)
    state = await switch.describe()
    assert not state.on
    assert (state.owner, state.review_by, state.overdue) == (
        "engineering",
        date(2026, 12, 8),
        date.today() > date(2026, 12, 8),
    )
    assert "rollback" in state.purpose
    async with database.direct() as connection:
        entries = await connection.fetch("select actor, action, target, reason from kbsync.audit_entries order by id")
        note = await connection.fetchrow("select changed_by, reason from kbsync.flag_notes")
    assert [tuple(entry) for entry in entries] == [
        ("human:ada", "kill_switch.pause", AUDIT_TARGET, "Notion is on fire"),
        ("human:bo", "kill_switch.resume", AUDIT_TARGET, "it is out"),
    ]
    assert note is not None
    assert tuple(note) == ("human:bo", "it is out")


@pytest.mark.spec("KS-06")
async def test_one_organization_can_be_paused_alone(database: Database) -> None:
    switch = KillSwitch(FlipperTables(database), database)
    await switch.pause("human:ada", "their import is wrong", organization_id=7)
    assert [await switch.paused(each) for each in (7, 8, None)] == [True, False, False]
    state = await switch.describe()
    assert state.for_all is None
    assert [(each.organization_id, each.who) for each in state.organizations] == [(7, "human:ada")]
    await switch.pause("human:ada", "everything is wrong")
    await switch.resume("human:ada", "they are fine", organization_id=7)
    assert await switch.paused(7)  # everybody is
    await switch.resume("human:ada", "all are fine")
    assert not await switch.paused(7)


@pytest.mark.spec("KS-06")
async def test_a_change_from_the_rails_console_is_shown_without_a_wrong_name(database: Database) -> None:
    flags = FlipperTables(database)
    switch = KillSwitch(flags, database)
    await switch.pause("human:ada", "a while ago")
    await switch.resume("human:ada", "over")
    await flags.set_boolean(PAUSE_FLAG, True)
    await flags.set_actor(PAUSE_FLAG, 9, True)
    state = await switch.describe()
    assert state.for_all == Pause(None, None, None, None)
    assert state.organizations == (Pause(9, None, None, None),)


@pytest.mark.spec("KS-06")
async def test_a_flag_past_its_review_date_is_overdue(database: Database) -> None:
    switch = KillSwitch(FlipperTables(database), database)
    for review_by, overdue in ((date(2020, 1, 1), True), (date(2999, 1, 1), False)):
        async with database.direct() as connection:
            await connection.execute("update kbsync.flag_notes set review_by = $1", review_by)
        assert (await switch.describe()).overdue is overdue


class RefusingFlags(MemoryFlags):
    """Goes away between the note and the flag."""

    async def set_boolean(self, name: str, on: bool, *, within: object = None) -> None:
        raise FlagStoreUnavailable("gone")


@pytest.mark.spec("KS-06")
async def test_a_flag_that_could_not_be_set_leaves_no_entry(database: Database) -> None:
    with pytest.raises(FlagStoreUnavailable):
        await KillSwitch(RefusingFlags(), database).pause("human:ada", "why")
    async with database.direct() as connection:
        assert await connection.fetchval("select count(*) from kbsync.audit_entries") == 0
        assert await connection.fetchval("select changed_by from kbsync.flag_notes") is None


@pytest.mark.spec("KS-04")
async def test_flag_note_and_entry_are_one_transaction(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    flags = FlipperTables(database)
    switch = KillSwitch(flags, database)
    set_boolean = flags.set_boolean

    async def set_and_lose_the_server(name: str, on: bool, *, within: object = None) -> None:
        await set_boolean(name, on, within=within)  # type: ignore[arg-type]  # handed on as it came
        raise DatabaseUnavailable("gone before the commit")

    monkeypatch.setattr(flags, "set_boolean", set_and_lose_the_server)
    with pytest.raises(FlagStoreUnavailable):
        await switch.pause("human:ada", "why")
    assert not await switch.paused(7)


async def test_asking_about_people_does_not_read_the_whole_audit(database: Database) -> None:
    async with database.direct() as connection:
        await connection.execute(
            "insert into kbsync.audit_entries (actor, action, target) select 'x', 'y', 'z' from generate_series(1, 20000)"
        )
        await connection.execute("analyze kbsync.audit_entries")
        plan = await connection.fetch(
            "explain select action from kbsync.audit_entries where target = $1"
            " and coalesce(organization_id, 0) = coalesce($2::bigint, 0) order by id desc limit 1",
            AUDIT_TARGET,
            None,
        )
    assert "audit_entries_by_target" in "\n".join(row[0] for row in plan)
