"""Library requests as jobs: the one mapping that every way in, the workers and the reconciler share (QU-01, QU-15)."""

from __future__ import annotations

from collections.abc import Iterable

from kbsync.domain.ids import QueueName, job_id, queue_of, tenant_of
from kbsync.domain.requests import Priority, UnitRequest
from kbsync.queue.jobs import Enqueued, Enqueuer, JobRequest


def job_request(
    request: UnitRequest,
    *,
    priority: Priority,
    rerun_if_active: bool = False,
    replace_finished: bool = True,
) -> JobRequest:
    """The job of a request: its deterministic id, its JSON as payload, its organization as tenant.

    `rerun_if_active`: for producers and people, never for follow-ups, the tick and the reconciler (QU-03).
    `replace_finished=False`: for the tick's scan job alone (QU-30)."""
    return JobRequest(
        job_id=job_id(request),
        kind=request.type,
        payload=_payload(request),
        tenant=tenant_of(request),
        priority=priority,
        rerun_if_active=rerun_if_active,
        replace_finished=replace_finished,
    )


def _payload(request: UnitRequest) -> dict[str, object]:
    if request.type == "scan":
        return request.model_dump(mode="json", exclude_none=True)
    return dict(request.__dict__)  # numbers and strings only: a dump would cost more than all the rest


async def enqueue_units(
    enqueuer: Enqueuer,
    requests: Iterable[UnitRequest],
    *,
    priority: Priority,
    rerun_if_active: bool = False,
    replace_finished: bool = True,
) -> list[Enqueued]:
    """Puts each request into its queue, one call a queue, and answers in the order of `requests`.

    Raises QueueUnavailable when Redis did not take everything; whole groups may be there, and repeating is safe."""
    asked = list(requests)
    places: dict[QueueName, list[int]] = {}
    for place, request in enumerate(asked):
        places.setdefault(queue_of(request), []).append(place)
    answers: dict[int, Enqueued] = {}
    for queue, mine in places.items():
        jobs = [
            job_request(
                asked[place],
                priority=priority,
                rerun_if_active=rerun_if_active,
                replace_finished=replace_finished,
            )
            for place in mine
        ]
        answers.update(zip(mine, await enqueuer.enqueue(queue, jobs), strict=True))
    return [answers[place] for place in range(len(asked))]
