"""JSON answers. The shape that writes an answer's text also writes its schema, so the document can't lie (OP-12)."""

from __future__ import annotations

from http import HTTPStatus
from typing import Generic, TypeVar

from aiohttp import web
from pydantic import TypeAdapter

JSON = "application/json"
T = TypeVar("T")


class Shape(Generic[T]):
    """A dataclass as a JSON answer. Its texts must hold no lone surrogate: JSON in UTF-8 can't say one."""

    def __init__(self, of: type[T]) -> None:
        self.adapter: TypeAdapter[T] = TypeAdapter(of)

    def text(self, value: T) -> bytes:
        return self.adapter.dump_json(value)

    def response(self, value: T, status: HTTPStatus = HTTPStatus.OK) -> web.Response:
        return web.Response(body=self.text(value), status=status, headers=_JSON_UTF8)


_JSON_UTF8 = {"Content-Type": f"{JSON}; charset=utf-8"}
