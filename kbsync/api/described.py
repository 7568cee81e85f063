"""What a route says of itself beside its handler; `openapi` makes the document of it (OP-12)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel

from kbsync.api.answers import Shape


@dataclass(frozen=True)
class Described:
    """`answers`: what comes besides problems: a shape, the media type of what has none, or None for no body.

    `problems` are those of the handler itself; what the guard, the body's reader and the servers behind may answer follows
    from the route's class and from `body` and `query`, the models that validate. `path` describes the path's parts."""

    summary: str
    answers: Mapping[HTTPStatus, Shape[Any] | str | None]
    problems: tuple[HTTPStatus, ...] = ()
    body: type[BaseModel] | None = None
    query: type[BaseModel] | None = None
    path: type[BaseModel] | None = None
