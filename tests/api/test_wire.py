"""SE-04, SE-05: bytes that no client library sends. Each is a 4xx or a closed connection, and never a page."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from ops.embedded.redis import EmbeddedRedis
from tests.api.conftest import ENQUEUE
from tests.api.served import Served, served_api
from tests.databases import Databases


@pytest.fixture(scope="module")
def served(databases: Databases, redis_server: EmbeddedRedis) -> Iterator[Served]:
    with served_api(databases, redis_server) as api:
        yield api


def exchange(served: Served, sent: bytes) -> bytes:
    """All that comes back until the server closes, or is silent for as long as a connection may be kept."""
    with socket.create_connection(("127.0.0.1", served.port), timeout=10) as connection:
        connection.sendall(sent)
        received = b""
        while part := connection.recv(65_536):
            received += part
        return received


def was_ended_by_the_server(connection: socket.socket, more: bytes, *, within_s: float) -> bool:
    """Sends `more` every moment, for as long as the server likes: whether it is the server that ends it."""
    connection.settimeout(0.1)
    begun = time.monotonic()
    while time.monotonic() - begun < within_s:
        try:
            connection.sendall(more)
            if connection.recv(65_536) == b"":
                return True
        except TimeoutError:
            continue
        except OSError:
            return True
    return False


def head(served: Served, line: str, *headers: str, token: bool = True) -> bytes:
    lines = [line, "Host: kbsync", *([f"Authorization: Bearer {served.token}"] if token else []), *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def status_of(answer: bytes) -> int:
    assert answer.startswith((b"HTTP/1.1 ", b"HTTP/1.0 ")), answer[:200]
    return int(answer[9:12])


BODY = b'{"requests": [{"type": "sync_source", "organization_id": 1, "source_id": 1}]}'
JSON = "Content-Type: application/json"
POST = f"POST {ENQUEUE} HTTP/1.1"
HOSTILE_HEADS = {
    "both lengths": (POST, [JSON, f"Content-Length: {len(BODY)}", "Transfer-Encoding: chunked"]),
    "two lengths": (POST, [JSON, "Content-Length: 5", f"Content-Length: {len(BODY)}"]),
    "a signed length": (POST, [JSON, f"Content-Length: +{len(BODY)}"]),
    "a length with a comma": (POST, [JSON, "Content-Length: 5, 5"]),
    "a blank before the colon": (POST, [JSON, f"Content-Length : {len(BODY)}"]),
    "an unknown coding": (POST, [JSON, "Transfer-Encoding: chunked, gibberish"]),
    "a coding with a tail": (POST, [JSON, "Transfer-Encoding: xchunked"]),
    "a folded header": (POST, [JSON, "X-Folded: a\r\n b", f"Content-Length: {len(BODY)}"]),
    "a NUL in a header": ("GET /v1/queues HTTP/1.1", ["X-Nul: a\0b"]),
    "a bare newline in a header": ("GET /v1/queues HTTP/1.1", ["X-Line: a\rb"]),
    "a huge header": ("GET /v1/queues HTTP/1.1", ["X-Huge: " + "x" * 20_000]),
    "a huge address": (f"GET /v1/search?q={'x' * 20_000} HTTP/1.1", []),
    "no version": ("GET /v1/queues", []),
    "another protocol": ("GET /v1/queues HTTP/9.9", []),
    "no method": ("/v1/queues HTTP/1.1", []),
    "a method of signs": ("G<T /v1/queues HTTP/1.1", []),
    "a script as method": ("<script>alert(1)</script> / HTTP/1.1", []),
}


@pytest.mark.spec("SE-04", "SE-05")
@pytest.mark.parametrize("name", HOSTILE_HEADS)
def test_a_malformed_head_is_a_4xx_in_our_words_and_the_end_of_the_connection(name: str, served: Served) -> None:
    line, headers = HOSTILE_HEADS[name]
    smuggled = head(served, "GET /v1/queues HTTP/1.1")
    answer = exchange(served, head(served, line, *headers) + BODY + smuggled)
    assert 400 <= status_of(answer) < 500, answer[:300]
    assert answer.count(b"HTTP/1.") == 1, "what came after was taken for a request"
    answer_head, _, body = answer.partition(b"\r\n\r\n")
    assert b"Content-Type: application/problem+json" in answer_head
    assert b"X-Content-Type-Options: nosniff" in answer_head
    assert b"<script" not in body
    assert b"xxxx" not in body


@pytest.mark.spec("SE-04")
@pytest.mark.parametrize(
    "line",
    [
        "TRACE / HTTP/1.1",
        "TRACE /v1/queues HTTP/1.1",
        "CONNECT example.org:443 HTTP/1.1",
        "OPTIONS * HTTP/1.1",
        "PROPFIND /v1/queues HTTP/1.1",
        "DELETE /v1/queues HTTP/1.1",
        "HEAD /v1/queues HTTP/1.1",
        "GET http://example.org/v1/nowhere HTTP/1.1",
        "GET //example.org/%2e%2e/etc/passwd HTTP/1.1",
        "GET /v1/queues/../../x HTTP/1.1",
        "GET /%00 HTTP/1.1",
        "GET /%ff%fe HTTP/1.1",
    ],
)
def test_odd_methods_and_addresses_are_4xx_and_repeat_nothing(line: str, served: Served) -> None:
    marker = "X-Secret: do-not-repeat-me"
    answer = exchange(served, head(served, line, marker, "Connection: close"))
    assert 400 <= status_of(answer) < 500, answer[:300]
    assert b"do-not-repeat-me" not in answer
    assert b"text/html" not in answer
    assert b"example.org" not in answer


@pytest.mark.spec("SE-04")
def test_an_origin_gets_no_permission_and_a_preflight_is_refused(served: Served) -> None:
    for line in ("GET /v1/queues HTTP/1.1", f"OPTIONS {ENQUEUE} HTTP/1.1"):
        answer = exchange(
            served,
            head(
                served,
                line,
                "Origin: https://evil.example",
                "Access-Control-Request-Method: POST",
                "Connection: close",
            ),
        )
        assert b"access-control" not in answer.lower()
        assert b"evil.example" not in answer
    assert status_of(answer) == 405


@pytest.mark.spec("SE-04")
@pytest.mark.parametrize(
    ("header", "status"),
    [
        ("X-Request-Id: a%0d%0aSet-Cookie: b=c", 200),
        ("X-Request-Id: <script>", 200),
        ("traceparent: 00-%0d%0a", 200),
        ("X-Forwarded-Host: evil.example", 200),
        ("Expect: something-else", 417),
    ],
)
def test_a_header_comes_back_neither_as_a_header_nor_in_a_body(header: str, status: int, served: Served) -> None:
    answer = exchange(served, head(served, "GET /v1/queues HTTP/1.1", header, "Connection: close"))
    assert status_of(answer) == status
    answer_head = answer.partition(b"\r\n\r\n")[0]
    assert b"Set-Cookie" not in answer_head
    assert b"<script" not in answer
    assert b"evil.example" not in answer
    assert b"text/html" not in answer_head
    assert b"nosniff" in answer_head


@pytest.mark.spec("SE-04", "OP-12")
@pytest.mark.parametrize("accept", ["text/html", "*/*", "application/xhtml+xml"])
def test_what_a_caller_says_comes_back_as_json_only(accept: str, served: Served) -> None:
    script = b'{"requests": [{"type": "<script>alert(1)</script>", "<img src=x>": 1}]}'
    answer = exchange(
        served,
        head(served, POST, JSON, f"Content-Length: {len(script)}", f"Accept: {accept}", "Connection: close") + script,
    )
    assert status_of(answer) == 422
    assert b"Content-Type: application/problem+json; charset=utf-8" in answer
    assert b"nosniff" in answer


@pytest.mark.spec("SE-05")
@pytest.mark.parametrize(
    ("first", "more"),
    [
        (b"GET /", b"x"),
        (b"GET /v1/queues HTTP/1.1\r\n", b"X-Slow: yes\r\n"),
        (b"GET /healthz HTTP/1.1\r\nHost: k\r\n\r\nGET /v1/queues HTTP/1.1\r\n", b"X-Slow: yes\r\n"),
    ],
    ids=["in the address", "in a header", "after an answer"],
)
def test_a_head_that_does_not_come_to_its_end_is_not_waited_for(first: bytes, more: bytes, served: Served) -> None:
    with socket.create_connection(("127.0.0.1", served.port), timeout=10) as connection:
        connection.sendall(first)
        assert was_ended_by_the_server(connection, more, within_s=8)
