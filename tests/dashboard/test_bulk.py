"""Actions over everything that matches: whole, once, in batches, whoever dies meanwhile (QU-19; F03, F04)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any

import pytest

from kbsync.dashboard.bulk import BulkRunner, start_cursor
from kbsync.domain.states import JobState
from kbsync.library import bulk_actions
from kbsync.library.bulk_actions import BulkAction, BulkAsk
from kbsync.library.principals import Role
from kbsync.queue.queue import FleetQueue
from tests.dashboard.conftest import Dashboard, Person
from tests.dashboard.jobs import PAGE, QUEUE, failed, kept, stored, waiting
from tests.queue.support import a_request, ask, claim, until


class Killed(BaseException):
    """What a process feels of kill -9: nothing after it runs."""


async def settled(dashboard: Dashboard, action_id: int) -> BulkAction:
    """The action, once it is finished."""

    async def find() -> BulkAction | None:
        async with dashboard.runtime.database.fleet() as connection:
            return await bulk_actions.find(connection, QUEUE, action_id)

    async def is_finished() -> bool:
        found = await find()
        return found is not None and found.finished_at is not None

    await until(is_finished)
    found = await find()
    assert found is not None
    return found


async def asked_for(person: Person, **form: str) -> int:
    """Posts it and answers its id, from the page it leads to."""
    answer = await person.raw(
        "POST", f"{PAGE}/bulk", data={"csrf": person.csrf, **form}, headers={"Origin": person.url}
    )  # fmt: skip
    assert answer.status == 303, await answer.text()
    return int(answer.headers["Location"].rsplit("/", 1)[1])


async def unfinished(dashboard: Dashboard, asked: BulkAsk) -> int:
    """Asked for, but by nobody that would wake the runner; the test runs it itself."""
    async with dashboard.runtime.database.fleet() as connection:
        action_id, _ = await bulk_actions.ask_for(connection, asked)
        await connection.execute(
            "update kbsync.bulk_actions set held_until = now() + interval '1 hour', holder = 'test'"
        )
    return action_id


async def free(dashboard: Dashboard) -> None:
    """The holder's time is up; the runner of the served dashboard is kept from it."""
    async with dashboard.runtime.database.fleet() as connection:
        await connection.execute("update kbsync.bulk_actions set held_until = now() - interval '1 s'")


def ask_of(action: str, state: str, **more: Any) -> BulkAsk:
    return BulkAsk(QUEUE, action, state, "somebody", **more)


async def claim_all(queue: FleetQueue, many: int) -> list[str]:
    found: list[str] = []
    while len(found) < many:
        claimed = await claim(queue, min(100, many - len(found)))
        assert claimed, "there was less to claim"
        found += claimed
    return found


def queue_of(dashboard: Dashboard) -> FleetQueue:
    return dashboard.fleet.queue(QUEUE)


@pytest.mark.spec("QU-19", "OP-06")
async def test_retry_all_of_500_with_four_broken_ones_from_two_browsers(dashboard: Dashboard) -> None:
    """F04: per item, once, with reasons for what is left alone."""
    queue = queue_of(dashboard)
    ids = await failed(queue, 499)
    await kept(queue, "f", [stored("of-an-unknown-type", "mystery")], kind="mystery")
    await queue.redis.set(f"arq:result:{ids[7]}", b'["f","1-1",undecodable')
    await queue.enqueue([a_request(ids[9], kind="sync_document", payload={"type": "sync_document"})])  # waits again
    one, two = await dashboard.person(Role.OPERATOR, name="One"), await dashboard.person(Role.OPERATOR, name="Two")

    status, text = await one.get(f"{PAGE}/bulk?do=retry&state=failed")
    assert (status, "Retry 499 jobs" in text) == (200, True)
    first, second = await asyncio.gather(
        asked_for(one, do="retry", state="failed", expected="499"),
        asked_for(two, do="retry", state="failed", expected="499"),
    )
    reports = [await settled(dashboard, action_id) for action_id in {first, second}]
    reasons = {
        "no ended job that can be read": 1,
        "its kind is unknown to this version; it would fail again at once": 1,
    }
    assert sum(report.tally.done for report in reports) == 497
    assert all(report.tally.matched == report.tally.done + sum(report.tally.refused.values()) for report in reports)
    assert reports[0].tally.refused == reasons
    assert {job_id for job_id, _ in reports[0].tally.examples} == {ids[7], "of-an-unknown-type"}

    counts = await queue.counts()
    assert (counts.waiting, counts.failed) == (498, 2)
    claimed = await claim_all(queue, 498)
    assert len(claimed) == len(set(claimed)) == 498
    assert set(claimed) == set(ids) - {ids[7]}
    text = (await one.get(f"{PAGE}/bulk/{first}"))[1]
    assert all(reason in text for reason in reasons)

    third = await settled(dashboard, await asked_for(one, do="retry", state="failed"))
    assert (third.tally.done, third.tally.refused) == (0, reasons)
    entries = await dashboard.audit("queue.retry")
    assert {entry[0] for entry in entries} <= {"One", "Two"}
    assert len(entries) == len({first, second}) + 1


@pytest.mark.spec("QU-19")
async def test_a_filtered_action_takes_what_the_confirmation_counted(dashboard: Dashboard) -> None:
    queue = queue_of(dashboard)
    await failed(queue, 30, head="a-", error="quota of 429")
    await failed(queue, 20, head="b-", error="took too long")
    person = await dashboard.person(Role.OPERATOR)
    text = (await person.get(f"{PAGE}/bulk?do=remove&state=failed&error=429"))[1]
    assert "Remove 30 jobs" in text
    form = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', text))
    form.pop("csrf")
    done = await settled(dashboard, await asked_for(person, **form))
    assert (done.tally.matched, done.tally.done, done.asked.expected) == (30, 30, 30)
    assert (await queue.counts()).failed == 20


@pytest.mark.spec("QU-19")
@pytest.mark.parametrize(
    ("do", "state", "left"),
    [("drain", "waiting", (0, 40)), ("promote", "delayed", (290, 0)), ("cancel", "delayed", (250, 0))],
)
async def test_every_action_over_live_jobs(dashboard: Dashboard, do: str, state: str, left: tuple[int, int]) -> None:
    queue = queue_of(dashboard)
    await waiting(queue, 250)
    await waiting(queue, 40, head="later-", delay_ms=3_600_000)
    person = await dashboard.person(Role.OPERATOR)
    report = await settled(dashboard, await asked_for(person, do=do, state=state))
    counts = await queue.counts()
    assert (counts.waiting, counts.delayed) == left
    assert report.tally.matched == report.tally.done == (250 if state == "waiting" else 40)
    again = await settled(dashboard, await asked_for(person, do=do, state=state))
    assert again.tally.matched == 0


@pytest.mark.spec("QU-19")
async def test_a_job_that_fails_after_the_asking_is_left_alone(dashboard: Dashboard) -> None:
    queue = queue_of(dashboard)
    await failed(queue, 5, head="old-")
    cursor = await start_cursor(queue, JobState.FAILED)
    action_id = await unfinished(dashboard, ask_of("retry", "failed", cursor=cursor))
    await failed(queue, 3, head="new-")
    await free(dashboard)
    report = await settled(dashboard, action_id)
    assert (report.tally.matched, (await queue.counts()).failed) == (5, 3)


@pytest.mark.spec("QU-19")
@pytest.mark.parametrize("dies_at", [1, 2, 3, 4])
@pytest.mark.parametrize(("do", "state"), [("retry", "failed"), ("remove", "waiting"), ("cancel", "active")])
async def test_who_takes_over_from_a_dead_process_goes_on_and_counts_add_up(
    dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch, dies_at: int, do: str, state: str
) -> None:
    """The process dies at its n-th note, the batch before it done and not counted."""
    queue = queue_of(dashboard)
    many = 350 if state != "waiting" else 900
    if state == "failed":
        ids = await failed(queue, many)
        await queue.redis.set(f"arq:result:{ids[340]}", b"[undecodable")  # among the first: newest first
    else:
        await waiting(queue, many)
        if state == "active":
            await claim_all(queue, many)
    action_id = await unfinished(dashboard, ask_of(do, state))

    notes = 0
    real = bulk_actions.note_progress

    async def dying(*arguments: Any) -> bool:
        nonlocal notes
        notes += 1
        if notes == dies_at:
            raise Killed
        return await real(*arguments)

    runner = BulkRunner(dashboard.runtime.database, dashboard.fleet)
    monkeypatch.setattr(bulk_actions, "note_progress", dying)
    monkeypatch.setattr(bulk_actions, "take_next", _taking(action_id))
    try:
        await runner.run_next()
    except Killed:
        assert notes == dies_at
    else:
        assert notes < dies_at, "it was done before it could die"
    monkeypatch.undo()

    await free(dashboard)
    report = await settled(dashboard, action_id)
    refused = 1 if state == "failed" else 0
    assert (report.tally.matched, report.tally.done) == (many, many - refused)
    assert sum(report.tally.refused.values()) == refused
    counts = await queue.counts()
    if do == "retry":
        assert (counts.failed, counts.waiting) == (1, many - 1)
    elif do == "remove":
        assert (counts.waiting, await ask(queue.redis, "LLEN", f"{QUEUE}:owed")) == (0, many)
    else:
        assert await ask(queue.redis, "HLEN", f"{QUEUE}:stop") == many


def _taking(action_id: int) -> Any:
    """The test's own runner takes this action, whoever else looks for one."""

    async def take(connection: Any, holder: str) -> BulkAction | None:
        await connection.execute("update kbsync.bulk_actions set holder = $2 where id = $1", action_id, holder)
        return await bulk_actions.find(connection, QUEUE, action_id)

    return take


@pytest.mark.spec("QU-19")
async def test_who_lost_the_action_does_not_one_job_more(dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = queue_of(dashboard)
    await failed(queue, 350)
    action_id = await unfinished(dashboard, ask_of("retry", "failed"))
    real = bulk_actions.note_progress

    async def lost(connection: Any, action: int, holder: str, *rest: Any) -> bool:
        noted = await real(connection, action, holder, *rest)
        await connection.execute("update kbsync.bulk_actions set holder = 'another'")
        return noted

    monkeypatch.setattr(bulk_actions, "note_progress", lost)
    monkeypatch.setattr(bulk_actions, "take_next", _taking(action_id))
    await BulkRunner(dashboard.runtime.database, dashboard.fleet).run_next()
    monkeypatch.undo()
    assert (await queue.counts()).waiting == 100  # the one batch that it had noted
    await free(dashboard)
    report = await settled(dashboard, action_id)
    assert (report.tally.matched, report.tally.done) == (350, 350)


@pytest.mark.spec("QU-19", "OP-11")
async def test_a_process_that_stops_lets_go_between_two_batches(
    dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = queue_of(dashboard)
    await failed(queue, 350)
    action_id = await unfinished(dashboard, ask_of("retry", "failed"))
    runner = BulkRunner(dashboard.runtime.database, dashboard.fleet)
    noted: list[Sequence[bytes]] = []
    real = bulk_actions.note_progress

    async def stopping(*arguments: Any) -> bool:
        runner.stopping = len(noted) == 1
        noted.append(arguments[-1])
        return await real(*arguments)

    monkeypatch.setattr(bulk_actions, "note_progress", stopping)
    monkeypatch.setattr(bulk_actions, "take_next", _taking(action_id))
    await runner.run_next()
    monkeypatch.undo()
    report = await settled(dashboard, action_id)  # the served dashboard takes it up at once: it was let go
    assert (report.tally.matched, report.tally.done) == (350, 350)


@pytest.mark.spec("OP-06")
async def test_a_viewer_starts_nothing(dashboard: Dashboard) -> None:
    viewer = await dashboard.person(Role.VIEWER)
    await failed(queue_of(dashboard), 3)
    assert (await viewer.get(f"{PAGE}/bulk?do=retry&state=failed"))[0] == 403
    for path, form in (
        ("bulk", {"do": "retry", "state": "failed"}),
        ("jobs", {"do": "retry", "job": "kb-document-sync-1"}),
        ("pause", {"why": "because"}),
        ("resume", {}),
        ("limits", {"max_active": "1"}),
    ):
        assert (await viewer.post(f"{PAGE}/{path}", form))[0] == 403, path
    counts = await queue_of(dashboard).counts()
    assert (counts.failed, counts.paused) == (3, False)
    assert await dashboard.audit() == []


@pytest.mark.parametrize(
    ("do", "state"),
    [("retry", "waiting"), ("retry", "completed"), ("drain", "failed"), ("x", "failed"), ("retry", "x")],
)
async def test_what_makes_no_sense_is_refused(dashboard: Dashboard, do: str, state: str) -> None:
    person = await dashboard.person(Role.OPERATOR)
    status, text = await person.post(f"{PAGE}/bulk", do=do, state=state)
    assert (status, "Nothing was done" in text) == (200, True)
    async with dashboard.runtime.database.fleet() as connection:
        assert await bulk_actions.latest(connection, QUEUE) == []
    assert (await person.get(f"{PAGE}/bulk/1"))[0] == 404
