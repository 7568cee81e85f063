"""`POST /internal/knowledge_base_sync/enqueue`: a 202 is a promise; on anything else no promise was made (LS-01)."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus

from aiohttp import web

from kbsync.api.answers import Shape
from kbsync.api.bodies import EnqueueBody, parse_enqueue, read_json_body
from kbsync.api.context import acceptance_of, principal_of, rates_of
from kbsync.api.described import Described
from kbsync.api.problems import Fault, Problem, forbidden
from kbsync.domain.requests import UnitRequest
from kbsync.library.principals import Principal
from kbsync.queue.jobs import Enqueued


@dataclass(frozen=True)
class Accepted:
    """One answer a request, in order."""

    requests: list[Enqueued]


ACCEPTED = Shape(Accepted)
DESCRIBED = Described(
    "Asks for units of work: all or none. Equal requests are one job, so sending again is safe.",
    {HTTPStatus.ACCEPTED: ACCEPTED},
    problems=(HTTPStatus.TOO_MANY_REQUESTS,),
    body=EnqueueBody,
)


async def enqueue(request: web.Request) -> web.Response:
    principal = principal_of(request)
    requests = parse_enqueue(await read_json_body(request))
    refuse_if_over_rate(request, principal, len(requests))
    refuse_foreign(requests, principal)
    answers = await acceptance_of(request).accept(requests)
    return ACCEPTED.response(Accepted(answers), HTTPStatus.ACCEPTED)


def refuse_if_over_rate(request: web.Request, principal: Principal, amount: int) -> None:
    wait_s = rates_of(request).take(principal.token_id, amount, time.monotonic())
    if wait_s is not None:
        raise Problem(
            HTTPStatus.TOO_MANY_REQUESTS,
            "too-many-requests",
            "this token asks for more than its requests per second",
            headers={"Retry-After": str(math.ceil(wait_s))},
        )


def refuse_foreign(requests: Sequence[UnitRequest], principal: Principal) -> None:
    """A principal that is bound to an organization asks for that one only, and a scan asks for all of them."""
    if principal.organization_id is None:
        return
    faults = [
        Fault(f"/requests/{place}/organization_id", "this token is bound to another organization")
        for place, request in enumerate(requests)
        if request.type == "scan" or request.organization_id != principal.organization_id
    ]
    if faults:
        raise forbidden("nothing was enqueued: some requests are for another organization", faults)
