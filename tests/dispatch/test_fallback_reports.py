"""Both dispatchers tell kbsync how often they fell back: best effort, and at nobody's cost."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web
from yarl import URL

from kbsync.domain.errors import FlagStoreUnavailable
from kbsync.flags.memory import MemoryFlags
from ops.embedded.process import free_port
from producers import fallback_reports
from producers.dispatch import ENQUEUE_PATH, KnowledgeBaseSyncDispatch, RequestBody
from producers.fallback_reports import FALLBACKS_PATH, FallbackReports, reason_of
from tests.dispatch.drivers import ruby


@dataclass
class TwoRoutes:
    """An enqueue API of `statuses` (then 202) that keeps the reports it was sent, and answers them with `told_status`."""

    url: str = ""
    statuses: list[int] = field(default_factory=list)
    told_status: int = 204
    told: list[dict[str, Any]] = field(default_factory=list)
    tokens: set[str | None] = field(default_factory=set)

    async def enqueue(self, request: web.Request) -> web.Response:
        return web.Response(status=self.statuses.pop(0) if self.statuses else 202)

    async def fallbacks(self, request: web.Request) -> web.Response:
        self.tokens.add(request.headers.get("Authorization"))
        if self.told_status == 204:
            self.told.append(await request.json())
        return web.Response(status=self.told_status)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """How long a report may take is not what is tested here, on a machine that may be busy."""
    monkeypatch.setattr(fallback_reports, "TIMEOUT_S", 30.0)


@pytest.fixture
async def api() -> AsyncIterator[TwoRoutes]:
    fake = TwoRoutes()
    app = web.Application()
    app.router.add_post(ENQUEUE_PATH, fake.enqueue)
    app.router.add_post(FALLBACKS_PATH, fake.fallbacks)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    fake.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield fake
    await runner.cleanup()


async def nothing(request: RequestBody) -> None:
    return None


def dispatcher(url: str, flags: Any = None) -> KnowledgeBaseSyncDispatch:
    return KnowledgeBaseSyncDispatch(
        url, "s3cret", flags or MemoryFlags(), fallback=nothing, report=lambda error: None, timeout_s=30
    )


@pytest.mark.spec("OP-08", "KS-07")
async def test_fallbacks_are_told_by_reason_with_the_token(api: TwoRoutes) -> None:
    api.statuses = [503, 422, 500]
    dispatch = dispatcher(api.url)
    for _ in range(4):
        await dispatch.sync_source(organization_id=7, source_id=12)
    await dispatch.close()
    total = {
        reason: sum(one["count"] for one in api.told if one["reason"] == reason)
        for reason in ("server_error", "refused")
    }
    assert total == {"server_error": 2, "refused": 1}
    assert api.tokens == {"Bearer s3cret"}


@pytest.mark.spec("OP-08")
async def test_while_the_api_is_away_they_are_counted_and_told_when_it_is_back(api: TwoRoutes) -> None:
    class Unreadable:
        async def is_enabled(self, name: str, organization_id: int | None = None) -> bool:
            raise FlagStoreUnavailable("gone")

    away = dispatcher(f"http://127.0.0.1:{free_port()}")
    await away.sync_source(organization_id=7, source_id=12)
    assert away._fallbacks.untold == {"no_answer": 1}
    await away.close()  # nobody to tell: it gives up, and raises nothing
    unread = dispatcher(api.url, Unreadable())
    await unread.sync_source(organization_id=7, source_id=12)
    await unread.close()
    assert api.told == [{"count": 1, "reason": "flag_unreadable"}]


async def test_a_report_that_is_refused_is_told_again_and_not_at_every_call(api: TwoRoutes) -> None:
    now = [100.0]
    reports = FallbackReports(URL(api.url), "t", clock=lambda: now[0])
    api.told_status = 503
    reports.note("refused")
    reports.tell_soon()
    assert reports._sending is not None
    await reports._sending
    reports.note("refused")
    api.told_status = 204
    reports.tell_soon()  # too soon
    assert api.told == []
    now[0] += 10
    reports.tell_soon()
    await reports.close()
    assert api.told == [{"count": 2, "reason": "refused"}]
    reports.tell_soon()
    assert len(api.told) == 1


def test_reasons() -> None:
    assert [reason_of(status) for status in (None, 200, 301, 429, 500, 503)] == [
        "no_answer", "refused", "refused", "refused", "server_error", "server_error",
    ]  # fmt: skip


_RUBY = """
KnowledgeBaseSyncDispatch.send(:remove_const, :TELL_WITHIN_S)
KnowledgeBaseSyncDispatch::TELL_WITHIN_S = 30
input = JSON.parse($stdin.read)
row = Struct.new(:id, :organization_id).new(12, 7)
dispatch = KnowledgeBaseSyncDispatch.new(
  url: input["url"], token: "s3cret", fallback: ->(_, _) {}, flag: ->(_) { false }, report: ->(_) {}, timeout_s: 30
)
4.times { dispatch.sync_source(row) }
Thread.list.reject { |thread| thread == Thread.current }.each(&:join)
dispatch.tell_fallbacks
away = KnowledgeBaseSyncDispatch.new(
  url: input["away"], token: "s3cret", fallback: ->(_, _) {}, flag: ->(_) { false }, report: ->(_) {}, timeout_s: 30
)
away.sync_source(row)
puts JSON.generate("away" => away.tell_fallbacks)
"""


@pytest.mark.needs("ruby")
@pytest.mark.spec("OP-08", "KS-07")
async def test_the_ruby_dispatcher_tells_the_same(api: TwoRoutes) -> None:
    api.statuses = [503, 422, 500]
    said, _ = await ruby(_RUBY, {"url": api.url, "away": f"http://127.0.0.1:{free_port()}"})
    total = {
        reason: sum(one["count"] for one in api.told if one["reason"] == reason)
        for reason in ("server_error", "refused")
    }
    assert total == {"server_error": 2, "refused": 1}
    assert api.tokens == {"Bearer s3cret"}
    assert said == {"away": None}
