"""`POST /internal/knowledge_base_sync/fallbacks`: a producer says how often it had to do the work another way (OP-16).

Counted by the hour for `kbsync observe`, and as a metric for the alert. It is a statistic: a report that is lost or comes
twice harms nothing, so producers send it once and don't wait.
"""

from __future__ import annotations

from enum import StrEnum
from http import HTTPStatus
from typing import Annotated

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kbsync.api.bodies import pointer, read_json_body
from kbsync.api.context import services_of
from kbsync.api.described import Described
from kbsync.api.problems import Fault, invalid
from kbsync.library.counters import PRODUCERS, Counted, add_many
from kbsync.telemetry import log, metrics

PATH = "/internal/knowledge_base_sync/fallbacks"
MOST_AT_ONCE = 1_000_000


class FallbackReason(StrEnum):
    """Why the API's promise was missing, as a producer saw it."""

    NO_ANSWER = "no_answer"  # unreachable, broken off, or slower than the producer waits
    REFUSED = "refused"  # a status below 500 that is not 202
    SERVER_ERROR = "server_error"
    FLAG_UNREADABLE = "flag_unreadable"


class FallbacksBody(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    count: Annotated[int, Field(strict=True, ge=1, le=MOST_AT_ONCE)]
    reason: FallbackReason


DESCRIBED = Described(
    "A producer says how often it did the work another way.", {HTTPStatus.NO_CONTENT: None}, body=FallbacksBody
)


async def report_fallbacks(request: web.Request) -> web.Response:
    told = _parse(await read_json_body(request))
    async with services_of(request).database.fleet() as connection:
        await add_many(connection, {(PRODUCERS, Counted.FALLBACKS_REPORTED): told.count})
    metrics.FALLBACKS.labels(told.reason.value).inc(told.count)
    log.warning("producer_fell_back", count=told.count, reason=told.reason.value)
    return web.Response(status=HTTPStatus.NO_CONTENT)


def expect_fallbacks() -> None:
    """Every series of the metric is there from the start."""
    for reason in FallbackReason:
        metrics.FALLBACKS.labels(reason.value)


def _parse(body: bytes) -> FallbacksBody:
    try:
        return FallbacksBody.model_validate_json(body)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False, include_input=False)
        raise invalid("a report is {count, reason}", [Fault(pointer(f["loc"]), f["msg"]) for f in faults]) from None
