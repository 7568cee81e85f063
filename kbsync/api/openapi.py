"""The OpenAPI 3.1 document, made of the route table and of the models that validate and answer (OP-12)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, Protocol

from aiohttp import web
from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, models_json_schema
from pydantic_core import core_schema

import kbsync
from kbsync.api.answers import JSON, Shape
from kbsync.api.auth import ROLES_OF, RouteClass
from kbsync.api.described import Described
from kbsync.api.problems import CONTENT_TYPE, PROBLEM

_REF = "#/components/schemas/{model}"
_SCHEME = "bearer"
_AS_NAME = str.maketrans({"/": "_", ".": "_", "{": None, "}": None})
_GUARD = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
_BODY = (
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
)
_HEADERS = {
    HTTPStatus.FOUND: {"Location": "Where it is now."},
    HTTPStatus.UNAUTHORIZED: {"WWW-Authenticate": "How to say who is calling."},
    HTTPStatus.TOO_MANY_REQUESTS: {"Retry-After": "Seconds until the same call may pass."},
    HTTPStatus.SERVICE_UNAVAILABLE: {"Retry-After": "Seconds until the same call may pass."},
}
DESCRIBED = Described("This document.", {HTTPStatus.OK: JSON})
DOCUMENT: web.AppKey[bytes] = web.AppKey("openapi", bytes)


class RouteView(Protocol):
    @property
    def method(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def route_class(self) -> RouteClass: ...
    @property
    def described(self) -> Described: ...


async def openapi(request: web.Request) -> web.Response:
    return web.Response(body=request.app[DOCUMENT], content_type=JSON, charset="utf-8")


def document_of(routes: Iterable[RouteView]) -> dict[str, Any]:
    """After: every route of the table is an operation, with its inputs, each status that it may answer, and who may call."""
    schemas = _Schemas()
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "kbsync",
            "version": kbsync.__version__,
            "description": "Asks for units of work, searches the library, looks at the fleet. A 202 is a promise; on any "
            "other answer no promise was made, and the same request again is safe.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "securitySchemes": {_SCHEME: {"type": "http", "scheme": "bearer", "description": "`kbsync token create`"}},
        },
    }


def encoded(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode()


def _operation(route: RouteView, schemas: _Schemas) -> dict[str, Any]:
    described = route.described
    is_open = route.route_class is RouteClass.HEALTH
    operation: dict[str, Any] = {
        "operationId": f"{route.method.lower()}{route.path}".translate(_AS_NAME),
        "summary": described.summary,
        "tags": [str(route.route_class)],
        "security": [] if is_open else [{_SCHEME: []}],
        "responses": _answers(described, schemas) | _problems(described, schemas, is_open=is_open),
    }
    if not is_open:
        operation["description"] = "For the roles " + ", ".join(sorted(ROLES_OF.get(route.route_class, ()))) + "."
    parameters = [
        *(_parameters(described.path, "path") if described.path is not None else ()),
        *(_parameters(described.query, "query") if described.query is not None else ()),
    ]
    if parameters:
        operation["parameters"] = parameters
    if described.body is not None:
        schema = schemas.of_model(described.body)
        operation["requestBody"] = {"required": True, "content": {JSON: {"schema": schema}}}
    return operation


def _answers(described: Described, schemas: _Schemas) -> dict[str, Any]:
    answers: dict[str, Any] = {}
    for status, answer in described.answers.items():
        said: dict[str, Any] = {"description": status.phrase}
        if status in _HEADERS:
            said["headers"] = _headers(status)
        if isinstance(answer, Shape):
            said["content"] = {JSON: {"schema": schemas.of_shape(answer)}}
        elif answer is not None:
            said["content"] = {answer: {"schema": {"type": "object"} if answer == JSON else {"type": "string"}}}
        answers[str(int(status))] = said
    return answers


def _problems(described: Described, schemas: _Schemas, *, is_open: bool) -> dict[str, Any]:
    statuses = {HTTPStatus.BAD_REQUEST, HTTPStatus.INTERNAL_SERVER_ERROR, *described.problems}
    if not is_open:
        statuses.update(_GUARD, (HTTPStatus.SERVICE_UNAVAILABLE,))
    if described.body is not None:
        statuses.update(_BODY)
    if described.query is not None:
        statuses.add(HTTPStatus.UNPROCESSABLE_ENTITY)
    return {
        str(int(status)): {
            "description": status.phrase,
            "content": {CONTENT_TYPE: {"schema": schemas.of_shape(PROBLEM)}},
            **({"headers": _headers(status)} if status in _HEADERS else {}),
        }
        for status in sorted(statuses - set(described.answers))
    }


def _headers(status: HTTPStatus) -> dict[str, Any]:
    return {
        name: {"description": text, "required": True, "schema": {"type": "string"}}
        for name, text in _HEADERS[status].items()
    }


def _parameters(model: type[BaseModel], place: str) -> list[dict[str, Any]]:
    schema = model.model_json_schema()
    required = set(schema.get("required", ()))
    return [
        {"name": name, "in": place, "required": name in required, "schema": _without_null(field)}
        for name, field in schema["properties"].items()
    ]


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A parameter that may be left out has no word for null."""
    choices: list[dict[str, Any]] = [choice for choice in schema.get("anyOf", ()) if choice != {"type": "null"}]
    if len(choices) != 1:
        return schema
    return {key: value for key, value in schema.items() if key not in ("anyOf", "default")} | choices[0]


def _require_tags(definitions: Mapping[str, Any]) -> None:
    """Who chooses among several shapes needs the tag, though each shape has a default for its own."""
    for schema in definitions.values():
        for field in schema.get("properties", {}).values():
            for tag, names in _tagged(field):
                for name in names:
                    required = definitions[name].setdefault("required", [])
                    if tag not in required:
                        required.insert(0, tag)


def _tagged(schema: Mapping[str, Any]) -> Iterable[tuple[str, list[str]]]:
    found = schema.get("items", schema).get("discriminator")
    if found is not None:
        yield found["propertyName"], [reference.rsplit("/", 1)[1] for reference in found["mapping"].values()]


class _AsWritten(GenerateJsonSchema):
    """What is written has every field; a default is for who makes the value, not for who reads it."""

    def field_is_required(
        self,
        field: core_schema.ModelField | core_schema.DataclassField | core_schema.TypedDictField,
        total: bool,
    ) -> bool:
        return True


class _Schemas:
    """The named schemas of the document, collected while operations refer to them."""

    def __init__(self) -> None:
        self.components: dict[str, Any] = {}

    def of_model(self, model: type[BaseModel]) -> dict[str, Any]:
        mode: JsonSchemaMode = "validation"
        references, definitions = models_json_schema([(model, mode)], ref_template=_REF)
        found = definitions.get("$defs", {})
        _require_tags(found)
        self._add(found)
        reference: dict[str, Any] = references[(model, mode)]
        return reference

    def of_shape(self, shape: Shape[Any]) -> dict[str, Any]:
        schema = shape.adapter.json_schema(ref_template=_REF, mode="serialization", schema_generator=_AsWritten)
        self._add(schema.pop("$defs", {}))
        name = schema.get("title")
        if not isinstance(name, str) or schema.get("type") != "object":
            return schema
        self._add({name: schema})
        return {"$ref": _REF.format(model=name)}

    def _add(self, definitions: Mapping[str, Any]) -> None:
        for name, schema in definitions.items():
            if self.components.setdefault(name, schema) != schema:
                raise ValueError(f"two schemas are called {name}")
