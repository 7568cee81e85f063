"""The Python and the Ruby dispatcher behind one face, so that one suite judges both."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from kbsync.domain.errors import FlagStoreUnavailable
from producers.dispatch import DeliveryError, KnowledgeBaseSyncDispatch, RequestBody

RUBY_FILE = Path(__file__).parents[2] / "producers" / "rails" / "knowledge_base_sync_dispatch.rb"

Flag = Literal["off", "on", "on for 7", "unreadable"]
Call = tuple[str, dict[str, Any]]


@dataclass
class Told:
    """What a producer saw. `reports` are (error class, message, status)."""

    results: list[str] = field(default_factory=list)
    fallbacks: list[dict[str, Any]] = field(default_factory=list)
    reports: list[tuple[str, str, int | None]] = field(default_factory=list)
    log: str = ""


class Driver(Protocol):
    async def run(
        self, url: str, calls: list[Call], *, flag: Flag = "off", timeout_s: float = 5, reporter_fails: bool = False
    ) -> Told: ...


class PythonDriver:
    async def run(
        self, url: str, calls: list[Call], *, flag: Flag = "off", timeout_s: float = 5, reporter_fails: bool = False
    ) -> Told:
        told = Told()

        class FlagOf:
            async def is_enabled(self, name: str, organization_id: int | None = None) -> bool:
                assert name == "pause_api2_knowledge_base_sync"
                if flag == "unreadable":
                    raise FlagStoreUnavailable("gone")
                return flag == "on" or (flag == "on for 7" and organization_id == 7)

        async def fallback(request: RequestBody) -> None:
            told.fallbacks.append(dict(request))

        def report(error: DeliveryError) -> None:
            told.reports.append((type(error).__name__, str(error), error.status))
            if reporter_fails:
                raise RuntimeError("Sentry is gone too")

        dispatch = KnowledgeBaseSyncDispatch(
            url, "s3cret", FlagOf(), fallback=fallback, report=report, timeout_s=timeout_s
        )
        for method, arguments in calls:
            told.results.append(await getattr(dispatch, method)(**arguments))
        await dispatch.close()
        return told


_RUBY = """
input = JSON.parse($stdin.read)
told = { "results" => [], "fallbacks" => [], "reports" => [] }
Row = Struct.new(:id, :organization_id)
flag = lambda do |organization_id|
  raise "gone" if input["flag"] == "unreadable"
  input["flag"] == "on" || (input["flag"] == "on for 7" && organization_id == 7)
end
report = lambda do |error|
  told["reports"] << [error.class.name.split("::").last, error.message, error.status]
  raise "Sentry is gone too" if input["reporter_fails"]
end
fallback = lambda do |request, record|
  raise "the record is handed on" unless record.organization_id == request["organization_id"]
  told["fallbacks"] << request
end
KnowledgeBaseSyncDispatch.default = KnowledgeBaseSyncDispatch.new(
  url: input["url"], token: "s3cret", flag: flag, report: report, fallback: fallback, timeout_s: input["timeout_s"]
)
input["calls"].each do |method, arguments|
  id = arguments.values_at("source_id", "document_id", "crawl_task_id").compact.first
  row = Row.new(id, arguments["organization_id"])
  rest = arguments.key?("url") ? [arguments["url"]] : []
  told["results"] << KnowledgeBaseSyncDispatch.public_send(method, row, *rest)
end
puts JSON.generate(told)
"""


async def ruby(program: str, given: object) -> tuple[Any, str]:
    """Runs a program after the dispatcher's file, with JSON on its standard input and output. Answers its log too."""
    process = await asyncio.create_subprocess_exec(
        "ruby", "-w", "-r", str(RUBY_FILE), "-e", program,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await asyncio.wait_for(process.communicate(json.dumps(given).encode()), 60)
    assert process.returncode == 0, err.decode()
    return json.loads(out), err.decode()


class RubyDriver:
    async def run(
        self, url: str, calls: list[Call], *, flag: Flag = "off", timeout_s: float = 5, reporter_fails: bool = False
    ) -> Told:
        given = {
            "url": url, "calls": calls, "flag": flag, "timeout_s": timeout_s, "reporter_fails": reporter_fails,
        }  # fmt: skip
        said, log = await ruby(_RUBY, given)
        reports = [(name, message, status) for name, message, status in said["reports"]]
        return Told(said["results"], said["fallbacks"], reports, log)
