"""RB-04: the API under what its own document, and a hostile hand, can think of. Real servers, a real port, one seed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.config import (
    ChecksConfig,
    GenerationConfig,
    ProjectConfig,
    ProjectsConfig,
    SchemathesisConfig,
)
from schemathesis.config._checks import NegativeDataRejectionConfig
from schemathesis.specs.openapi.checks import positive_data_acceptance

from kbsync.api.app import ROUTES
from kbsync.api.openapi import document_of
from ops.embedded.redis import EmbeddedRedis
from tests.api.served import Served, served_api
from tests.databases import Databases

BOUNDED = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.function_scoped_fixture],
)


@pytest.fixture(scope="module")
def served(databases: Databases, redis_server: EmbeddedRedis) -> Iterator[Served]:
    with served_api(databases, redis_server) as api:
        yield api


schema = schemathesis.openapi.from_dict(
    document_of(ROUTES),
    config=SchemathesisConfig(
        seed=1,
        projects=ProjectsConfig(
            default=ProjectConfig(
                base_url="http://127.0.0.1",
                checks=ChecksConfig(
                    negative_data_rejection=NegativeDataRejectionConfig(expected_statuses=["4xx"]),
                ),
                generation=GenerationConfig(deterministic=True, database="none"),
            )
        ),
    ),
)


@pytest.mark.spec("RB-04", "OP-12")
@schema.parametrize()
@BOUNDED
def test_every_operation_keeps_to_its_document(case: schemathesis.Case[Any], served: Served) -> None:
    """Data that fits and data that doesn't: no 5xx, no status, media type, header or body that the document lacks; what
    fits is taken, what doesn't is refused; nothing works without a token; other methods are 405."""
    beyond_schemas = case.path == "/v1/search" or has_whole_float(case.body)
    case.call_and_validate(
        base_url=served.url,
        headers=served.auth,
        excluded_checks=[positive_data_acceptance] if beyond_schemas else [],
    )


def has_whole_float(value: object) -> bool:
    """JSON Schema calls 1.0 an integer; an id that is written so is refused, as everywhere."""
    if isinstance(value, dict):
        return any(has_whole_float(part) for part in value.values())
    if isinstance(value, list):
        return any(has_whole_float(part) for part in value)
    return isinstance(value, float) and value.is_integer()


# What a generator of valid JSON never sends.

_request = {"type": "sync_source", "organization_id": 1, "source_id": 1}
_good = json.dumps({"requests": [_request]}).encode()
_huge = st.integers(1, 3_000).map(lambda digits: b"9" * digits)
_raw = st.one_of(
    st.binary(max_size=200),
    st.integers(0, len(_good) - 1).map(lambda at: _good[:at]),
    st.tuples(st.integers(0, len(_good)), st.binary(min_size=1, max_size=4)).map(
        lambda found: _good[: found[0]] + found[1] + _good[found[0] :]
    ),
    st.integers(1, 20_000).map(lambda depth: b"[" * depth),
    st.integers(1, 5_000).map(lambda depth: b'{"requests":' * depth + b"1" + b"}" * depth),
    st.tuples(_huge, st.sampled_from([b"", b".5", b"e999", b"e-999", b".0"])).map(
        lambda found: _good.replace(b'"source_id": 1', b'"source_id": ' + found[0] + found[1])
    ),
    st.sampled_from(
        [b"\\ud800", b"\\udfff\\ud800", b"\\u0000", b"\x00", b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\x1f"]
    ).map(
        lambda text: (
            b'{"requests": [{"type": "crawl_url", "organization_id": 1, "crawl_task_id": 1, "url": "' + text + b'"}]}'
        )
    ),
    st.sampled_from([b"type", b"organization_id", b"\\u0074ype", b"\\ud800", b""]).map(
        lambda key: _good.replace(b"}]}", b', "' + key + b'": 1}]}')
    ),
    st.sampled_from(["utf-16", "utf-32", "utf-8-sig", "utf-7"]).map(lambda encoding: _good.decode().encode(encoding)),
    st.sampled_from([b"NaN", b"Infinity", b"-Infinity", b"nul", b"+1", b"01", b"1_000", b"0x1"]).map(
        lambda word: _good.replace(b'"source_id": 1', b'"source_id": ' + word)
    ),
)
_types = st.one_of(
    st.just("application/json"),
    st.sampled_from(
        [
            "application/json; charset=utf-8",
            "application/json; charset=utf-16",
            'application/json; charset="',
            "application/json; charset=nonsense",
            "application/json; charset=" + "x" * 1_000,
            "text/html",
            "multipart/form-data",
            "multipart/form-data; boundary=",
            "application/x-www-form-urlencoded",
            "/",
            ";",
            "",
        ]
    ),
)


def once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


@pytest.mark.spec("RB-04", "LS-01")
@pytest.mark.parametrize("path", [route.path for route in ROUTES if route.method == "POST"])
@given(body=_raw, content_type=_types)
@settings(BOUNDED, max_examples=80)
def test_raw_bodies_are_refused_unless_they_are_what_the_document_says(
    path: str, body: bytes, content_type: str, served: Served
) -> None:
    answer = requests.post(
        served.url + path, data=body, headers=served.auth | {"Content-Type": content_type}, timeout=10
    )
    if answer.status_code in (202, 204):  # a byte more or less may leave it as good as before
        json.loads(body.decode(), object_pairs_hook=once, parse_constant=pytest.fail)
        assert content_type.startswith("application/json")
        return
    assert answer.status_code in (413, 415, 422), (answer.status_code, answer.text)
    assert answer.headers["Content-Type"] == "application/problem+json; charset=utf-8"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    problem = answer.json()
    assert problem["status"] == answer.status_code
    assert problem["detail"]
    json.dumps(problem, ensure_ascii=False).encode()  # no lone surrogate comes back


@pytest.mark.spec("RB-04")
@given(
    query=st.text(st.characters(exclude_characters="#", exclude_categories=["Cs"]), max_size=80),
    name=st.sampled_from(["q", "organization_id", "limit", "language", "source_id", "\x00", ""]),
)
@settings(BOUNDED, max_examples=60)
def test_raw_queries_are_answered_or_refused(query: str, name: str, served: Served) -> None:
    answer = requests.get(
        f"{served.url}/v1/search",
        params={"organization_id": "1", "q": "x", name: query},
        headers=served.auth,
        timeout=10,
    )
    assert answer.status_code in (200, 400, 422), (answer.status_code, answer.text)
    assert answer.headers["Content-Type"].startswith("application/")
