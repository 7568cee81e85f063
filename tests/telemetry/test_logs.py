"""Log lines: the ids of what they belong to, and nothing that is a secret."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from typing import Any

import pytest
import structlog

from kbsync.queue.jobs import Completed, JobEnd, RunningJob
from kbsync.telemetry import configure_logs, log, log_context
from kbsync.telemetry.redaction import HIDDEN, clean, clean_text, is_secret_name, without_quotations
from tests.telemetry.test_reports import Job
from workers.observing import ObservedJobs

Lines = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def lines() -> Iterator[Lines]:
    """Logs configured as in a process; answers what was written to standard error."""
    root = logging.getLogger()
    handlers, level, before = root.handlers[:], root.level, structlog.get_config()
    root.handlers[:] = []
    written = io.StringIO()
    with redirect_stderr(written):
        configure_logs("json")
    structlog.configure(cache_logger_on_first_use=False)
    yield lambda: [json.loads(line) for line in written.getvalue().splitlines()]
    structlog.configure(**before)
    root.handlers[:], root.level = handlers, level


@pytest.mark.spec("OP-08")
def test_a_line_has_the_ids_of_what_it_belongs_to(lines: Lines) -> None:
    with log_context(job_id="kb-source-sync-1", operation_id="op-7", trace_id="ab" * 16):
        with log_context(request_id="r-1"):
            log.info("inside", count=3)
        log.info("around")
    log.info("outside")
    inside, around, outside = lines()
    assert inside["event"] == "inside"
    assert (inside["job_id"], inside["operation_id"], inside["request_id"]) == ("kb-source-sync-1", "op-7", "r-1")
    assert inside["trace_id"] == "ab" * 16
    assert inside["count"] == 3
    assert "request_id" not in around
    assert around["job_id"] == "kb-source-sync-1"
    assert not {"job_id", "operation_id"} & set(outside)


@pytest.mark.spec("OP-08")
async def test_every_line_of_a_run_names_its_job_and_no_other_does(lines: Lines) -> None:
    async def handler(job: RunningJob) -> JobEnd:
        log.info("working", attempt=7)
        return Completed()

    async def run(name: str) -> None:
        job: RunningJob = Job(job_id=name)  # type: ignore[assignment]  # a plain job
        await ObservedJobs("knowledge-base-sync").handler(handler)(job)

    await asyncio.gather(asyncio.create_task(run("kb-1")), asyncio.create_task(run("kb-2")))
    log.info("beside")
    one, two, beside = lines()
    assert [line["job_id"] for line in (one, two)] == ["kb-1", "kb-2"]
    assert (one["queue"], one["kind"], one["attempt"]) == ("knowledge-base-sync", "sync_document", 7)
    assert "job_id" not in beside


@pytest.mark.spec("OP-08")
def test_no_secret_gets_into_a_line(lines: Lines) -> None:
    log.warning(
        "calling https://bob:hunter2@example.org/a?token=hunter2",
        authorization="Bearer hunter2hunter2",
        body={"password": "hunter2", "nested": [{"api_key": "hunter2"}], "kept": "plain"},
        headers=["Cookie: session=hunter2; token=hunter2"],
        error="401 for Bearer hunter2hunter2 with kbs_hunter2hunter2",
        token_id=4,
    )
    try:
        raise ValueError("postgresql://kbsync:hunter2@db/kbsync is away, secret: hunter2")
    except ValueError:
        log.exception("failed")
    written, fault = lines()
    assert "hunter2" not in json.dumps([written, fault])
    assert written["body"]["kept"] == "plain"
    assert written["token_id"] == 4
    assert "example.org/a" in written["event"]
    assert "ValueError" in fault["exception"]


@pytest.mark.spec("OP-08")
def test_what_other_libraries_log_is_a_line_of_ours(lines: Lines) -> None:
    logging.getLogger("aiohttp.server").error("Error handling request %s", "Bearer hunter2hunter2")
    logging.getLogger("asyncpg").info("quiet")
    (line,) = lines()
    assert (line["event"], line["logger"], line["level"]) == ("library_log", "aiohttp.server", "error")
    assert line["message"] == f"Error handling request Bearer {HIDDEN}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nothing here", "nothing here"),
        ("a basic sample of 12 pages", "a basic sample of 12 pages"),
        ("redis://:pw@host:6379/0", f"redis://{HIDDEN}@host:6379/0"),
        ("see https://example.org/a/b?key=1#part now", f"see https://example.org/a/b?{HIDDEN} now"),
        ('{"access_token": "abc", "x": 1}', f'{{"access_token": {HIDDEN}, "x": 1}}'),
        ("password=abc&x=1", f"password={HIDDEN}&x=1"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", HIDDEN),
        ("Authorization: Basic dXNlcjpwYXNzd29yZA==", f"Authorization: {HIDDEN} {HIDDEN}"),
    ],
)
def test_clean_text(text: str, expected: str) -> None:
    assert clean_text(text) == expected


@pytest.mark.parametrize(
    "name", ["password", "db_password", "Authorization", "apiKey", "access_token", "client_secret"]
)
def test_secret_names(name: str) -> None:
    assert is_secret_name(name)
    assert clean("x", name) == HIDDEN
    assert clean(None, name) is None


@pytest.mark.parametrize("name", ["token_id", "tokenizer", "passage", "secretary", "job_id", "kind"])
def test_names_of_no_secret(name: str) -> None:
    assert not is_secret_name(name)


def test_quotations_of_what_could_not_be_read_go() -> None:
    assert without_quotations("invalid literal for int() with base 10: 'my diary'").endswith("base 10: […]")
    assert "diary" not in without_quotations(
        "Input should be 1 [type=literal, input_value='my diary, p. 2', input_type=str]"
    )
    assert "diary" not in without_quotations('Key (url)=("my diary") exists')
