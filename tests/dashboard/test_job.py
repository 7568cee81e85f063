"""A job's page: one sentence that is true, the timeline, live progress, the payload, the actions (OP-05, QU-19, QU-24)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kbsync.dashboard.job_life import bounded, payload_text, steps_of
from kbsync.dashboard.job_words import sentence_of
from kbsync.domain.requests import Priority
from kbsync.domain.states import JobState
from kbsync.library.principals import Role
from kbsync.queue.jobs import Completed, DelayJob, JobEnd, RunningJob, SkippedJob, Unrecoverable
from kbsync.queue.queue import FleetQueue
from kbsync.queue.views import JobDetail, JobView
from tests.dashboard.conftest import Dashboard, Person
from tests.dashboard.jobs import PAGE, QUEUE, failed, waiting
from tests.queue.support import Recorder, a_request, a_worker, ask, running, until

NOW = datetime(2026, 8, 25, 14, 0, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1000)


def job_page(job_id: str) -> str:
    return f"{PAGE}/job?id={job_id}"


async def is_in(queue: FleetQueue, job_id: str, state: JobState) -> bool:
    detail = await queue.detail(job_id)
    return detail is not None and detail.view.state is state


@asynccontextmanager
async def events(person: Person, path: str) -> AsyncIterator[asyncio.Queue[tuple[str, str]]]:
    """(block, html) as the stream of a page sends them."""
    found: asyncio.Queue[tuple[str, str]] = asyncio.Queue()

    async def read() -> None:
        async with person.http.get(person.url + path, headers={"Accept": "text/event-stream"}) as answer:
            assert answer.status == 200
            name, data = "", []
            async for raw in answer.content:
                line = raw.decode().rstrip("\r\n")
                if line.startswith("event: "):
                    name = line[7:]
                elif line.startswith("data: "):
                    data.append(line[6:])
                elif not line and data:
                    found.put_nowait((name, "\n".join(data)))
                    name, data = "", []

    reading = asyncio.create_task(read())
    try:
        yield found
    finally:
        reading.cancel()


async def block(found: asyncio.Queue[tuple[str, str]], name: str, text: str) -> str:
    """The first update of a block that holds `text`; the stream has 10 s for it."""
    async with asyncio.timeout(10):
        while True:
            which, html = await found.get()
            if which == name and text in html:
                return html


@pytest.mark.spec("QU-24", "OP-05")
async def test_progress_and_the_end_arrive_on_the_open_page(dashboard: Dashboard) -> None:
    queue = dashboard.fleet.queue(QUEUE)
    person = await dashboard.person(Role.VIEWER)
    go_on, end = asyncio.Event(), asyncio.Event()

    async def handler(job: RunningJob) -> JobEnd:
        await go_on.wait()
        job.progress(7, 20, "pages <b>of</b> the wiki")
        await end.wait()
        return Completed({"status": "done", "documents": 12})

    await queue.enqueue([a_request("kb-document-sync-1", kind="sync_document")])
    worker = a_worker(dashboard.runtime.settings.redis_url or "", {"sync_document": handler}, QUEUE)
    async with running(worker):
        await until(lambda: is_in(queue, "kb-document-sync-1", JobState.ACTIVE))
        async with events(person, job_page("kb-document-sync-1")) as found:
            await block(found, "head", "It runs now, attempt 1 of 3")
            go_on.set()
            html = await block(found, "head", "7 of 20")
            assert "pages &lt;b&gt;of&lt;/b&gt; the wiki" in html
            assert '<progress class="c-active" max="20" value="7"' in html
            end.set()
            await block(found, "head", "It ended well")
            await block(found, "about", "Documents")


@pytest.mark.spec("OP-05", "QU-19")
async def test_each_state_is_told_in_a_sentence_with_what_may_be_done(dashboard: Dashboard) -> None:
    queue = dashboard.fleet.queue(QUEUE)
    person = await dashboard.person(Role.OPERATOR, name="Priya")
    later = datetime.now(UTC) + timedelta(hours=1)
    ends = {
        "fails": [ValueError("odd <answer>"), ValueError("odd <answer>"), ValueError("odd <answer>")],
        "token": Unrecoverable("Notion refused the token (401)"),
        "delayed": DelayJob(later, "window of Notion document sync is full"),
        "skipped": SkippedJob({"status": "skipped", "reason": "paused"}),
        "done": Completed({"status": "record-missing", "what": "record"}),
    }
    await queue.enqueue([a_request(job_id, kind="sync_document", priority=Priority.URGENT) for job_id in ends])
    async with running(a_worker(dashboard.runtime.settings.redis_url or "", {"sync_document": Recorder(ends)}, QUEUE)):
        await until(lambda: is_in(queue, "fails", JobState.FAILED))
        await until(lambda: is_in(queue, "delayed", JobState.DELAYED))
        await until(lambda: is_in(queue, "done", JobState.COMPLETED))
    await waiting(queue, 1, head="waits-")

    async def shows(job_id: str, *texts: str, actions: tuple[str, ...]) -> None:
        status, text = await person.get(job_page(job_id))
        assert status == 200
        for one in texts:
            assert one in text, (job_id, one)
        offered = tuple(name for name in ("retry", "promote", "remove", "cancel") if f'id="do-{name}"' in text)
        assert offered == actions, job_id

    await shows(
        "fails",
        "odd &lt;answer&gt;. 3 attempts failed.",
        "Attempt 1 failed: ValueError",
        "Attempt 3",
        "Traceback",
        actions=("retry", "remove"),
    )
    await shows("token", "Notion refused the token (401). It ended after 1 of 3 attempts.", actions=("retry", "remove"))
    await shows(
        "delayed",
        "It goes on by itself at",
        "window of Notion document sync is full.",
        actions=("promote", "remove", "cancel"),
    )
    await shows("skipped", "the kill switch was on for its organization", actions=("retry", "remove"))
    await shows("done", "what it was asked for is no longer there", actions=("remove",))
    await shows("waits-1", "No worker serves its queue", actions=("remove", "cancel"))
    viewer = await dashboard.person(Role.VIEWER)
    assert 'id="do-retry"' not in (await viewer.get(job_page("fails")))[1]

    said = (await person.post(f"{PAGE}/jobs", do="retry", job="fails", back=job_page("fails")))[1]
    assert "1 job waits again" in said
    assert "It has been in line" in said
    twice = (await person.post(f"{PAGE}/jobs", do="retry", job="fails", back=job_page("fails")))[1]
    assert "Nothing was changed. Left alone: 1 in the queue already." in twice
    assert "1 job promoted" in (await person.post(f"{PAGE}/jobs", do="promote", job="delayed"))[1]
    assert "1 job cancelled" in (await person.post(f"{PAGE}/jobs", do="cancel", job="waits-1"))[1]
    assert await is_in(queue, "waits-1", JobState.CANCELLED)
    assert "1 job removed" in (await person.post(f"{PAGE}/jobs", do="remove", job="token"))[1]
    assert "No job was ticked" in (await person.post(f"{PAGE}/jobs", do="remove"))[1]
    assert "There is no action" in (await person.post(f"{PAGE}/jobs", do="drain", job="fails"))[1]
    acts = [(actor, action) for actor, action, _ in await dashboard.audit()]
    assert acts == [("Priya", f"queue.{act}") for act in ("retry", "retry", "promote", "cancel", "remove")]


@pytest.mark.spec("OP-05")
async def test_a_job_that_is_gone_has_an_honest_page(dashboard: Dashboard) -> None:
    queue = dashboard.fleet.queue(QUEUE)
    person = await dashboard.person()
    status, text = await person.get(job_page("never-was"))
    assert (status, "Ended jobs are kept for a day" in text) == (404, True)
    assert (await person.get(f"{PAGE}/job"))[0] == 404
    await failed(queue, 1)
    async with events(person, job_page("kb-document-sync-1")) as found:
        await block(found, "head", "Notion answered 502")
        await person.post(f"{PAGE}/jobs", do="remove", job="kb-document-sync-1")
        await block(found, "head", "There is no job of this id")


@pytest.mark.spec("OP-05", "OP-06")
async def test_only_admins_read_a_whole_payload(dashboard: Dashboard) -> None:
    queue = dashboard.fleet.queue(QUEUE)
    await queue.enqueue([a_request("big", kind="sync_document", payload={"text": "a" * 100_000 + "the end"})])
    operator, admin = await dashboard.person(Role.OPERATOR), await dashboard.person(Role.ADMIN)
    for person, path, whole in ((operator, "&raw=1", False), (admin, "", False), (admin, "&raw=1", True)):
        text = (await person.get(job_page("big") + path))[1]
        assert ("the end" in text) is whole
        assert len(text) < 60_000 or whole


async def test_a_job_of_any_id_can_be_opened_and_acted_on(dashboard: Dashboard) -> None:
    queue = dashboard.fleet.queue(QUEUE)
    person = await dashboard.person(Role.OPERATOR)
    for job_id, key in (("a%b/c?d&e#f+g", "a%25b%2Fc%3Fd%26e%23f%2Bg"), ("π–ß", "%CF%80%E2%80%93%C3%9F")):
        await queue.enqueue([a_request(job_id, kind="sync_document")])
        status, text = await person.get(job_page(key))
        assert (status, f'name="job" value="{key}"' in text) == (200, True)
        assert "1 job removed" in (await person.post(f"{PAGE}/jobs", do="remove", job=key))[1]
    await queue.redis.zadd(QUEUE, {b"\xff\xfe": -5e15})
    await queue.redis.set(b"arq:job:\xff\xfe", b'[1,"t","sync_document",1,{}]')
    assert (await person.get(job_page("%FF%FE")))[0] == 200
    assert "1 job removed" in (await person.post(f"{PAGE}/jobs", do="remove", job="%FF%FE"))[1]
    assert await ask(queue.redis, "ZCARD", QUEUE) == 0


# --- pure ----------------------------------------------------------------------------------------------------------


def view(state: JobState, **more: object) -> JobView:
    given: dict[str, object] = {"kind": "sync_document", "tenant": "org-1", "priority": Priority.NORMAL, **more}
    return JobView("j", state, **given)  # type: ignore[arg-type]


def test_a_life_adds_up_from_enqueued_to_ended() -> None:
    errors = [
        {"attempt": 1, "started": NOW_MS - 60_000, "ended": NOW_MS - 59_000, "type": "a.B", "message": "m"},
        {"attempt": 2, "started": NOW_MS - 10_000, "ended": NOW_MS - 9_000, "type": "a.B", "message": "m"},
    ]
    ended = view(JobState.FAILED, enqueued_ms=NOW_MS - 120_000, ended_ms=NOW_MS - 9_000, attempts=2, delays=1)
    steps = steps_of(JobDetail(ended, None, errors), NOW)
    assert [(step.text, step.took_ms) for step in steps] == [
        ("Enqueued, in line, delayed once", 60_000),
        ("Attempt 1 failed: B", 1_000),
        ("Waited before the next attempt", 49_000),
        ("Attempt 2 failed: B", 1_000),
    ]
    assert sum(step.took_ms or 0 for step in steps) == 111_000
    assert all(0 <= step.left <= 100 and 0 < step.width <= 100 for step in steps)
    active = view(JobState.ACTIVE, enqueued_ms=NOW_MS - 5_000, lease_ends_ms=NOW_MS + 5_000)
    assert steps_of(JobDetail(active, None), NOW)[-1].took_ms is None


def test_what_others_wrote_breaks_no_life() -> None:
    odd: list[Any] = [
        {"attempt": "x", "started": -5, "ended": None},
        "no error at all",
        {"type": 7, "message": ["m"]},
        None,
    ]
    assert steps_of(JobDetail(view(JobState.FAILED, enqueued_ms=5, ended_ms=30), None, odd), NOW) != []
    assert steps_of(JobDetail(view(JobState.FAILED, readable=False), None), NOW) == []


@pytest.mark.parametrize(
    ("lease_ends_ms", "paused", "says"),
    [(NOW_MS + 5_000, False, "It runs now, attempt 1 of 3."), (NOW_MS - 5_000, False, "Its worker is silent")],
)
def test_a_silent_worker_is_said(lease_ends_ms: int, paused: bool, says: str) -> None:
    detail = JobDetail(view(JobState.ACTIVE, lease_ends_ms=lease_ends_ms), None)
    assert says in sentence_of(detail, NOW, paused=paused, served=True)


def test_texts_are_cut_by_what_they_take_on_a_page() -> None:
    assert bounded("a" * 100, 100) == ("a" * 100, False)
    assert bounded("a" * 101, 100) == ("a" * 100, True)
    assert bounded("\u202e" * 100, 360) == ("\u202e" * 10, True)
    deep: object = 1
    for _ in range(400):
        deep = [deep, 1]
    began = time.monotonic()
    assert len(payload_text([deep] * 2_000, 10_000)) < 20_000
    assert time.monotonic() - began < 5  # indents alone would be gigabytes
