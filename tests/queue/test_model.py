"""A model of a queue's states against the scripts, by random moves (RB-03)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from redis.asyncio import Redis

from kbsync.queue.operators import Action, QueueOperator
from kbsync.queue.queue import FleetQueue
from ops.embedded.redis import EmbeddedRedis
from tests.queue.support import a_request, exchange

T = TypeVar("T")
IDS = [f"j{number}" for number in range(6)]
ids = st.sampled_from(IDS)
MAX_STALLS = 3


class Job:
    """state: waiting, delayed, active, c, f or x."""

    def __init__(self, state: str) -> None:
        self.state = state
        self.token = ""
        self.again = False
        self.attempts = self.stalls = self.delays = 0


class QueueMachine(RuleBasedStateMachine):
    url = ""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.redis: Redis = Redis.from_url(self.url)
        self.run(self.redis.flushall())
        self.queue = FleetQueue(self.redis, "q")
        self.operator = QueueOperator(self.queue)
        self.jobs: dict[str, Job] = {}
        self.old_tokens: list[tuple[str, str]] = []
        self.number = 0
        self.paused = False
        self.max_active: int | None = None

    def run(self, answer: Awaitable[T]) -> T:
        return self.loop.run_until_complete(answer)

    def teardown(self) -> None:
        self.run(self.redis.connection_pool.disconnect())
        self.loop.close()

    def live(self, job_id: str) -> Job | None:
        job = self.jobs.get(job_id)
        return job if job and job.state in ("waiting", "delayed", "active") else None

    @rule(job_id=ids, rerun=st.booleans(), replace=st.booleans(), delayed=st.booleans())
    def enqueue(self, job_id: str, rerun: bool, replace: bool, delayed: bool) -> None:
        request = a_request(job_id, rerun=rerun, replace_finished=replace, delay_ms=60_000 if delayed else 0)
        (answer,) = self.run(self.queue.enqueue([request]))
        before = self.jobs.get(job_id)
        live = self.live(job_id)
        if live:
            again = rerun and live.state == "active"
            live.again = live.again or again
            assert (answer.outcome, answer.rerun) == ("already_queued", again)
            return
        if before and not replace:
            assert answer.outcome == "already_done"
            return
        assert answer.outcome == ("replaced" if before else "created")
        self.jobs[job_id] = Job("delayed" if delayed else "waiting")

    def _exchange(self, want: int, *finishes: tuple[str, str, str]) -> list[Any]:
        self.number += 1
        token = f"t{self.number}"
        reply = self.run(exchange(self.queue, want, token, 60_000, *finishes))
        claimed = [job_id.decode() for job_id in reply[4]]
        for job_id in claimed:
            job = self.jobs[job_id]
            assert job.state == "waiting"
            job.state, job.token = "active", token
        assert len(claimed) <= want
        active = sum(job.state == "active" for job in self.jobs.values())
        assert not claimed or (not self.paused and active <= (self.max_active or active))
        if not self.paused and self.max_active is None:
            waiting = sum(job.state == "waiting" for job in self.jobs.values())
            assert len(claimed) == want or waiting == 0
        return reply

    @rule(want=st.integers(0, 4))
    def claim(self, want: int) -> None:
        self._exchange(want)

    @rule(job_id=ids, letter=st.sampled_from("cfdrb"), want=st.integers(0, 2))
    def finish(self, job_id: str, letter: str, want: int) -> None:
        job = self.live(job_id)
        if job is None or job.state != "active":
            return
        value = {"d": "60000 {}", "r": "60000 {}", "b": ""}.get(
            letter, ',1,"unit",1,2,3,1,"org-1",{},[1,"org-1","unit",1,{}]]'
        )
        finish = (job_id, letter + job.token, value)
        self.old_tokens.append((job_id, job.token))
        if letter in "cf":
            fresh = Job("waiting" if job.again else letter)
            self.jobs[job_id] = fresh
        else:
            job.state = "waiting" if letter == "b" else "delayed"
            job.again = False
            job.delays += letter == "d"
            job.attempts += letter == "r"
        assert self._exchange(want, finish)[3] == b""

    @rule(letter=st.sampled_from("cfdrb"), data=st.data())
    def finish_late(self, letter: str, data: st.DataObject) -> None:
        stale = [(job_id, token) for job_id, token in self.old_tokens if getattr(self.jobs.get(job_id), "token", "") != token
                 or self.jobs[job_id].state != "active"]  # fmt: skip
        if stale:
            job_id, token = data.draw(st.sampled_from(stale))
            assert self._exchange(0, (job_id, letter + token, "5 {}"))[3] == b"1"

    @rule(job_id=ids)
    def lose_worker(self, job_id: str) -> None:
        job = self.live(job_id)
        if job is None or job.state != "active":
            return
        self.run(self.redis.zadd("q:active", {job_id: 1}))
        self.old_tokens.append((job_id, job.token))
        job.stalls += 1
        if job.stalls > MAX_STALLS:
            self.jobs[job_id] = Job("waiting" if job.again else "f")
        else:
            job.state, job.again = "waiting", False
        self._exchange(0)

    @rule(job_id=ids)
    def fall_due(self, job_id: str) -> None:
        job = self.live(job_id)
        if job and job.state == "delayed":
            self.run(self.redis.zadd("q", {job_id: 1}))
            job.state = "waiting"
            self._exchange(0)

    @rule(job_id=ids, action=st.sampled_from([Action.PROMOTE, Action.REMOVE, Action.RETRY]))
    def operate(self, job_id: str, action: Action) -> None:
        report = self.run(self.operator.act(action, [job_id]))
        job = self.jobs.get(job_id)
        state = job.state if job else "none"
        can = {Action.PROMOTE: ("delayed",), Action.REMOVE: ("waiting", "delayed", "c", "f"), Action.RETRY: ("c", "f")}[
            action
        ]
        assert report.done == (state in can)
        if state not in can:
            return
        if action is Action.REMOVE:
            del self.jobs[job_id]
        elif action is Action.PROMOTE and job:
            job.state = "waiting"
        else:
            self.jobs[job_id] = Job("waiting")

    @rule(paused=st.booleans(), most=st.sampled_from([None, 1, 3]))
    def configure(self, paused: bool, most: int | None) -> None:
        self.run(self.operator.pause() if paused else self.operator.resume())
        self.run(self.operator.set_max_active(most))
        self.paused, self.max_active = paused, most

    @invariant()
    def counts_agree(self) -> None:
        counts = self.run(self.queue.counts())
        states = [job.state for job in self.jobs.values()]
        shown = (counts.waiting, counts.delayed, counts.active, counts.completed, counts.failed)
        assert shown == tuple(states.count(state) for state in ("waiting", "delayed", "active", "c", "f"))

    @invariant()
    def keys_agree(self) -> None:
        pipe = self.redis.pipeline(transaction=False)
        for job_id in self.jobs:
            for prefix in ("job", "result", "in-progress"):
                pipe.exists(f"arq:{prefix}:{job_id}")
            pipe.hexists("q:again", job_id)
            pipe.hget("q:meta", job_id)
        found = self.run(pipe.execute())
        for at, job in enumerate(self.jobs.values()):
            request, record, token, again, meta = found[5 * at : 5 * at + 5]
            live = job.state in ("waiting", "delayed", "active")
            assert (request, record, token) == (live, not live, job.state == "active")
            assert again == job.again
            counts = tuple(int(n) for n in meta.removesuffix(b"{}").split(b",")) if meta else (0, 0, 0)
            assert counts == (job.attempts, job.stalls, job.delays)


@pytest.mark.spec("RB-03", "QU-02")
def test_a_queue_moves_as_its_model(redis_server: EmbeddedRedis) -> None:
    machine = type("Machine", (QueueMachine,), {"url": redis_server.url})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=20,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            database=None,
        ),
    )
