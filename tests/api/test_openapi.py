"""OP-12: the OpenAPI document says what the routes take and answer, for every route there is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbsync.api import bodies
from kbsync.api.answers import Shape
from kbsync.api.app import ROUTES
from kbsync.api.auth import ROLES_OF, RouteClass
from kbsync.api.described import Described
from kbsync.api.openapi import document_of
from kbsync.api.problems import Problem
from kbsync.library.principals import Role
from tests.api.conftest import Api, new_token

DOCUMENT = document_of(ROUTES)


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def references(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref":
                yield value
            else:
                yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


@pytest.mark.spec("OP-12")
async def test_every_route_that_the_app_serves_is_an_operation_and_nothing_else_is(api: Api) -> None:
    served = {
        (route.method, route.resource.canonical)
        for route in api.client.server.app.router.routes()  # type: ignore[attr-defined]
        if route.resource is not None
    }
    assert {(method, path) for method, path, _ in operations(DOCUMENT)} == served
    assert len({operation["operationId"] for _, _, operation in operations(DOCUMENT)}) == len(served)


@pytest.mark.spec("OP-12")
@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_a_route_says_what_it_is_what_it_answers_and_who_may_call(route: Any) -> None:
    assert isinstance(route.described, Described)
    assert route.described.summary
    assert route.described.answers
    operation = DOCUMENT["paths"][route.path][route.method.lower()]
    if route.route_class is RouteClass.HEALTH:
        assert operation["security"] == []
        assert "401" not in operation["responses"]
    else:
        assert operation["security"] == [{"bearer": []}]
        assert {"401", "403", "500", "503"} <= set(operation["responses"])
        assert all(role in operation["description"] for role in ROLES_OF[route.route_class])
    assert ("requestBody" in operation) == (route.described.body is not None)
    if route.method == "POST":
        assert {"408", "413", "415", "422"} <= set(operation["responses"])


@pytest.mark.spec("OP-12")
def test_its_schemas_are_sound_and_its_references_lead_somewhere() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    for reference in references(DOCUMENT):
        if reference.startswith("#/components/schemas/"):
            assert reference.rsplit("/", 1)[1] in schemas
    for name, schema in schemas.items():
        jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})
        assert schema["title"] == name
    union = schemas["EnqueueBody"]["properties"]["requests"]["items"]
    for reference in union["discriminator"]["mapping"].values():
        assert "type" in schemas[reference.rsplit("/", 1)[1]]["required"]
    assert DOCUMENT["paths"]["/v1/search"]["get"]["parameters"][4] == {
        "name": "source_id",
        "in": "query",
        "required": False,
        "schema": {"title": "Source Id", "type": "integer", "minimum": 1, "maximum": 2**63 - 1},
    }


@pytest.mark.spec("OP-12")
async def test_any_principal_reads_it_and_nobody_else(api: Api) -> None:
    async with api.client.get("/openapi.json") as answer:
        assert answer.status == 401
    for role in Role:
        token = (await new_token(api.database, role, name=f"reads-{role}")).text
        async with api.client.get("/openapi.json", headers={"Authorization": f"Bearer {token}"}) as answer:
            assert (answer.status, answer.content_type) == (200, "application/json")
            assert await answer.json() == json.loads(json.dumps(DOCUMENT))


def test_two_different_schemas_of_one_name_are_refused() -> None:
    from dataclasses import make_dataclass

    from kbsync.api.openapi import _Schemas

    schemas = _Schemas()
    schemas.of_shape(Shape(make_dataclass("Twin", [("a", int)])))
    with pytest.raises(ValueError, match="Twin"):
        schemas.of_shape(Shape(make_dataclass("Twin", [("b", int)])))


# The one-pass reader says yes to nothing that the careful one refuses, and reads the same.

_ids = st.one_of(
    st.integers(1, 2**63 - 1), st.integers(-2, 2), st.just(2**63), st.booleans(), st.floats(), st.just("7")
)
_urls = st.text(st.sampled_from('a:/"\\,{}é\x00'), max_size=12)
_keys = st.sampled_from(
    ["type", "organization_id", "source_id", "document_id", "url", "crawl_task_id", "version", "x:y"]
)
_values = st.one_of(
    _ids, _urls, st.sampled_from(["sync_source", "sync_document", "crawl_url", "scan"]), st.just(1), st.none()
)


def _spelled(key: str, value: object, *, escaped: bool) -> str:
    name = json.dumps(key)
    if escaped:
        name = '"' + "".join(f"\\u{ord(letter):04x}" for letter in key) + '"'
    return f"{name}: {json.dumps(value)}"


_good = st.one_of(
    st.fixed_dictionaries(
        {"type": st.just("sync_source"), "organization_id": st.integers(1, 9), "source_id": st.integers(1, 9)}
    ),
    st.fixed_dictionaries(
        {
            "type": st.just("crawl_url"),
            "organization_id": st.integers(1, 9),
            "crawl_task_id": st.integers(1, 9),
            "url": _urls.filter(bool),
        }
    ),
)
_pairs = st.one_of(
    _good.map(lambda request: list(request.items())),
    st.tuples(_good, _keys, _values).map(lambda found: [*found[0].items(), (found[1], found[2])]),
    st.lists(st.tuples(_keys, _values), max_size=5),
)


@st.composite
def _bodies(draw: st.DrawFn) -> bytes:
    escaped = draw(st.integers(0, 4)) == 0
    requests = [
        "{" + ", ".join(_spelled(key, value, escaped=escaped) for key, value in pairs) + "}"
        for pairs in draw(st.lists(_pairs, max_size=3))
    ]
    text = '{"requests": [' + ", ".join(requests) + "]}"
    return (text[:-1] + ', "requests": []}' if draw(st.integers(0, 9)) == 0 else text).encode()


@pytest.mark.spec("LS-01", "RB-04")
@given(body=_bodies())
def test_the_quick_reader_agrees_with_the_careful_one(body: bytes) -> None:
    quick = bodies._parse_at_once(body)
    if quick is None:
        return
    bodies._refuse_loose_json(body)
    assert quick == bodies.EnqueueBody.model_validate_json(body).requests


@pytest.mark.spec("LS-01")
@pytest.mark.parametrize(
    "request_text",
    [
        '{"type": "sync_source", "organization_id": 1, "source_id": 1, "source_id": 2}',
        '{"type": "crawl_url", "organization_id": 1, "crawl_task_id": 1, "url": "a:b", "url": "a:b"}',
        '{"type": "crawl_url", "organization_id": 1, "crawl_task_id": 1, "url": "\\u003a", "crawl_task_id": 1}',
        '{"type": "crawl_url", "organization_id": 1, "crawl_task_id": 1, "url": ":::::", "url": "::::"}',
    ],
)
def test_a_key_that_is_there_twice_is_seen_whatever_colons_stand_around(request_text: str) -> None:
    body = f'{{"requests": [{request_text}]}}'.encode()
    assert bodies._parse_at_once(body) is None
    with pytest.raises(Problem) as refused:
        bodies.parse_enqueue(body)
    assert "twice" in refused.value.detail
