"""What Sentry gets, and the Ruby file's defaults inside and outside a Rails app."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import sentry_sdk
from sentry_sdk.envelope import Envelope
from sentry_sdk.transport import Transport

from kbsync.flags.memory import MemoryFlags
from producers.dispatch import DeliveryError, Dispatched, KnowledgeBaseSyncDispatch, RequestBody
from tests.dispatch.conftest import FakeApi
from tests.dispatch.drivers import ruby


class Captured(Transport):
    def __init__(self) -> None:
        super().__init__()
        self.events: list[Any] = []

    def capture_envelope(self, envelope: Envelope) -> None:
        self.events.append(envelope.get_event())


@pytest.fixture
def sentry() -> Iterator[Captured]:
    captured = Captured()
    sentry_sdk.init(dsn="http://key@127.0.0.1:9/1", transport=captured, default_integrations=False)
    yield captured
    sentry_sdk.init()


@pytest.mark.spec("KS-07")
async def test_sentry_gets_a_warning_with_the_class_and_without_the_token(api: FakeApi, sentry: Captured) -> None:
    api.statuses = [503]
    fallbacks: list[RequestBody] = []

    async def fallback(request: RequestBody) -> None:
        fallbacks.append(request)

    url = api.url.replace("http://", "http://user:pass@")
    dispatch = KnowledgeBaseSyncDispatch(url, "s3cret", MemoryFlags(), fallback=fallback)
    assert await dispatch.start_crawl(organization_id=7, crawl_task_id=1) == Dispatched.FELL_BACK
    assert await dispatch.start_crawl(organization_id=7, crawl_task_id=1) == Dispatched.ACCEPTED
    await dispatch.close()
    assert len(fallbacks) == 1
    (event,) = sentry.events
    assert event["level"] == "warning"
    assert event["exception"]["values"][-1]["type"] == DeliveryError.__name__
    assert event["exception"]["values"][-1]["value"].endswith("/internal/knowledge_base_sync/enqueue answered 503")
    tags = {name: value for name, value in event["tags"].items() if name != "part"}  # a process's own tag
    assert tags == {"kbsync.request_type": "start_crawl", "kbsync.organization_id": "7"}
    assert "s3cret" not in str(event["exception"])
    assert "pass@" not in str(event["exception"])


_IN_RAILS = """
input = JSON.parse($stdin.read)
$seen = { "flipper" => [], "sentry" => [], "log" => [] }
module Flipper
  def self.enabled?(flag, actor)
    $seen["flipper"] << [flag, actor.flipper_id, actor.flipper_properties]
    false
  end
end
module Sentry
  def self.capture_exception(error, level:)
    $seen["sentry"] << [error.class.name, error.message, level, error.cause.class.name]
  end
end
module Rails
  def self.logger
    Class.new { def self.warn(text) = $seen["log"] << text }
  end
end
fallback = ->(request, record) { $seen["fell_back"] = request }
dispatch = KnowledgeBaseSyncDispatch.new(url: input["url"], token: "s3cret", fallback: fallback)
$seen["answer"] = dispatch.sync_source(Struct.new(:id, :organization_id).new(12, 7))
puts JSON.generate($seen)
"""

_WITHOUT_RAILS = """
input = JSON.parse($stdin.read)
unset = begin
  KnowledgeBaseSyncDispatch.sync_source(nil)
rescue RuntimeError => error
  error.message
end
row = Struct.new(:id, :organization_id).new(12, 7)
fell_back = []
fallback = ->(request, _) { fell_back << request }
dispatch = KnowledgeBaseSyncDispatch.new(url: input["url"], token: "s3cret", fallback: fallback)
answers = [dispatch.sync_source(row), dispatch.sync_source(row)]
answers << dispatch.crawl_url(row, "https://example.org/\\xff")
puts JSON.generate("unset" => unset, "answers" => answers, "fell_back" => fell_back.size)
"""


@pytest.mark.needs("ruby")
@pytest.mark.spec("KS-07")
async def test_inside_rails_it_asks_flipper_and_tells_sentry_and_the_log(api: FakeApi) -> None:
    api.statuses = [429]
    seen, _ = await ruby(_IN_RAILS, {"url": api.url})
    assert seen["answer"] == "fell_back"
    assert seen["flipper"] == [["pause_api2_knowledge_base_sync", "Organization;7", {"id": 7, "type": "Organization"}]]
    ((name, message, level, _),) = seen["sentry"]
    assert (name, level) == ("KnowledgeBaseSyncDispatch::DeliveryError", "warning")
    assert message.endswith("/enqueue answered 429")
    assert len(seen["log"]) == 1
    assert seen["fell_back"] == {"type": "sync_source", "source_id": 12, "organization_id": 7}


@pytest.mark.needs("ruby")
@pytest.mark.spec("KS-07")
async def test_outside_rails_it_works_alone_and_a_url_that_is_no_text_falls_back(api: FakeApi) -> None:
    api.statuses = [202, 503]
    said, log = await ruby(_WITHOUT_RAILS, {"url": api.url})
    assert said["answers"] == ["accepted", "fell_back", "fell_back"]
    assert said["fell_back"] == 2
    assert "default is not set" in said["unset"]
    assert "answered 503; falling back" in log
