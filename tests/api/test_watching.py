"""Each request has an id, in its log lines and its answer, and is counted by route."""

from __future__ import annotations

import pytest
import structlog
from aiohttp import web
from structlog.testing import LogCapture

from kbsync.api.watching import REQUEST_ID
from kbsync.telemetry import metrics
from kbsync.telemetry.work import add_ids
from tests.api.conftest import ENQUEUE, Api, source
from tests.telemetry.test_metrics import values


@pytest.mark.spec("OP-08")
async def test_a_plain_request_id_is_kept_and_any_other_replaced(api: Api) -> None:
    for given, kept in (("trace-12.a", True), ("x" * 65, False), ("two words", False), (None, False)):
        headers = {REQUEST_ID: given} if given else {}
        async with api.client.get("/healthz", headers=headers) as answer:
            assert (answer.headers[REQUEST_ID] == given) is kept
            assert len(answer.headers[REQUEST_ID]) <= 64
    async with api.client.get("/nowhere") as answer:
        assert (answer.status, len(answer.headers[REQUEST_ID])) == (401, 16)


@pytest.mark.spec("OP-08")
async def test_a_fault_s_line_has_the_request_s_id(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    captured = LogCapture()
    before = structlog.get_config()
    structlog.configure(processors=[add_ids, captured], cache_logger_on_first_use=False)

    async def broken(*_: object) -> web.Response:
        raise KeyError("column")

    monkeypatch.setattr(type(api.queue), "enqueue", broken)
    async with api.client.post(
        ENQUEUE, json={"requests": [source(1)]}, headers={**api.auth, REQUEST_ID: "r-7"}
    ) as answer:
        assert answer.status == 500
    structlog.configure(**before)
    (line,) = [line for line in captured.entries if line["event"] == "api_fault"]
    assert line["request_id"] == "r-7"


@pytest.mark.spec("OP-08")
async def test_requests_are_counted_by_declared_route_never_by_path(api: Api) -> None:
    before = values(metrics.render())
    await api.post({"requests": [source(1)]})
    async with api.client.get("/some/one/else's/path?q=1") as answer:
        assert answer.status == 401
    async with api.client.request("PROPFIND", "/healthz") as answer:
        assert answer.status >= 400
    after = values(metrics.render())
    name = "kbsync_api_requests_total"
    counted = {labels: after[one, labels] - before.get((one, labels), 0) for one, labels in after if one == name}
    assert {labels for labels, number in counted.items() if number} == {
        ("POST", ENQUEUE, "202"), ("GET", "none", "401"), ("other", "none", "401"),
    }  # fmt: skip
