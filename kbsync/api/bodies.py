"""JSON bodies in: read within a limit and a time, parsed strictly, checked whole, every fault with its path (LS-01)."""

from __future__ import annotations

import asyncio
import datetime
import json
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Annotated
from uuid import UUID

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from kbsync.api.problems import Fault, Problem, invalid
from kbsync.domain.requests import LibraryRequest, Scan, UnitRequest

READ_TIMEOUT_S = 10.0
MAX_BATCH = 1_000
MAX_FAULTS = 5_000


class ScanByHand(Scan):
    """The daily scan, now, under an id of its own: the scan of a date is the clock's, and asking for a future one here
    would use up that day's tick."""

    date: Annotated[datetime.date, Field(strict=True)]
    manual_id: Annotated[UUID, Field(strict=True)]


class EnqueueBody(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    requests: Annotated[
        list[Annotated[ScanByHand | LibraryRequest, Field(discriminator="type")]],
        Field(min_length=1, max_length=MAX_BATCH),
    ]


class _DuplicateKey(ValueError):
    pass


async def read_json_body(request: web.Request) -> bytes:
    """The body of a JSON request. Raises the problems 408 (too slow), 413 (too large) and 415 (not plain JSON)."""
    if request.content_type != "application/json" or (request.charset or "utf-8").lower() not in ("utf-8", "utf8"):
        raise Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "unsupported-media-type", "send application/json in UTF-8")
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        # Refused unread: a small compressed body may unfold to any size.
        raise Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "unsupported-media-type", "send the body uncompressed")
    if request.content.is_eof():  # it came with the head, as small ones do
        return await request.read()
    try:
        async with asyncio.timeout(READ_TIMEOUT_S):
            return await request.read()
    except TimeoutError:
        raise Problem(HTTPStatus.REQUEST_TIMEOUT, "too-slow", "the body did not arrive in time") from None


def parse_enqueue(body: bytes) -> Sequence[UnitRequest]:
    """The requests of an enqueue body. Raises the 422 problem with all faults; the values themselves are not repeated."""
    found = _parse_at_once(body)
    if found is not None:
        return found
    _refuse_loose_json(body)
    try:
        return EnqueueBody.model_validate_json(body).requests
    except ValidationError as error:
        errors = error.errors(include_url=False, include_context=False, include_input=False)
        raise invalid(_summary(len(errors)), [_fault(fault) for fault in errors[:MAX_FAULTS]]) from None


def _parse_at_once(body: bytes) -> Sequence[UnitRequest] | None:
    """The requests, when one pass can tell that nothing is wrong; None says nothing.

    The validator doesn't see a key that is there twice, so keys are counted by their colons. Without escapes a colon is a
    key's or stands in a value as it was read; only a URL and a scan may hold any. A key too many makes the count differ."""
    if b"\\" in body:
        return None
    try:
        requests = EnqueueBody.model_validate_json(body).requests
    except ValidationError:
        return None
    colons = 1
    for request in requests:
        colons += len(request.model_fields_set)
        if request.type == "crawl_url":
            colons += request.url.count(":")
    return requests if body.count(b":") == colons else None


def _refuse_loose_json(body: bytes) -> None:
    """Raises the 422 problem for what is not JSON as everybody reads it."""
    try:
        json.loads(body.decode("utf-8"), object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
    except UnicodeDecodeError:
        raise invalid("the body is not UTF-8", [Fault("", "not UTF-8")]) from None
    except _DuplicateKey as error:
        raise invalid("a key is there twice", [Fault("", str(error))]) from None
    except RecursionError:
        raise invalid("the body is nested too deep", [Fault("", "nested too deep")]) from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise invalid("the body is not JSON", [Fault("", f"{error.msg} at {where}")]) from None
    except ValueError as error:
        raise invalid("the body is not JSON", [Fault("", str(error))]) from None


def _no_duplicates(pairs: Sequence[tuple[str, object]]) -> Mapping[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _DuplicateKey("an object has the same key twice: which one counts is anybody's guess")
    return found


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _summary(faults: int) -> str:
    if faults > MAX_FAULTS:
        return f"{faults} faults, of which the first {MAX_FAULTS} are listed"
    return "1 fault" if faults == 1 else f"{faults} faults"


def _fault(error: ErrorDetails) -> Fault:
    return Fault(pointer(_without_tag(error["loc"])), error["msg"])


def _without_tag(location: Sequence[int | str]) -> Iterable[int | str]:
    # pydantic names the chosen member of the union after the list index; it is no part of the body.
    if len(location) > 2 and location[0] == "requests" and isinstance(location[1], int):
        return (*location[:2], *location[3:])
    return location


def pointer(parts: Iterable[int | str]) -> str:
    """A JSON Pointer (RFC 6901)."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)
