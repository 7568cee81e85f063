"""Ends that no runner saw reach `abandoned`, durably (QU-31)."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Mapping

import pytest
from redis.asyncio import Redis

from kbsync.domain.states import JobState
from kbsync.queue import tending
from kbsync.queue.jobs import Completed
from kbsync.queue.operators import Action, QueueOperator
from kbsync.queue.queue import FleetQueue
from kbsync.queue.scripts import run_script
from kbsync.queue.tending import read_owed
from tests.queue.support import Recorder, a_request, a_worker, ask, claim, completed, exchange, running, until
from tests.queue.test_ends import ended

Told = tuple[str, str, Mapping[str, object] | None, str]


class Ledger:
    def __init__(self, failing: int = 0) -> None:
        self.told: list[Told] = []
        self.failing = failing

    async def __call__(self, job_id: str, kind: str, payload: Mapping[str, object] | None, reason: str) -> None:
        if self.failing:
            self.failing -= 1
            raise ConnectionError("the database is down")
        self.told.append((job_id, kind, payload, reason))


@pytest.mark.spec("QU-31")
async def test_each_kind_of_unseen_end_is_told_once_with_its_reason(
    queue: FleetQueue, operator: QueueOperator, url: str, redis: Redis
) -> None:
    ledger = Ledger()
    await queue.enqueue([a_request("stalled")])
    for number in range(4):
        await claim(queue, 1, f"t{number}")
        await redis.zadd("q:active", {"stalled": 1})
    await claim(queue, 1, "last")
    await queue.enqueue([a_request("cancelled"), a_request("removed"), a_request("drained")])
    await operator.act(Action.CANCEL, ["cancelled"])
    await operator.act(Action.REMOVE, ["removed"])
    await operator.drain()
    await queue.enqueue([a_request("unknown", kind="no-such-kind"), a_request("old", payload={"version": 99})])
    await redis.set("arq:job:pickled", pickle.dumps({"f": "unit"}))
    await redis.zadd("q", {"pickled": -5e15})
    async with running(a_worker(url, Recorder(), abandoned=ledger), a_worker(url, Recorder(), abandoned=ledger)):
        await until(lambda: len(ledger.told) == 7)
        await asyncio.sleep(0.3)
    assert sorted(ledger.told, key=lambda told: told[0]) == [
        ("cancelled", "unit", {"id": "cancelled"}, "cancelled"),
        ("drained", "unit", {"id": "drained"}, "drained"),
        ("old", "unit", {"version": 99}, "payload_refused"),
        ("pickled", "", None, "payload_refused"),
        ("removed", "unit", {"id": "removed"}, "removed"),
        ("stalled", "unit", {"id": "stalled"}, "stalled_too_often"),
        ("unknown", "no-such-kind", {"id": "unknown"}, "payload_refused"),
    ]
    assert await redis.exists("q:owed", "q:owing") == 0


@pytest.mark.spec("QU-21", "QU-31")
async def test_a_refused_payload_ends_failed_with_a_clear_error(queue: FleetQueue, url: str, redis: Redis) -> None:
    await queue.enqueue([a_request("old", payload={"version": 99}), a_request("unknown", kind="no-such-kind")])
    await redis.set("arq:job:pickled", pickle.dumps({"f": "unit"}))
    await redis.zadd("q", {"pickled": -5e15, "gone": -5e15})
    recorder = Recorder()
    async with running(a_worker(url, recorder)):
        messages = {}
        for job_id in ("old", "unknown", "pickled", "gone"):
            detail = await ended(queue, job_id)
            assert (detail.view.state, detail.view.reason) == (JobState.FAILED, "payload_refused")
            messages[job_id] = detail.result["message"]
    assert recorder.runs == []
    assert "version 99" in messages["old"]
    assert "no handler for kind 'no-such-kind'" in messages["unknown"]
    assert "pickled" in messages["pickled"]
    assert "missing" in messages["gone"]


@pytest.mark.spec("QU-31")
async def test_a_final_time_out_and_a_cancelled_run_are_told_as_their_handler_was_stopped(
    queue: FleetQueue, operator: QueueOperator, url: str
) -> None:
    ledger = Ledger()
    recorder = Recorder({"slow": lambda job: asyncio.sleep(30), "stop": lambda job: asyncio.sleep(30)})
    async with running(a_worker(url, recorder, abandoned=ledger, job_timeout_s=1.5, max_attempts=1)):
        await queue.enqueue([a_request("stop"), a_request("slow")])
        await until(lambda: len(recorder.runs) == 2)
        await operator.act(Action.CANCEL, ["stop"])
        await until(lambda: len(ledger.told) == 2)
    assert sorted((job_id, reason) for job_id, _, _, reason in ledger.told) == [
        ("slow", "timed_out"),
        ("stop", "cancelled"),
    ]


@pytest.mark.spec("QU-31")
async def test_an_end_is_told_again_until_the_ledger_takes_it(
    queue: FleetQueue, operator: QueueOperator, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tending, "OWED_AGAIN_MS", 100)
    await queue.enqueue([a_request("j")])
    await operator.act(Action.REMOVE, ["j"])
    ledger = Ledger(failing=3)
    async with running(a_worker(url, Recorder(), abandoned=ledger, lease_s=0.2)):
        await until(lambda: len(ledger.told) == 1)
    assert ledger.failing == 0


@pytest.mark.spec("QU-31")
async def test_what_a_dead_worker_took_is_offered_again(
    queue: FleetQueue, operator: QueueOperator, url: str, redis: Redis
) -> None:
    await queue.enqueue([a_request("j")])
    await operator.act(Action.REMOVE, ["j"])
    taken = await run_script(redis, "owed_take", queue.keys.all, [20, 150])
    assert isinstance(taken, list)
    assert len(taken) == 1
    ledger = Ledger()
    async with running(a_worker(url, Recorder(), abandoned=ledger, lease_s=0.2)):
        await until(lambda: len(ledger.told) == 1)
    assert await redis.exists("q:owed", "q:owing") == 0


@pytest.mark.spec("QU-31")
async def test_an_end_the_runner_saw_is_not_told(queue: FleetQueue, url: str, redis: Redis) -> None:
    ledger = Ledger()
    recorder = Recorder({"f": ValueError("x"), "c": Completed()})
    async with running(a_worker(url, recorder, abandoned=ledger, max_attempts=1)):
        await queue.enqueue([a_request("f"), a_request("c")])
        await ended(queue, "f")
        await ended(queue, "c")
    assert ledger.told == []
    assert await redis.exists("q:owed") == 0


@pytest.mark.spec("QU-31")
async def test_without_a_callback_owed_ends_stay_for_others(
    queue: FleetQueue, operator: QueueOperator, url: str, redis: Redis
) -> None:
    await queue.enqueue([a_request("j")])
    await operator.act(Action.REMOVE, ["j"])
    async with running(a_worker(url, Recorder(), lease_s=0.2)):
        await asyncio.sleep(0.2)
    assert await ask(redis, "LLEN", "q:owed") == 1


@pytest.mark.spec("QU-31", "QU-03")
async def test_an_edit_is_not_lost_when_its_job_stalls_out(queue: FleetQueue, redis: Redis) -> None:
    await queue.enqueue([a_request("j", payload={"v": 1})])
    for number in range(4):
        await claim(queue, 1, f"t{number}")
        if number == 3:
            await queue.enqueue([a_request("j", payload={"v": 2}, rerun=True)])
        await redis.zadd("q:active", {"j": 1})
    await claim(queue, 1, "last")
    assert await redis.exists("q:again", "q:meta", "q:owed") == 0
    detail = await queue.detail("j")
    assert detail is not None
    assert (detail.request, detail.view.state, detail.view.stalls) == ({"v": 2}, "active", 0)


@pytest.mark.parametrize("job_id", ["a|b|c", "9|x", "ü"])
def test_an_owed_entry_cannot_be_forged_by_an_id(job_id: str) -> None:
    entry = b"17|%d|removed|%s%s" % (len(job_id.encode()), job_id.encode(), b"[1]")
    assert read_owed(entry) == (job_id, "removed", b"[1]")


@pytest.mark.spec("QU-31")
async def test_a_finish_retold_after_a_lost_answer_is_told_once(queue: FleetQueue, redis: Redis) -> None:
    await queue.enqueue([a_request("j")])
    await claim(queue, 1)
    refused = ("j", "pt", ',1,"unit",1,2,3,1,"org-1",{"type":"payload_refused"},null]')
    await exchange(queue, 0, "x", 1000, refused)
    await exchange(queue, 0, "x", 1000, refused, completed("j"))
    assert await ask(redis, "LLEN", "q:owed") == 1
