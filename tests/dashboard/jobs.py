"""Jobs in known states for the queue pages' tests, put there by the queue's own scripts."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

from kbsync.queue.jobs import JobRequest
from kbsync.queue.queue import FleetQueue
from tests.queue.support import a_request, exchange

QUEUE = "knowledge-base-sync"
PAGE = f"/queues/{QUEUE}"


def document_requests(count: int, *, head: str = "kb-document-sync-", **options: Any) -> list[JobRequest]:
    return [
        a_request(f"{head}{n}", kind="sync_document", payload={"type": "sync_document", "document_id": n}, **options)
        for n in range(1, count + 1)
    ]


async def waiting(queue: FleetQueue, count: int, **options: Any) -> list[str]:
    requests = document_requests(count, **options)
    await queue.enqueue(requests)
    return [request.job_id for request in requests]


async def run_all(queue: FleetQueue, many: int, token: str = "t") -> list[tuple[str, str]]:
    """Claims: (id, payload) each. Nothing else may be waiting."""
    found: list[tuple[str, str]] = []
    while len(found) < many:
        reply = await exchange(queue, min(100, many - len(found)), token)
        assert len(reply) > 4, "there was less to claim"
        claimed = reply[4:]
        found += [(claimed[at].decode(), claimed[at + 1].decode()) for at in range(0, len(claimed), 3)]
    return found


async def ended(
    queue: FleetQueue,
    claimed: Sequence[tuple[str, str]],
    letter: str = "f",
    *,
    token: str = "t",
    error: str = "Notion answered 502",
    kind: str = "sync_document",
    tenant: str = "org-1",
    name: str = "kbsync.domain.errors.ProviderUnreachable",
    traceback: str = "",
) -> None:
    """Finishes them: `c` completed, `f` failed with this error after one attempt."""
    now = int(time.time() * 1000)
    shown = {"type": name, "message": error, "traceback": traceback}
    finishes = []
    for job_id, payload in claimed:
        head = f",1,{json.dumps(kind)},{now - 5_000},{now - 1_000},{now},1,{json.dumps(tenant)},"
        errors = [{"attempt": 1, "started": now - 1_000, "ended": now, **shown}]
        if letter == "f":
            tail = f"{json.dumps(shown)},{payload},[1,0,0,{json.dumps({'errors': errors})}]]"
        else:
            tail = '{"status":"done","documents":3}]'
        finishes.append((job_id, letter + token, head + tail))
    for at in range(0, len(finishes), 50):
        await exchange(queue, 0, token, 60_000, *finishes[at : at + 50])


async def failed(queue: FleetQueue, count: int, **options: Any) -> list[str]:
    """As many failed jobs; nothing may be waiting before."""
    head = options.pop("head", "kb-document-sync-")
    ids = await waiting(queue, count, head=head, tenant=options.get("tenant", "org-1"))
    await ended(queue, await run_all(queue, count), **options)
    return ids
