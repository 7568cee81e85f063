"""Jobs in known states for the queue pages' tests: enqueued and claimed by the queue, ended ones as Redis keeps them."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from kbsync.domain.requests import Priority
from kbsync.queue.encoding import encode_request
from kbsync.queue.jobs import JobRequest
from kbsync.queue.queue import FleetQueue
from tests.queue.support import a_request

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


async def failed(queue: FleetQueue, count: int, *, head: str = "kb-document-sync-", **options: Any) -> list[str]:
    """As many failed jobs, the newest last."""
    requests = document_requests(count, head=head)
    return await kept(queue, "f", [(one.job_id, encode_request(one, _now_ms())) for one in requests], **options)


async def kept(
    queue: FleetQueue,
    letter: str,
    jobs: Sequence[tuple[str, bytes]],
    *,
    error: str = "Notion answered 502",
    kind: str = "sync_document",
    tenant: str = "org-1",
    name: str = "kbsync.domain.errors.ProviderUnreachable",
    traceback: str = "",
) -> list[str]:
    """(id, stored request) each as an ended job: `c` completed, `f` failed with this error after one attempt."""
    now = _now_ms()
    shown = {"type": name, "message": error, "traceback": traceback}
    errors = [{"attempt": 1, "started": now - 1_000, "ended": now, **shown}]
    for first in range(0, len(jobs), 500):
        part = jobs[first : first + 500]
        pipe = queue.redis.pipeline(transaction=False)
        for job_id, request in part:
            pipe.xadd(queue.keys.index(letter), {job_id: str(len(request) + 500)})
        index_ids = await pipe.execute()
        for (job_id, request), index_id in zip(part, index_ids, strict=True):
            head = [letter, index_id.decode(), 1, kind, now - 5_000, now - 1_000, now, 1, tenant]
            if letter == "f":
                record = [*head, shown, json.loads(request), [1, 0, 0, {"errors": errors}]]
            else:
                record = [*head, {"status": "done", "documents": 3}]
            pipe.set(f"arq:result:{job_id}", json.dumps(record, separators=(",", ":")))
            pipe.hincrby(queue.keys.bytes, letter, len(request) + 500)
            pipe.hincrby(queue.keys.bytes, f"n{letter}", 1)
        await pipe.execute()
    return [job_id for job_id, _ in jobs]


def stored(job_id: str, kind: str = "sync_document", payload: Mapping[str, object] | None = None) -> tuple[str, bytes]:
    request = JobRequest(job_id, kind, payload or {}, "org-1", Priority.NORMAL)
    return job_id, encode_request(request, _now_ms())


def _now_ms() -> int:
    return int(time.time() * 1000)
