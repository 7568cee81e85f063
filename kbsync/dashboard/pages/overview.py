"""`/`: is anything stuck, and what must a person do?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kbsync.dashboard.ask import Access, Ask
from kbsync.dashboard.page import Page
from kbsync.domain.ids import QueueName
from kbsync.queue.fleet import unavailable_if_redis_fails


async def overview(ask: Ask) -> Mapping[str, Any]:
    rows = []
    for name in QueueName:
        async with unavailable_if_redis_fails(name):
            rows.append((name, await ask.services.fleet.queue(name).counts()))
    return {"rows": rows}


PAGES = (Page("/", "overview.html", overview, Access.LOOK, live=("queues",)),)
