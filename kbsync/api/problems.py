"""RFC 9457 problem documents, and the only place that says which error is which HTTP status.

A problem's text says what the caller can do. It never holds a token, a statement, a server's address or a traceback.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus

from aiohttp import web

from kbsync.api.answers import Shape
from kbsync.domain.errors import PayloadRefused, PayloadTooLarge, ServerUnavailable

CONTENT_TYPE = "application/problem+json"
RETRY_AFTER_S = 2


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong with a body: `pointer` is a JSON Pointer (RFC 6901) into it."""

    pointer: str
    detail: str


@dataclass(frozen=True, kw_only=True)
class ProblemDocument:
    type: str
    title: str
    status: int
    detail: str
    errors: tuple[Fault, ...] = ()


PROBLEM = Shape(ProblemDocument)


class Problem(Exception):
    """An answer other than success. `kind` is the last part of the problem's type URI."""

    def __init__(
        self,
        status: HTTPStatus,
        kind: str,
        detail: str,
        *,
        faults: Sequence[Fault] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.detail = detail
        self.faults = tuple(faults)
        self.headers = dict(headers or {})

    def response(self) -> web.Response:
        document = ProblemDocument(
            type=f"urn:kbsync:problem:{self.kind}",
            title=self.status.phrase,
            status=int(self.status),
            detail=_sayable(self.detail),
            errors=tuple(Fault(_sayable(fault.pointer), _sayable(fault.detail)) for fault in self.faults),
        )
        return web.Response(
            status=int(self.status),
            body=PROBLEM.text(document),
            content_type=CONTENT_TYPE,
            charset="utf-8",
            headers=self.headers,
        )


@dataclass(frozen=True)
class _Row:
    status: HTTPStatus
    kind: str
    detail: str
    headers: Mapping[str, str] = field(default_factory=dict)


# Error class -> answer, most special first; the first match counts.
_TABLE: tuple[tuple[type[Exception], _Row], ...] = (
    (
        ServerUnavailable,
        _Row(
            HTTPStatus.SERVICE_UNAVAILABLE,
            "unavailable",
            "nothing was promised: a server behind this API does not answer; send the same request again",
            {"Retry-After": str(RETRY_AFTER_S)},
        ),
    ),
    (
        TimeoutError,
        _Row(
            HTTPStatus.SERVICE_UNAVAILABLE,
            "unavailable",
            "nothing was promised: it took too long; send the same request again",
            {"Retry-After": str(RETRY_AFTER_S)},
        ),
    ),
    (PayloadTooLarge, _Row(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too-large", "a request holds at most 256 KiB")),
    (PayloadRefused, _Row(HTTPStatus.UNPROCESSABLE_ENTITY, "refused", "the request is not one that kbsync can run")),
)


def problem_of(error: Exception) -> Problem | None:
    """The problem that an expected error is for a caller; None for a fault of ours (500)."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, web.HTTPException):
        return _of_http_exception(error)
    for kind, row in _TABLE:
        if isinstance(error, kind):
            return Problem(row.status, row.kind, row.detail, headers=row.headers)
    return None


INTERNAL = Problem(HTTPStatus.INTERNAL_SERVER_ERROR, "internal", "kbsync met a fault of its own; it has been logged")


def _sayable(text: str) -> str:
    """A caller's own words may hold a lone surrogate, which UTF-8 can't say."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def unauthorized(challenge: str) -> Problem:
    return Problem(
        HTTPStatus.UNAUTHORIZED,
        "unauthorized",
        "a valid bearer token is needed",
        headers={"WWW-Authenticate": challenge},
    )


def forbidden(detail: str, faults: Sequence[Fault] = ()) -> Problem:
    return Problem(HTTPStatus.FORBIDDEN, "forbidden", detail, faults=faults)


def invalid(detail: str, faults: Sequence[Fault]) -> Problem:
    return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid", detail, faults=faults)


def _of_http_exception(error: web.HTTPException) -> Problem | None:
    """aiohttp's own answers (no such route, wrong method, body too large) in our shape."""
    if error.status < 400:
        return None
    status = HTTPStatus(error.status)
    headers = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}
    return Problem(status, status.phrase.lower().replace(" ", "-"), f"{status.phrase.lower()}", headers=headers)
