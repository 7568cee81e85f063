"""Bytes in and out: requests, results, errors; hostile ones are refused, not run."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbsync.domain.errors import PayloadRefused, PayloadTooLarge
from kbsync.domain.requests import Priority
from kbsync.queue import strictjson
from kbsync.queue.encoding import decode_request, encode_request, tenant_key
from kbsync.queue.records import JobRecord, decode_record, describe, storable_result
from tests.queue.support import a_request


class Boom:
    """Unpickling it would end the test process."""

    def __reduce__(self) -> tuple[Any, ...]:
        import os

        return os._exit, (3,)


@pytest.mark.spec("QU-21")
def test_a_request_survives_the_round_trip() -> None:
    payload = {"a": [1, None, True], "text": "Käse \U0001f9c0 \ud800", "big": 2**70, "empty": {}}
    stored = decode_request(encode_request(a_request("j", payload=payload, priority=Priority.URGENT), 17))
    assert (stored.payload, stored.kind, stored.tenant) == (payload, "unit", "org-1")
    assert (stored.priority, stored.enqueued_ms) == (Priority.URGENT, 17)


@pytest.mark.spec("QU-21")
@given(
    value=st.dictionaries(
        st.text(st.characters(exclude_categories=[])),
        st.one_of(st.none(), st.booleans(), st.integers(), st.text(st.characters(exclude_categories=[]))),
    )
)
def test_a_flat_object_is_written_as_the_standard_library_writes_it(value: dict[str, object]) -> None:
    written = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        expected = written.encode()
    except UnicodeEncodeError:  # a lone surrogate
        expected = json.dumps(value, separators=(",", ":")).encode()
    assert strictjson.dumps(value) == expected


@pytest.mark.spec("QU-21")
def test_priority_and_tenant_stand_where_lua_reads_them() -> None:
    encoded = encode_request(a_request("j", tenant="org-7", priority=Priority.BACKGROUND), 17)
    assert encoded.startswith(b'[2,"org-7","unit",17,{')


@pytest.mark.spec("QU-21")
@pytest.mark.parametrize(
    "data",
    [
        pickle.dumps(Boom()),
        pickle.dumps({"f": "unit", "a": (), "k": {}, "t": 1, "et": 1}),
        b"",
        b"\xff\xfe",
        b"17",
        b"[1]",
        b'[7,"t","k",1,{}]',
        b'[true,"t","k",1,{}]',
        b'[1,"t","k",1,17]',
        b'[1,"t","k",1,[],3]',
        b'{"f":1}',
        b'[1,"t","k",1,{"x":NaN}]',
        b"[" * 100_000,
        b"9" * 5_000,
    ],
)
def test_bytes_that_are_no_request_are_refused_and_never_run(data: bytes) -> None:
    with pytest.raises(PayloadRefused):
        decode_request(data)


@pytest.mark.spec("QU-21")
def test_a_plain_dict_of_an_arq_producer_with_a_json_serializer_is_read() -> None:
    stored = decode_request(json.dumps({"t": None, "f": "unit", "a": [{"x": 1}], "k": {}, "et": 5}).encode())
    assert (stored.kind, stored.payload, stored.enqueued_ms) == ("unit", {"x": 1}, 5)
    with pytest.raises(PayloadRefused):
        _ = decode_request(json.dumps({"t": None, "f": "unit", "a": [1, 2], "k": {}, "et": 5}).encode()).payload


@pytest.mark.spec("QU-21")
def test_a_payload_over_256_kib_is_refused() -> None:
    encode_request(a_request("j", payload={"x": "y" * 262_000}), 1)
    with pytest.raises(PayloadTooLarge):
        encode_request(a_request("j", payload={"x": "y" * 262_144}), 1)


def _cycle() -> dict[str, object]:
    found: dict[str, object] = {}
    found["self"] = found
    return found


def _deep() -> dict[str, object]:
    found: dict[str, object] = {}
    for _ in range(100_000):
        found = {"d": found}
    return found


HOSTILE: list[dict[str, object]] = [
    {"x": float("nan")},
    {"x": {1, 2}},
    {"x": object()},
    {"x": b"bytes"},
    _cycle(),
    _deep(),
]


@pytest.mark.spec("QU-21")
@pytest.mark.parametrize("payload", HOSTILE, ids=["nan", "set", "object", "bytes", "cycle", "deep"])
def test_what_is_not_json_is_refused_at_enqueue(payload: dict[str, object]) -> None:
    with pytest.raises(PayloadRefused):
        encode_request(a_request("j", payload=payload), 1)


@pytest.mark.spec("QU-21")
@pytest.mark.parametrize(
    "request_parts",
    [{"job_id": ""}, {"job_id": "a b"}, {"job_id": "a\n"}, {"job_id": "x" * 513}, {"kind": 'k"'}, {"kind": ""},
     {"delay_ms": -1}, {"job_id": "\ud800"}],
)  # fmt: skip
def test_unusable_ids_kinds_and_delays_are_refused(request_parts: dict[str, Any]) -> None:
    with pytest.raises(PayloadRefused):
        encode_request(a_request(**{"job_id": "j", **request_parts}), 1)


@pytest.mark.spec("QU-15")
def test_unusual_tenant_names_are_hashed_each_to_its_own_key() -> None:
    names = ['a"b', "a|b", "", "x" * 65, "ümlaut", "\ud800", "a\0r"]
    keys = [tenant_key(name) for name in names]
    assert len(set(keys)) == len(names)
    assert all(key.startswith("h-") and len(key) == 34 for key in keys)
    assert tenant_key("org-1") == "org-1"


@pytest.mark.spec("QU-07")
@pytest.mark.parametrize("result", HOSTILE, ids=["nan", "set", "object", "bytes", "cycle", "deep"])
def test_a_result_that_is_no_json_is_stored_as_a_cut_text_that_says_so(result: dict[str, object]) -> None:
    stored = json.loads(storable_result(result))
    assert stored["not_storable"]
    assert len(json.dumps(stored)) < 4_000


@pytest.mark.spec("QU-17")
def test_a_result_over_64_kib_is_stored_cut_and_says_so() -> None:
    assert json.loads(storable_result({"x": "y" * 60_000})) == {"x": "y" * 60_000}
    stored = json.loads(storable_result({"x": "ä" * 60_000}))
    assert stored["cut"] is True
    assert stored["bytes"] > 64 * 1024
    assert stored["text"].startswith('{"x":"ä')


class NeedsKeyword(Exception):
    def __init__(self, *, code: int, handle: object) -> None:
        super().__init__(f"code {code}")
        self.handle = handle


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.spec("QU-07", "QU-17")
@pytest.mark.parametrize(
    ("error", "type_ends", "text"),
    [
        (NeedsKeyword(code=3, handle=open), "NeedsKeyword", "code 3"),
        (Unprintable(), "Unprintable", "can't be read"),
        (ValueError("x" * 5_000_000), "ValueError", "(5000000 characters)"),
        (ExceptionGroup("many", [ValueError("\ud800")]), "ExceptionGroup", "many"),
        (KeyError("\0"), "KeyError", "\\x00"),
    ],
)
def test_an_error_is_kept_as_type_message_and_traceback_of_bounded_size(
    error: Exception, type_ends: str, text: str
) -> None:
    """A10"""
    try:
        try:
            raise LookupError("first")
        except LookupError as cause:
            raise error from cause
    except Exception as raised:
        kept = describe(raised)
    assert kept.type.endswith(type_ends)
    assert text in kept.message
    assert "test_encoding.py" in kept.traceback
    assert "caused by LookupError: first" in kept.traceback
    assert len(kept.message) < 2_100
    assert len(kept.traceback) <= 8_000


@pytest.mark.spec("QU-07")
def test_a_deep_traceback_is_bounded() -> None:
    def fall(depth: int) -> None:
        fall(depth + 1)

    with pytest.raises(RecursionError) as raised:
        fall(0)
    assert len(describe(raised.value).traceback) <= 8_000


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b'["c"]', b'["z","1-1",1,"k",1,2,3,1,"t",{}]', b"\x80\x04", b"[" * 9_999]
)
def test_a_record_that_cannot_be_read_is_refused(data: bytes) -> None:
    with pytest.raises(PayloadRefused):
        decode_record("j", data)


def test_a_record_is_read() -> None:
    record: JobRecord = decode_record(
        "j", b'["f","5-1",2,"k",1,2,3,0,"t",{"type":"E"},[0,"t","k",1,{}],[2,1,4,{"errors":[]}]]'
    )
    assert (record.state, record.index_id, record.attempts, record.stalls, record.delays) == ("failed", "5-1", 2, 1, 4)
