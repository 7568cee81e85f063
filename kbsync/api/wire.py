"""How the app stands on the wire: limits of a connection, headers of every answer, and what is said to what isn't HTTP
(SE-04, SE-05).

A head must be complete within the keep-alive time of the last answer, a body within `bodies.READ_TIMEOUT_S`.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from aiohttp import web

from kbsync.api.problems import Problem

# Bodies are never unpacked (a small one may unfold to any size), headers are bounded.
RUNNER_OPTIONS: dict[str, Any] = {
    "auto_decompress": False,
    "access_log": None,
    "max_line_size": 8_190,
    "max_field_size": 8_190,
    "keepalive_timeout": 30.0,
}

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def secure(response: web.StreamResponse) -> None:
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)  # a page of the dashboard has its own
    response.headers["Server"] = "kbsync"


class ApiRunner(web.AppRunner):
    """`web.AppRunner` with this module's limits and its answer to malformed requests."""

    def __init__(self, app: web.Application, **options: Any) -> None:
        super().__init__(app, **(RUNNER_OPTIONS | options))

    async def _make_server(self) -> web.Server:
        made = await super()._make_server()
        return _Server(made.request_handler, request_factory=made.request_factory, **self._kwargs)


class _Server(web.Server):
    def __call__(self) -> web.RequestHandler:
        return _Connection(self, loop=self._loop, **self._kwargs)


class _Connection(web.RequestHandler):
    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """aiohttp's own repeats what was sent; this says nothing of it. It logs, and raises when an answer has begun."""
        super().handle_error(request, status, exc, message)
        answer = Problem(HTTPStatus(status), "malformed", "this is not a request that kbsync can read").response()
        secure(answer)
        answer.force_close()
        return answer
