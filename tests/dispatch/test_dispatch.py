"""One suite for both dispatchers: real HTTP, and a real Ruby for the Rails one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kbsync.domain.requests import library_request_adapter
from ops.embedded.process import free_port
from producers.dispatch import ENQUEUE_PATH
from tests.dispatch.conftest import FakeApi
from tests.dispatch.drivers import Call, Driver

SYNC: Call = ("sync_source", {"organization_id": 7, "source_id": 12})
EVERY: list[Call] = [
    SYNC,
    ("sync_document", {"organization_id": 7, "document_id": 13}),
    ("sync_document_chunks", {"organization_id": 8, "document_id": 14}),
    ("start_crawl", {"organization_id": 8, "crawl_task_id": 15}),
    ("crawl_url", {"organization_id": 9, "crawl_task_id": 15, "url": "https://example.org/naïve?q=1"}),
]
REQUESTS: list[dict[str, Any]] = [
    {"type": "sync_source", "organization_id": 7, "source_id": 12},
    {"type": "sync_document", "organization_id": 7, "document_id": 13},
    {"type": "document_chunks", "organization_id": 8, "document_id": 14},
    {"type": "start_crawl", "organization_id": 8, "crawl_task_id": 15},
    {"type": "crawl_url", "organization_id": 9, "crawl_task_id": 15, "url": "https://example.org/naïve?q=1"},
]


@pytest.mark.spec("KS-07")
async def test_accepted_requests_carry_their_organization_and_need_no_fallback(api: FakeApi, driver: Driver) -> None:
    told = await driver.run(api.url + "/", EVERY)
    assert told.results == ["accepted"] * 5
    assert not told.fallbacks
    assert not told.reports
    assert told.log == ""
    assert [received.body for received in api.received] == [{"requests": [request]} for request in REQUESTS]
    for received in api.received:
        assert (received.method, received.path) == ("POST", ENQUEUE_PATH)
        assert (received.authorization, received.content_type) == ("Bearer s3cret", "application/json")


@pytest.mark.spec("KS-07", "LS-01")
@pytest.mark.parametrize("request_body", REQUESTS)
def test_what_they_send_is_what_the_api_takes(request_body: dict[str, Any]) -> None:
    assert library_request_adapter.validate_python(request_body).organization_id == request_body["organization_id"]


@pytest.mark.spec("KS-07")
async def test_only_a_202_is_an_acceptance(api: FakeApi, driver: Driver) -> None:
    statuses = [200, 201, 203, 204, 301, 302, 307, 308, 400, 401, 404, 413, 422, 429, 500, 502, 503]
    api.statuses = list(statuses)
    told = await driver.run(api.url, [SYNC] * len(statuses))
    assert told.results == ["fell_back"] * len(statuses)
    assert told.fallbacks == [REQUESTS[0]] * len(statuses)
    assert [(name, status) for name, _, status in told.reports] == [("DeliveryError", status) for status in statuses]
    # Nobody followed a redirect, with or without the token.
    assert {received.path for received in api.received} == {ENQUEUE_PATH}
    assert len(api.received) == len(statuses)


@pytest.mark.spec("KS-07")
async def test_an_api_that_does_not_answer_costs_the_time_out_and_no_more(api: FakeApi, driver: Driver) -> None:
    api.hang = asyncio.Event()
    told = await driver.run(api.url, [SYNC], timeout_s=0.3)
    assert told.results == ["fell_back"]
    assert told.fallbacks == [REQUESTS[0]]
    ((name, message, status),) = told.reports
    assert (name, status) == ("DeliveryError", None)
    assert "within 0.3 s" in message
    assert "s3cret" not in message + told.log


@asynccontextmanager
async def a_server_that_says(words: bytes, *, drip: bool = False) -> AsyncIterator[str]:
    closing = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(words)
        while drip and not closing.is_set():  # one byte now and then: each read is quick, the whole is not
            writer.write(b"x")
            await asyncio.sleep(0.05)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    closing.set()
    server.close()
    await server.wait_closed()


@pytest.mark.spec("KS-07")
@pytest.mark.parametrize("words", [b"", b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 2", b"HTTP/1.1 202 Acc"])
async def test_a_broken_answer_is_no_acceptance(words: bytes, driver: Driver) -> None:
    async with a_server_that_says(words) as url:
        told = await driver.run(url, [SYNC], timeout_s=2)
    assert told.results == ["fell_back"]
    assert told.fallbacks == [REQUESTS[0]]
    assert [name for name, _, _ in told.reports] == ["DeliveryError"]


@pytest.mark.spec("KS-07")
async def test_a_dripping_answer_is_cut_at_the_time_out(driver: Driver) -> None:
    async with a_server_that_says(b"HTTP/1.1 202 Accepted\r\nX-Long: ", drip=True) as url:
        told = await driver.run(url, [SYNC], timeout_s=0.5)
    assert told.results == ["fell_back"]


@pytest.mark.spec("KS-07")
async def test_a_refused_connection_falls_back(driver: Driver) -> None:
    told = await driver.run(f"http://127.0.0.1:{free_port()}", EVERY)
    assert told.results == ["fell_back"] * 5
    assert told.fallbacks == REQUESTS
    assert len(told.reports) == 5


@pytest.mark.spec("KS-07")
async def test_with_the_flag_on_the_fallback_runs_at_once_and_the_api_is_never_called(
    api: FakeApi, driver: Driver
) -> None:
    told = await driver.run(api.url, EVERY, flag="on")
    assert told.results == ["fell_back"] * 5
    assert told.fallbacks == REQUESTS
    assert told.reports == []
    assert api.received == []


@pytest.mark.spec("KS-07", "KS-06")
async def test_a_flag_for_one_organization_holds_for_that_one(api: FakeApi, driver: Driver) -> None:
    told = await driver.run(api.url, EVERY, flag="on for 7")
    assert told.results == ["fell_back"] * 2 + ["accepted"] * 3
    assert told.fallbacks == REQUESTS[:2]


@pytest.mark.spec("KS-07")
async def test_a_flag_that_can_t_be_read_loses_no_work(api: FakeApi, driver: Driver) -> None:
    told = await driver.run(api.url, [SYNC], flag="unreadable")
    assert told.results == ["fell_back"]
    assert told.fallbacks == [REQUESTS[0]]
    assert [(name, status) for name, _, status in told.reports] == [("DeliveryError", None)]
    assert api.received == []


@pytest.mark.spec("KS-07")
async def test_a_reporter_that_fails_does_not_cost_the_fallback(api: FakeApi, driver: Driver) -> None:
    api.statuses = [503]
    told = await driver.run(api.url, [SYNC], reporter_fails=True)
    assert told.fallbacks == [REQUESTS[0]]
