"""LS-01: what each answer of the enqueue route promises."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from kbsync.api import bodies
from kbsync.api.acceptance import Acceptance
from kbsync.api.services import ApiServices
from kbsync.domain.requests import Priority, SyncSource
from kbsync.library.principals import Role
from kbsync.queue.jobs import Enqueued, JobRequest
from kbsync.settings import load_settings
from tests.api.conftest import ENQUEUE, Api, new_token, serve, source
from tests.producers.doubles import MemoryQueue, Switch, redis_is_down


@pytest.mark.spec("LS-01", "QU-01")
async def test_202_answers_each_request_in_order_and_registers_it_as_owed(api: Api) -> None:
    chunks = {"type": "document_chunks", "organization_id": 7, "document_id": 3}
    status, body, _ = await api.post({"requests": [source(1), chunks, source(2)]})
    assert status == 202
    assert body == {
        "requests": [
            {"job_id": "kb-source-sync-1", "outcome": "created", "rerun": False},
            {"job_id": "kb-document-chunks-3", "outcome": "created", "rerun": False},
            {"job_id": "kb-source-sync-2", "outcome": "created", "rerun": False},
        ]
    }
    job = api.queue.jobs["kb-source-sync-1"]
    assert (job.kind, job.tenant, job.priority, job.rerun_if_active) == ("sync_source", "org-7", Priority.NORMAL, True)
    assert job.payload == {"version": 1, "type": "sync_source", "organization_id": 7, "source_id": 1}
    assert await api.unit_requests() == ["kb-document-chunks-3", "kb-source-sync-1", "kb-source-sync-2"]


@pytest.mark.spec("LS-01", "QU-03")
async def test_a_request_for_an_active_job_is_a_rerun_and_one_that_is_twice_in_a_batch_is_one(api: Api) -> None:
    await api.post({"requests": [source(1)]})
    api.queue.active.add("kb-source-sync-1")
    status, body, _ = await api.post({"requests": [source(1), source(2), source(2)]})
    assert status == 202
    assert body["requests"] == [
        {"job_id": "kb-source-sync-1", "outcome": "already_queued", "rerun": True},
        {"job_id": "kb-source-sync-2", "outcome": "created", "rerun": False},
        {"job_id": "kb-source-sync-2", "outcome": "already_queued", "rerun": False},
    ]


@pytest.mark.spec("LS-01")
async def test_fifty_equal_posts_at_once_make_one_job_and_no_server_error(api: Api) -> None:
    answers = await asyncio.gather(*(api.post({"requests": [source(1)]}) for _ in range(50)))
    assert {status for status, _, _ in answers} == {202}
    assert api.queue.created == {"kb-source-sync-1": 1}
    assert await api.unit_requests() == ["kb-source-sync-1"]


@pytest.mark.spec("LS-01")
async def test_503_with_retry_after_and_no_row_when_the_queue_is_down(api: Api) -> None:
    api.queue.fail = redis_is_down
    status, body, headers = await api.post({"requests": [source(1)]})
    assert (status, headers["Content-Type"].split(";")[0]) == (503, "application/problem+json")
    assert int(headers["Retry-After"]) >= 1
    assert body["type"] == "urn:kbsync:problem:unavailable"
    assert await api.unit_requests() == []


@pytest.mark.spec("LS-01")
async def test_503_when_the_second_queue_fails_and_the_repeat_gives_each_once(api: Api) -> None:
    chunks = {"type": "document_chunks", "organization_id": 7, "document_id": 3}
    api.queue.fail = lambda jobs: redis_is_down(jobs) if jobs[0].kind == "document_chunks" else None
    status, _, _ = await api.post({"requests": [source(1), chunks]})
    assert status == 503
    assert await api.unit_requests() == []
    api.queue.fail = lambda _: None
    status, _, _ = await api.post({"requests": [source(1), chunks]})
    assert status == 202
    assert api.queue.created == {"kb-source-sync-1": 1, "kb-document-chunks-3": 1}


@pytest.mark.spec("LS-01")
async def test_503_when_postgres_cannot_record_the_promise(api: Api) -> None:
    await api.post({"requests": [source(1)]})  # the token is remembered from here on
    await api.database.close()
    status, _, headers = await api.post({"requests": [source(2)]})
    assert status == 503
    assert "Retry-After" in headers
    assert list(api.queue.created) == ["kb-source-sync-1"]


@pytest.mark.spec("LS-01")
async def test_422_names_every_fault_with_its_path(api: Api) -> None:
    status, body, _ = await api.post(
        {
            "requests": [
                source(1),
                {"type": "sync_source", "organization_id": "7", "source_id": 0},
                {"type": "burn", "organization_id": 7},
                {"organization_id": 7},
                source(2) | {"surprise": 1},
                {"type": "crawl_url", "organization_id": 7, "crawl_task_id": 1, "url": "https://a.example/\0"},
                {"type": "sync_document", "organization_id": 7, "document_id": 2**63},
                {
                    "type": "crawl_url",
                    "organization_id": 7,
                    "crawl_task_id": 1,
                    "url": "https://a.example/" + "x" * 9000,
                },
            ]
        }
    )
    assert status == 422
    errors = body["errors"]
    assert isinstance(errors, list)
    assert [error["pointer"] for error in errors] == [
        "/requests/1/organization_id",
        "/requests/1/source_id",
        "/requests/2",
        "/requests/3",
        "/requests/4/surprise",
        "/requests/5/url",
        "/requests/6/document_id",
        "/requests/7/url",
    ]
    assert api.queue.calls == []


HOSTILE = {
    "empty": b"",
    "not json": b"{",
    "not an object": b"[]",
    "no requests": b"{}",
    "empty batch": b'{"requests": []}',
    "duplicate key": b'{"requests": [], "requests": [{"type": "sync_source", "organization_id": 1, "source_id": 1}]}',
    "duplicate key inside": b'{"requests": [{"type": "scan", "organization_id": 1, "organization_id": 2}]}',
    "nested bomb": b"[" * 200_000,
    "nested objects": b'{"requests":' * 100_000,
    "huge integer": b'{"requests": [{"type": "sync_source", "organization_id": 1, "source_id": '
    + b"9" * 10_000
    + b"}]}",
    "float id": b'{"requests": [{"type": "sync_source", "organization_id": 1, "source_id": 1e400}]}',
    "whole float id": b'{"requests": [{"type": "sync_source", "organization_id": 1, "source_id": 1.0}]}',
    "boolean id": b'{"requests": [{"type": "sync_source", "organization_id": true, "source_id": 1}]}',
    "newer version": b'{"requests": [{"type": "sync_source", "organization_id": 1, "source_id": 1, "version": 2}]}',
    "NaN": b'{"requests": [{"type": "sync_source", "organization_id": NaN, "source_id": 1}]}',
    "NUL": b'{"requests": [{"type": "sync_source\\u0000", "organization_id": 1, "source_id": 1}]}',
    "NUL in a url": b'{"requests": [{"type": "crawl_url", "organization_id": 1, "crawl_task_id": 1, "url": "a\\u0000b"}]}',
    "lone surrogate": b'{"requests": [{"type": "crawl_url", "organization_id": 1, "crawl_task_id": 1, "url": "\\ud800"}]}',
    "lone surrogate as type": b'{"requests": [{"type": "\\ud800"}]}',
    "lone surrogate as key": b'{"requests": [], "\\ud800": 1}',
    "not utf-8": b'{"requests": ["\xff"]}',
    "utf-16": '{"requests": []}'.encode("utf-16"),
    "byte order mark": b"\xef\xbb\xbf{}",
    "a tick's scan": b'{"requests": [{"type": "scan", "date": "2026-11-30"}]}',
    "a scan of no date": b'{"requests": [{"type": "scan", "date": "2026-13-30", "manual_id": "x"}]}',
}


@pytest.mark.spec("LS-01")
async def test_a_hostile_body_is_422_and_nothing_is_enqueued(api: Api) -> None:
    for name, body in HOSTILE.items():
        status, answer = await api.post_raw(body)
        assert (status, bool(answer["errors"])) == (422, True), (name, answer)
    assert api.queue.calls == []


@pytest.mark.spec("LS-01")
async def test_413_415_and_a_batch_that_is_too_long(api: Api) -> None:
    status, _ = await api.post_raw(b" " * (2 * 1024 * 1024 + 1))
    assert status == 413
    for headers in (
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "application/json; charset=utf-16"},
        {"Content-Encoding": "gzip"},
    ):
        assert (await api.post_raw(b"{}", **headers))[0] == 415
    status, body, _ = await api.post({"requests": [source(n) for n in range(1, 1_002)]})
    assert status == 422
    errors = body["errors"]
    assert isinstance(errors, list)
    assert [error["pointer"] for error in errors] == ["/requests"]


@pytest.mark.spec("LS-01")
async def test_the_longest_batch_passes_in_one_call_a_queue(api: Api) -> None:
    status, body, _ = await api.post({"requests": [source(n) for n in range(1, 1_001)]})
    assert status == 202
    answers = body["requests"]
    assert isinstance(answers, list)
    assert len(answers) == 1_000
    assert [len(call) for call in api.queue.calls] == [1_000]
    assert len(await api.unit_requests()) == 1_000


@pytest.mark.spec("LS-01")
async def test_429_names_the_wait_and_another_token_is_not_held_back(api: Api) -> None:
    settings = load_settings(api_requests_per_second=3)
    queue = MemoryQueue()
    client = await serve(ApiServices(api.database, queue, queue, Switch(), settings))
    other = await new_token(api.database, Role.PRODUCER, name="other")

    async def post(token: str, count: int) -> tuple[int, str | None]:
        body = {"requests": [source(n) for n in range(1, count + 1)]}
        headers = {"Authorization": f"Bearer {token}"}
        async with client.post(ENQUEUE, json=body, headers=headers) as answer:
            return answer.status, answer.headers.get("Retry-After")

    # Nine requests of one token in less than three seconds: some must be refused.
    answers = [await post(api.token, 3) for _ in range(3)]
    refused = [retry_after for status, retry_after in answers if status == 429]
    assert refused
    assert set(refused) == {"1"}
    assert (await post(other.text, 3))[0] == 202
    await client.close()


@pytest.mark.spec("LS-01", "CP-22")
async def test_a_bound_token_asks_for_its_own_organization_only(api: Api) -> None:
    api.token = (await new_token(api.database, Role.PRODUCER, organization_id=7)).text
    scan = {"type": "scan", "date": "2026-11-30", "manual_id": "0b6c6dd0-3b3b-4f1e-8f43-5f2f3a6b0001"}
    status, body, _ = await api.post({"requests": [source(1, 7), source(2, 8), scan]})
    assert status == 403
    errors = body["errors"]
    assert isinstance(errors, list)
    assert [error["pointer"] for error in errors] == ["/requests/1/organization_id", "/requests/2/organization_id"]
    assert api.queue.calls == []
    assert (await api.post({"requests": [source(1, 7)]}))[0] == 202


@pytest.mark.spec("LS-04")
async def test_a_scan_by_hand_is_accepted_and_owed(api: Api) -> None:
    manual = "0b6c6dd0-3b3b-4f1e-8f43-5f2f3a6b0001"
    status, _, _ = await api.post({"requests": [{"type": "scan", "date": "2026-11-30", "manual_id": manual}]})
    assert status == 202
    assert list(api.queue.jobs) == [f"kb-scan-manual-{manual}"]
    assert api.queue.jobs[f"kb-scan-manual-{manual}"].tenant == "fleet"
    assert await api.unit_requests() == [f"kb-scan-manual-{manual}"]


async def test_errors_hold_no_secret(api: Api) -> None:
    status, body = await api.post_raw(
        b'{"requests": [{"type": "sync_source", "organization_id": "hunter2", "source_id": 1}]}'
    )
    assert status == 422
    assert "hunter2" not in json.dumps(body)
    assert api.token not in json.dumps(body)


@pytest.mark.spec("LS-01", "SE-05")
async def test_a_body_that_does_not_arrive_is_408(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "READ_TIMEOUT_S", 0.05)
    arrives = asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield b'{"requests": ['
        await arrives.wait()

    headers = api.auth | {"Content-Type": "application/json"}
    async with api.client.post(ENQUEUE, data=slow(), headers=headers) as answer:
        assert answer.status == 408
        assert answer.content_type == "application/problem+json"
    arrives.set()
    assert api.queue.calls == []


@pytest.mark.spec("LS-01")
async def test_callers_that_come_while_others_are_on_their_way_share_a_group(api: Api) -> None:
    entered, leave = asyncio.Event(), asyncio.Event()
    real = api.queue.enqueue

    async def slow(queue: str, requests: list[JobRequest]) -> list[Enqueued]:
        entered.set()
        await leave.wait()
        return await real(queue, requests)

    acceptance = Acceptance(api.database, api.queue)
    api.queue.enqueue = slow  # type: ignore[method-assign]
    calls = [asyncio.create_task(acceptance.accept([SyncSource(organization_id=7, source_id=n)])) for n in range(1, 21)]
    await entered.wait()
    calls[5].cancel()  # a caller that goes away takes nobody with it
    leave.set()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [answer[0].job_id for answer in answers if isinstance(answer, list)] == [
        f"kb-source-sync-{n}" for n in range(1, 21) if n != 6
    ]
    assert len(api.queue.calls) <= 4
    assert len(await api.unit_requests()) == 20
