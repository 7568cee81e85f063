"""`/queues` and `/queues/{queue}`: true, bounded, safe with hostile data, and what can be done there
(OP-05, QU-13, QU-18, PF-07; F01, F03, F05)."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from redis.asyncio import Redis

from kbsync.domain.states import ENDED_JOB_STATES, JobState
from kbsync.library.principals import Role
from kbsync.queue.operators import Action, QueueOperator
from kbsync.queue.queue import FleetQueue
from tests.dashboard.conftest import Dashboard, Person
from tests.dashboard.jobs import PAGE, QUEUE, document_requests, failed, kept, stored, waiting
from tests.queue.support import a_worker, ask, claim, running, until

MOST_COMMANDS = 60
MOST_BYTES = 1_000_000
MARKUP = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'</title></textarea>"
HOSTILE = f"{MARKUP}\u202e\u0007\ud800\U000e0001"


@dataclass
class Commands:
    """What a Redis was asked meanwhile: by clients, and by scripts."""

    sent: list[str] = field(default_factory=list)
    inside: int = 0


@asynccontextmanager
async def commands(redis: Redis) -> AsyncIterator[Commands]:
    found = Commands()
    ready = asyncio.Event()

    async def watch() -> None:
        async with redis.monitor() as monitor:
            ready.set()
            while (command := await monitor.next_command())["command"] != "ECHO the end":
                if command["client_type"] == "lua":
                    found.inside += 1
                else:
                    found.sent.append(command["command"].split(" ", 1)[0])

    watching = asyncio.create_task(watch())
    await ready.wait()
    yield found
    await ask(redis, "ECHO", "the end")
    await watching


def rows_in(text: str) -> list[str]:
    """The ticked values of the rows that a page shows."""
    return re.findall(r'<input type="checkbox" name="job" value="([^"]+)"', text)


def tabs_in(text: str) -> dict[str, int]:
    """The counts that a page says, by state."""
    found = re.findall(r'href="[^"]*\?state=(\w+)[^"]*" class="c-\w+"[^>]*>.*?<b>(.*?)</b></a>', text)
    return {state: int(re.sub(r"<[^>]+>|,", "", many)) for state, many in found}


def next_in(text: str) -> str | None:
    found = re.search(r'<a class="button small" href="([^"]+)">(?:Next|Older)</a>', text)
    return found[1].replace("&amp;", "&") if found else None


@pytest.mark.spec("OP-05")
async def test_the_list_of_queues_says_how_each_stands(dashboard: Dashboard) -> None:
    queue = dashboard.fleet.queue(QUEUE)
    await failed(queue, 2)
    await waiting(queue, 3, head="w-", delay_ms=3_600_000)
    await QueueOperator(queue).set_max_active(8)
    person = await dashboard.person(Role.VIEWER)
    async with running(a_worker(dashboard.runtime.settings.redis_url or "", {}, QUEUE, concurrency=5)):

        async def beats() -> bool:
            return bool(await queue.workers())

        await until(beats)
        status, text = await person.get("/queues")
    assert status == 200
    assert "at most 8 at once" in text
    assert "knowledge-base-chunks" in text
    assert "2 jobs failed for good" in text
    assert "You can look; operators can act." in text


@pytest.mark.spec("OP-05", "QU-18")
async def test_every_state_has_its_rows_its_filters_and_its_next_page(dashboard: Dashboard) -> None:
    queue = dashboard.fleet.queue(QUEUE)
    ids = await failed(queue, 90, error="quota of 429 spent")
    await failed(queue, 3, head="other-", error="took too long", tenant="org-7")
    await waiting(queue, 90, head="w-")
    person = await dashboard.person()
    seen: list[str] = []
    path: str | None = f"{PAGE}?state=failed&error=429"
    while path:
        status, text = await person.get(path)
        assert status == 200
        assert len(rows_in(text)) <= 40
        seen += rows_in(text)
        path = next_in(text)
    assert sorted(seen) == sorted(ids)
    seen = []
    path = f"{PAGE}?state=waiting"
    while path:
        text = (await person.get(path))[1]
        seen += rows_in(text)
        path = next_in(text)
    assert sorted(seen) == sorted(f"w-{n}" for n in range(1, 91))

    text = (await person.get(f"{PAGE}?state=failed&tenant=7"))[1]
    assert sorted(rows_in(text)) == ["other-1", "other-2", "other-3"]
    assert rows_in((await person.get(f"{PAGE}?state=failed&kind=crawl_url"))[1]) == []
    assert rows_in((await person.get(f"{PAGE}?state=failed&age=over1h"))[1]) == []
    assert len(rows_in((await person.get(f"{PAGE}?state=failed&age=1h"))[1])) == 40
    chips = (await person.get(f"{PAGE}?state=failed"))[1]
    assert "<b>90</b> <bdi>quota of 429 spent</bdi>" in chips
    assert "<b>3</b> <bdi>took too long</bdi>" in chips
    found = re.search(r'class="chip" href="([^"]+)"><b>3</b>', chips)
    assert found
    assert len(rows_in((await person.get(found[1].replace("&amp;", "&")))[1])) == 3
    for nonsense in ("state=x", "cursor=-1", "cursor=abc", "age=99", "state=failed&cursor=5", "at=x&cursor=3"):
        assert (await person.get(f"{PAGE}?{nonsense}"))[0] == 200, nonsense
    assert (await person.get("/queues/none-of-ours"))[0] == 404


@pytest.mark.spec("OP-05", "PF-07")
async def test_a_page_costs_the_same_at_a_thousand_jobs_and_at_a_hundred_thousand(dashboard: Dashboard) -> None:
    """F03: commands counted as Redis sees them, and the ones that scripts call; page 500 is no dearer."""
    queue = dashboard.fleet.queue(QUEUE)
    person = await dashboard.person()
    await failed(queue, 400, head="f-")
    await waiting(queue, 1_000)
    pages = (PAGE + "?state=waiting", PAGE + "?state=failed", f"{PAGE}/job?id=kb-document-sync-1", "/queues")
    before = {page: await _cost(dashboard, person, page) for page in pages}
    for first in range(0, 99_000, 9_000):
        await queue.enqueue(document_requests(9_000, head=f"more-{first}-"))
    after = {page: await _cost(dashboard, person, page) for page in pages}
    for page in pages:
        assert before[page][0] < MOST_COMMANDS, (page, before[page])
        assert abs(after[page][0] - before[page][0]) <= 2, page
        assert abs(after[page][1] - before[page][1]) <= 4, page
    sent, _ = await _cost(dashboard, person, f"{PAGE}?state=waiting&cursor={499 * 40}&at={499 * 40}")
    assert sent <= after[PAGE + "?state=waiting"][0] + 2
    text = (await person.get(f"{PAGE}?state=waiting&cursor={499 * 40}&at={499 * 40}"))[1]
    assert "19,961–20,000 of 100,000" in text
    assert len(rows_in(text)) == 40


async def _cost(dashboard: Dashboard, person: Person, page: str) -> tuple[int, int]:
    async with commands(dashboard.fleet.queue(QUEUE).redis) as found:
        status, text = await person.get(page)
    assert status == 200
    assert len(text.encode()) < MOST_BYTES
    assert "KEYS" not in found.sent
    return len(found.sent), found.inside


@pytest.mark.spec("PF-07")
async def test_huge_payloads_and_errors_make_no_huge_page(dashboard: Dashboard) -> None:
    """F03: ten jobs of 250 KiB, all of it characters that take many bytes on a page."""
    queue = dashboard.fleet.queue(QUEUE)
    body: dict[str, object] = {"type": "sync_document", "text": "\u202e<" * 60_000}
    jobs = [stored(f"big-{n}", payload=body) for n in range(10)]
    await kept(queue, "f", jobs, error="\u202e" * 2_000, traceback="\u0007" * 8_000)
    person = await dashboard.person(Role.ADMIN)
    for path in (f"{PAGE}?state=failed", f"{PAGE}/job?id=big-1", "/queues"):
        status, text = await person.get(path)
        assert (status, len(text.encode()) < MOST_BYTES) == (200, True), path
    assert "Cut here" in (await person.get(f"{PAGE}/job?id=big-1"))[1]
    assert (await person.get(f"{PAGE}/job?id=big-1&raw=1"))[0] == 200


@pytest.mark.spec("OP-05", "OP-06")
async def test_hostile_job_data_is_shown_as_text(dashboard: Dashboard) -> None:
    """F01: id, kind, tenant, error, reason, payload, filter boxes; in rows, details, titles, chips."""
    queue = dashboard.fleet.queue(QUEUE)
    job_id = f"{MARKUP}\u202e\u0007"
    payload = json.dumps([1, "org-1", "sync_document", 1_700_000_000_000, {"x": HOSTILE, MARKUP: [HOSTILE]}])
    hostile = [(job_id, payload.encode())]
    await kept(queue, "f", hostile, error=HOSTILE, kind=HOSTILE, tenant=HOSTILE, name=MARKUP, traceback=HOSTILE)
    await ask(queue.redis, "SET", "arq:job:waits", json.dumps([1, MARKUP, MARKUP, 1, {"reason": HOSTILE}]))
    await ask(queue.redis, "ZADD", QUEUE, -5_000_000_000_000_000, "waits")
    await ask(queue.redis, "HSET", f"{QUEUE}:meta", "waits", "1,0,1" + json.dumps({"reason": HOSTILE, "until": 5}))
    await queue.redis.zadd(QUEUE, {b"\xff\xfe raw bytes": -5e15})
    await queue.redis.set(b"arq:job:\xff\xfe raw bytes", b"\x80pickled")
    person = await dashboard.person(Role.ADMIN)
    pages = [f"{PAGE}?state={state}" for state in JobState]
    pages += [f"{PAGE}?state=failed&error=%3Cscript%3E&kind=%3Cimg%20src%3Dx&tenant=%22%3E%3Cscript%3E", "/queues"]
    listed = (await person.get(f"{PAGE}?state=failed"))[1] + (await person.get(f"{PAGE}?state=waiting"))[1]
    links = [link.replace("&amp;", "&") for link in re.findall(rf'href="({PAGE}/job\?id=[^"]+)"', listed)]
    assert len(links) == 3
    shown = ""
    for path in pages + links:
        status, text = await person.get(path)
        assert status == 200, path
        shown += text
        for danger in ("<script>", "<img", "</title></textarea>", "\u202e", "\x07", "\ufffd", "onerror=alert(1)>"):
            assert danger not in text.replace("<script src=", ""), (path, danger)
    assert "U+202E" in shown
    assert "U+0007" in shown
    assert "U+D800" in shown
    status, text = await person.post(f"{PAGE}/jobs", do="remove", job=rows_in(listed)[0])
    assert "1 job removed" in text
    assert (await queue.counts()).failed == 0


@pytest.mark.spec("QU-18")
async def test_counts_lists_and_redis_agree_after_each_step(dashboard: Dashboard) -> None:
    """F05: 7 waiting, 5 delayed, 3 active, 4 failed, 6 completed; pause; retry two; a record expires."""
    queue = dashboard.fleet.queue(QUEUE)
    person = await dashboard.person()
    await failed(queue, 4, head="failed-")
    await kept(queue, "c", [stored(f"completed-{n}") for n in range(1, 7)])
    await waiting(queue, 3, head="active-")
    await claim(queue, 3)
    await waiting(queue, 7, head="waiting-")
    await waiting(queue, 5, head="delayed-", delay_ms=3_600_000)
    await _agree(person, queue, 25)
    assert "is paused" in (await person.post(f"{PAGE}/pause", why="counting"))[1]
    await _agree(person, queue, 25)
    assert "2 jobs wait again" in await _retry(person, "failed-1", "failed-2")
    tabs = await _agree(person, queue, 25)
    assert (tabs["waiting"], tabs["failed"]) == (9, 2)
    await QueueOperator(queue).act(Action.REMOVE, ["completed-1"])
    tabs = await _agree(person, queue, 24)
    assert tabs["completed"] == 5


async def _retry(person: Person, *job_ids: str) -> str:
    data = [("csrf", person.csrf), ("do", "retry"), ("back", PAGE), *(("job", job_id) for job_id in job_ids)]
    assert (await person.raw("POST", f"{PAGE}/jobs", data=data, headers={"Origin": person.url})).status == 303
    return (await person.get(PAGE))[1]


async def _agree(person: Person, queue: FleetQueue, everything: int) -> dict[str, int]:
    """What the tabs say, what the lists hold, and what Redis has: the same."""
    text = (await person.get(PAGE))[1]
    tabs = tabs_in(text)
    redis = queue.redis
    direct = {
        "waiting": await ask(redis, "ZCOUNT", QUEUE, "-inf", "(0"),
        "delayed": await ask(redis, "ZCOUNT", QUEUE, "0", "+inf"),
        "active": await ask(redis, "ZCARD", f"{QUEUE}:active"),
        "failed": int(await ask(redis, "HGET", f"{QUEUE}:bytes", "nf") or 0),
        "completed": int(await ask(redis, "HGET", f"{QUEUE}:bytes", "nc") or 0),
        "skipped": int(await ask(redis, "HGET", f"{QUEUE}:bytes", "ns") or 0),
        "cancelled": int(await ask(redis, "HGET", f"{QUEUE}:bytes", "nx") or 0),
    }
    listed = {}
    for state in JobState:
        text = (await person.get(f"{PAGE}?state={state}"))[1]
        listed[state.value] = len(rows_in(text))
        if state in ENDED_JOB_STATES and state is not JobState.COMPLETED:
            assert await _records(queue, state) == direct[state.value]
    assert tabs == direct == listed
    assert sum(tabs.values()) == everything
    return tabs


async def _records(queue: FleetQueue, state: JobState) -> int:
    return len([view async for _, view, record in queue.listing.ended(state) if record is not None])


@pytest.mark.spec("QU-13", "OP-06")
async def test_pausing_takes_a_reason_that_everybody_reads(dashboard: Dashboard) -> None:
    queue = dashboard.fleet.queue(QUEUE)
    person = await dashboard.person(Role.OPERATOR, name="Priya")
    await waiting(queue, 2)
    assert "Pausing takes a reason" in (await person.post(f"{PAGE}/pause", why="  "))[1]
    assert not (await queue.counts()).paused
    text = (await person.post(f"{PAGE}/pause", why="Notion <b>moves</b>"))[1]
    assert "Paused by Priya" in text
    assert "“Notion &lt;b&gt;moves&lt;/b&gt;”" in text
    assert await claim(queue, 5) == []
    await waiting(queue, 1, head="more-")
    assert "was paused already" in (await person.post(f"{PAGE}/pause", why="again"))[1]
    viewer = await dashboard.person(Role.VIEWER)
    assert "Paused by Priya" in (await viewer.get("/queues"))[1].replace(
        "paused by <bdi>Priya</bdi>", "Paused by Priya"
    )
    assert "hands out jobs again" in (await person.post(f"{PAGE}/resume"))[1]
    assert len(await claim(queue, 5)) == 3
    assert await dashboard.audit() == [
        ("Priya", f"queue.{action}", f"queue:{QUEUE}") for action in ("paused", "paused", "resumed")
    ]


@pytest.mark.spec("QU-14", "QU-29", "OP-06")
async def test_limits_are_set_lifted_and_refused_with_a_cure(dashboard: Dashboard) -> None:
    queue = dashboard.fleet.queue(QUEUE)
    person = await dashboard.person(Role.OPERATOR, name="Priya")
    text = (await person.post(f"{PAGE}/limits", max_active="3", limit="60", window_s="60"))[1]
    assert "3 at once, 60 handed out each 60 s" in text
    limits = await QueueOperator(queue).limits()
    assert (limits.max_active, limits.limit, limits.window_ms) == (3, 60, 60_000)
    assert "Nothing was changed" in (await person.post(f"{PAGE}/limits", max_active="3", limit="60", window_s="60"))[1]
    for form in ({"max_active": "0"}, {"max_active": "x"}, {"max_active": "3", "limit": "5", "window_s": "0"}):
        text = (await person.post(f"{PAGE}/limits", form))[1]
        assert "at least 1" in text or "no whole number" in text or "seconds long" in text, form
    assert await QueueOperator(queue).limits() == limits
    await person.post(f"{PAGE}/limits", max_active="", limit="", window_s="")
    limits = await QueueOperator(queue).limits()
    assert (limits.max_active, limits.limit) == (None, None)
    assert {entry[1] for entry in await dashboard.audit()} == {"queue.configured"}
