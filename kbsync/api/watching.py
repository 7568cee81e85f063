"""The outermost layer of every request: its id in each log line and in the answer, its span, its count (OP-08)."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Awaitable, Callable
from functools import cache

from aiohttp import hdrs, web
from prometheus_client import Counter, Histogram

from kbsync.telemetry import log_context, metrics, tracing

REQUEST_ID = "X-Request-Id"
_PLAIN_ID = re.compile(r"[A-Za-z0-9._\-]{1,64}")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@web.middleware
async def watched(request: web.Request, handler: Handler) -> web.StreamResponse:
    """A caller's own request id is kept when it is a plain one, so that its log lines and ours can be put together."""
    given = request.headers.get(REQUEST_ID, "")
    request_id = given if _PLAIN_ID.fullmatch(given) else secrets.token_hex(8)
    route = _route_of(request)
    method = request.method if request.method in hdrs.METH_ALL else metrics.OTHER
    began = time.perf_counter()
    with (
        log_context(request_id=request_id),
        tracing.span(f"{method} {route}", "server", request.headers.get("traceparent"), request_id=request_id),
    ):
        response = await handler(request)
    _answers(method, route, response.status).inc()
    if not response.prepared:  # a stream lasts as long as somebody looks at it, and has its headers already
        response.headers[REQUEST_ID] = request_id
        _seconds(route).observe(time.perf_counter() - began)
    return response


# A single enqueue is a few hundred microseconds: finding its children anew would be several of them.
@cache
def _answers(method: str, route: str, status: int) -> Counter:
    return metrics.API_REQUESTS.labels(method, route, str(status))


@cache
def _seconds(route: str) -> Histogram:
    return metrics.API_SECONDS.labels(route)


def _route_of(request: web.Request) -> str:
    """The route as it is declared, never the path that was asked for."""
    resource = request.match_info.route.resource
    return "none" if resource is None else resource.canonical
