"""`/metrics` of an API, a worker and a scheduler, as separate processes: closed, and holding what alerts and panels name."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

import ops
from kbsync.db.pool import Database
from kbsync.library.principals import Role
from kbsync.settings import Settings
from ops.embedded.process import free_port
from tests.acceptance.deployment import until
from tests.api.conftest import new_token
from tests.ops.test_alerts import rules

DASHBOARD = Path(ops.__file__).parent / "grafana" / "kbsync.json"
_METRIC = re.compile(r"\b(?:kbsync|process)_[a-z0-9_]+")
_SUFFIX = re.compile(r"_(?:bucket|sum|count)$")


def panels() -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return [panel for panel in loaded if panel["type"] != "row"]


def named() -> set[str]:
    """Every metric in a rule or a panel."""
    expressions = [rule["expr"] for rule in rules()]
    expressions += [target["expr"] for panel in panels() for target in panel["targets"]]
    return {name for expression in expressions for name in _METRIC.findall(expression)}


@contextmanager
def process(settings: Settings, *arguments: str) -> Iterator[None]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KBSYNC_")}
    environment |= {"KBSYNC_DATABASE_URL": settings.database_url or "", "KBSYNC_REDIS_URL": settings.redis_url or ""}
    environment |= {"KBSYNC_PROFILE": "embedded", "KBSYNC_METRICS_OPEN": str(settings.metrics_open).lower()}
    command = [sys.executable, "-m", "ops.cli", *arguments]
    started = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        started.terminate()
        started.wait(20)


async def get(url: str, token: str | None = None) -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as answer:
        return answer.status, await answer.text()


async def answers(port: int) -> bool:
    try:
        return (await get(f"http://127.0.0.1:{port}/readyz"))[0] == 200
    except aiohttp.ClientError:
        return False


async def whole(address: str, token: str) -> str:
    """A scrape in which every part answered in its time: on a busy machine it may take a second one."""
    text = ""

    async def all_up() -> bool:
        nonlocal text
        status, text = await get(address, token)
        return status == 200 and not re.search(r"^kbsync_up\{.*\} 0", text, re.MULTILINE)

    await until(all_up, "a whole scrape")
    return text


@pytest.mark.spec("OP-08", "OP-14")
async def test_every_process_is_scraped_with_a_viewer_s_token_and_has_what_alerts_and_panels_name(
    settings: Settings, database: Database
) -> None:
    viewer = (await new_token(database, Role.VIEWER, name="prometheus")).text
    producer = (await new_token(database, Role.PRODUCER, name="backend")).text
    async with database.fleet() as connection:
        await connection.execute("insert into organizations (name) values ('A')")
        await connection.execute(
            "insert into kbsync.ticks (date, claimed_by, finished_at) values ('2026-01-01', 'w', now())"
        )
        await connection.execute(
            "insert into knowledge_base_sources (organization_id, type, config) values (1, 'files', '{}')"
        )
    ports = {"api": free_port(), "worker": free_port(), "scheduler": free_port()}
    texts: dict[str, str] = {}
    with ExitStack() as stack:
        stack.enter_context(process(settings, "api", "--port", str(ports["api"])))
        stack.enter_context(process(settings, "worker", "--health-port", str(ports["worker"])))
        stack.enter_context(process(settings, "scheduler", "--health-port", str(ports["scheduler"])))
        for name, port in ports.items():
            await until(lambda port=port: answers(port), f"the {name}")  # type: ignore[misc]  # a default, not a capture
            address = f"http://127.0.0.1:{port}/metrics"
            assert (await get(address))[0] == 401, name
            assert (await get(address, "kbs_wrong"))[0] == 401, name
            assert (await get(address, producer))[0] == 403, name
            texts[name] = await whole(address, viewer)
    there = {
        line.split("{")[0].split(" ")[0]
        for text in texts.values()
        for line in text.splitlines()
        if line[:1] not in ("#", "")
    }
    missing = {name for name in named() if name not in there}
    # What has a provider's name in it comes with the first call, delay or closure: its family is announced all the same.
    announced = {
        line.split(" ")[2] for text in texts.values() for line in text.splitlines() if line.startswith("# TYPE ")
    }
    assert {name for name in missing if _SUFFIX.sub("", name) not in announced} == set()
    assert missing <= {name for name in missing if "provider" in name or "throttle" in name}
    for name, text in texts.items():
        assert f'kbsync_build_info{{part="{name}"' in text


@pytest.mark.spec("OP-08")
async def test_an_open_listener_needs_no_token_and_the_api_still_does(settings: Settings, database: Database) -> None:
    opened = settings.model_copy(update={"metrics_open": True})
    worker, api = free_port(), free_port()
    with process(opened, "worker", "--health-port", str(worker)), process(opened, "api", "--port", str(api)):
        await until(lambda: answers(worker), "the worker")
        await until(lambda: answers(api), "the API")
        status, text = await get(f"http://127.0.0.1:{worker}/metrics")
        assert status == 200
        assert 'kbsync_worker_slots{queue="knowledge-base-sync"} 50.0' in text
        assert (await get(f"http://127.0.0.1:{api}/metrics"))[0] == 401


def test_the_dashboard_is_whole() -> None:
    loaded = json.loads(DASHBOARD.read_text())
    ids = [panel["id"] for panel in loaded["panels"]]
    assert len(ids) == len(set(ids))
    assert all(panel["targets"] and panel["title"] for panel in panels())
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in loaded["panels"]]
    assert len(places) == len(set(places))
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in loaded["panels"])
