"""`/workers`: who works, who is silent, and which queues nobody serves (QU-28)."""

from __future__ import annotations

import json
import re
import time

import pytest

from kbsync.library.principals import Role
from tests.dashboard.conftest import Dashboard
from tests.dashboard.jobs import PAGE, QUEUE, waiting
from tests.queue.support import Recorder, a_worker, ask, running, until


@pytest.mark.spec("QU-28", "OP-05")
async def test_a_worker_is_shown_while_it_lives_and_its_queue_as_unserved_after(dashboard: Dashboard) -> None:
    queue = dashboard.fleet.queue(QUEUE)
    person = await dashboard.person(Role.VIEWER)
    url = dashboard.runtime.settings.redis_url or ""
    worker = a_worker(url, Recorder(), QUEUE, concurrency=17, version="9.8.7", host="kb-eu-1")

    async def beats() -> bool:
        return bool(await queue.workers())

    async with running(worker):
        await until(beats)
        text = (await person.get("/workers"))[1]
        for one in ("kb-eu-1", "9.8.7", "of 17", "1 worker on 1 host beats", "Nobody serves knowledge-base-chunks"):
            assert one in text, one
    text = (await person.get("/workers"))[1]
    assert "kb-eu-1" not in text
    assert "No worker runs, and nothing waits for one." in text
    await waiting(queue, 2)
    text = (await person.get("/workers"))[1]
    assert f"Nobody serves {QUEUE}, and jobs are there." in text
    assert "2 jobs are there" in text
    assert "No worker serves it: 2 jobs wait" in (await person.get(PAGE))[1]
    assert f"No worker serves {QUEUE}, and jobs are there." in (await person.get("/queues"))[1]


@pytest.mark.spec("QU-28")
async def test_a_silent_worker_is_amber_and_a_hostile_record_is_text(dashboard: Dashboard) -> None:
    queue = dashboard.fleet.queue(QUEUE)
    person = await dashboard.person(Role.VIEWER)
    now = time.time()
    records = {
        "kb-eu-1:7:aa": {
            "host": "kb-eu-1",
            "concurrency": 5,
            "active": 1,
            "started_at": now - 90,
            "last_beat": now - 12,
        },
        "x:1:bb": {"host": "<script>alert(1)</script>", "version": "\u202ev", "concurrency": "many", "active": -3},
        "y:1:cc": {"worker_id": ["no", "text"], "last_beat": 1e300, "started_at": None},
    }
    for worker_id, record in records.items():
        await queue.redis.set(queue.keys.worker(worker_id), json.dumps({"worker_id": worker_id, **record}), px=60_000)
        await ask(queue.redis, "ZADD", queue.keys.workers, int(now * 1000), worker_id)
    await queue.redis.set(queue.keys.worker("z"), "[]", px=60_000)
    await ask(queue.redis, "ZADD", queue.keys.workers, int(now * 1000), "z")
    status, text = await person.get("/workers")
    assert status == 200
    assert re.search(
        r'<span class="c-delayed tint">1[23] s ago</span><span class="sub c-delayed tint">silent</span>', text
    )
    assert "<script>alert" not in text
    assert "U+202E" in text
    for path in ("/queues", PAGE):
        assert (await person.get(path))[0] == 200
