"""What people come for, in a real browser: each step's sentence on the page, its row, and its entry in the audit (OP-07)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kbsync.domain.ids import QueueName
from kbsync.domain.requests import Priority, SyncSource
from kbsync.library.principals import Role
from kbsync.recovery.promises import accept_units
from tests.acceptance.deployment import until
from tests.browser.conftest import PHONE, WIDE, Window, Windows
from tests.browser.scene import NOTION_401, Scene, scene, workers
from tests.dashboard.conftest import Dashboard
from tests.website.fake_site import Reply

SYNC = "/queues/knowledge-base-sync"


async def click(window: Window, name: str, *, exact: bool = False) -> None:
    """A button or a link of this name."""
    page = window.page
    await (
        page.get_by_role("button", name=name, exact=exact)
        .or_(page.get_by_role("link", name=name, exact=exact))
        .first.click()
    )


@pytest.mark.needs("chromium")
@pytest.mark.spec("OP-07", "OP-06")
@pytest.mark.parametrize("script", [True, False])
async def test_an_operator_finds_a_failure_by_its_error_and_retries_all_of_its_kind(
    dashboard: Dashboard, windows: Windows, tmp_path: Path, script: bool
) -> None:
    person = await dashboard.person(Role.OPERATOR, name="Priya Raman")
    queue = dashboard.fleet.queue(QueueName.SYNC)
    async with scene(dashboard, tmp_path), windows.of(person, script=script) as window:
        await window.open("/")
        await window.sees("need a person")
        await click(window, "Queues", exact=True)
        await click(window, "knowledge-base-sync")
        await window.page.get_by_role("link", name="Failed 18").click()
        await window.page.get_by_label("Error contains").fill("refused the token")
        await click(window, "Filter", exact=True)
        await window.sees(NOTION_401)
        assert await window.page.locator("main table.jobs tbody tr").count() == 14
        await window.page.locator("main tbody tr a").last.click()
        await window.sees("Attempt 1")
        await window.sees(NOTION_401)
        await window.page.go_back()
        await click(window, "Retry all that match")
        await window.sees("14 failed jobs")
        await window.shoot(f"journey-retry-{'script' if script else 'plain'}")
        await click(window, "Retry 14 jobs")

        async def retried() -> bool:
            counts = await queue.counts()
            return (counts.failed, counts.waiting) == (4, 74)

        await until(retried, "14 jobs waiting again")
        if script:
            await window.sees("Done")
        await window.axe() if script else None
    assert ("Priya Raman", "queue.retry", "queue:knowledge-base-sync") in await dashboard.audit() or [
        entry for entry in await dashboard.audit() if entry[0] == "Priya Raman" and "retry" in entry[1]
    ]


@pytest.mark.needs("chromium")
@pytest.mark.spec("OP-07", "QU-13")
@pytest.mark.parametrize("script", [True, False])
async def test_an_operator_pauses_a_queue_and_lets_it_go_on(
    dashboard: Dashboard, windows: Windows, script: bool
) -> None:
    person = await dashboard.person(Role.OPERATOR, name="Priya Raman")
    queue = dashboard.fleet.queue(QueueName.SYNC)
    async with windows.of(person, script=script) as window:
        await window.open(SYNC)
        await click(window, "Pause queue…")
        await window.sees("It hands out no more jobs")
        await window.page.get_by_label("Why (shown on this page").fill("OPS-1 <b>moving</b>")
        await click(window, "Pause queue", exact=True)
        await window.sees("OPS-1 <b>moving</b>")
        assert (await queue.counts()).paused
        await click(window, "Resume queue…")
        await click(window, "Resume queue", exact=True)
        await window.page.get_by_role("button", name="Pause queue…").wait_for()
        assert not (await queue.counts()).paused
    assert [entry[:2] for entry in await dashboard.audit()] == [
        ("Priya Raman", "queue.paused"),
        ("Priya Raman", "queue.resumed"),
    ]


@pytest.mark.needs("chromium")
@pytest.mark.spec("OP-07", "KS-06")
@pytest.mark.parametrize(("script", "size"), [(True, WIDE), (False, WIDE), (True, PHONE)])
async def test_the_kill_switch_is_seen_on_every_page_with_its_reason(
    dashboard: Dashboard, windows: Windows, script: bool, size: tuple[int, int]
) -> None:
    person = await dashboard.person(Role.OPERATOR, name="Priya Raman")
    viewer = await dashboard.person(Role.VIEWER)
    async with windows.of(person, script=script, size=size) as window:
        await window.open("/throttles#kill-switch")
        await click(window, "Turn on…")
        await window.page.get_by_role("radio", name="Every organization").check()
        await window.page.get_by_label("Why (shown on every page)").fill("provider outage, OPS-7")
        await click(window, "Turn on", exact=True)
        for path in ("/", "/queues", "/sources", "/audit", "/settings", "/workers"):
            await window.open(path)
            await window.sees("The kill switch is on for every organization")
            await window.sees("provider outage, OPS-7")
        await window.axe() if script else None
        await window.shoot(f"kill-switch-on-{size[0]}-{'script' if script else 'plain'}")
        assert await dashboard.runtime.kill_switch.paused(None)
    async with windows.of(viewer) as window:
        await window.open("/throttles")
        await window.sees("provider outage, OPS-7")
        assert await window.page.get_by_role("button", name="Turn off").count() == 0
    async with windows.of(person, script=script, size=size) as window:
        await window.open("/throttles#kill-switch")
        await window.page.get_by_role("button", name="Turn off for").click()
        await window.page.get_by_role("radio", name="Only turn off").check()
        await click(window, "Turn off", exact=True)
        await window.open("/")
        assert await window.page.get_by_text("The kill switch is on").count() == 0
    assert [entry[:2] for entry in await dashboard.audit()] == [
        ("Priya Raman", "kill_switch.pause"),
        ("Priya Raman", "kill_switch.resume"),
    ]


@pytest.mark.needs("chromium")
@pytest.mark.spec("OP-07", "OP-05")
async def test_a_crawl_is_watched_while_it_runs(dashboard: Dashboard, windows: Windows, tmp_path: Path) -> None:
    """The page moves by itself: nobody reloads it, and it ends with what the ledger says."""
    person = await dashboard.person(Role.VIEWER)
    async with scene(dashboard, tmp_path) as seen, windows.of(person) as window:
        gate = _hold_some_pages(seen)
        async with workers(dashboard):
            await _sync(dashboard, seen)
            await until(lambda: _a_crawl_runs(dashboard), "a crawl that runs")
            crawl = await _value(dashboard, "select max(id) from knowledge_base_crawl_tasks")
            await window.open(f"/crawls/{crawl}")
            figure = "#progress .tile .figure"
            first = await window.page.locator(figure).first.inner_text()
            gate.set()
            await window.page.wait_for_function(
                f"first => document.querySelector('{figure}').innerText !== first", arg=first, timeout=20_000
            )
            await window.page.get_by_text("completed").first.wait_for(timeout=20_000)
        assert (
            await _value(dashboard, f"select status from knowledge_base_crawl_tasks where id = {crawl}") == "completed"
        )


def _hold_some_pages(seen: Scene) -> asyncio.Event:
    """From now on most pages of the site drip until the event; the first ones come at once."""
    gate = asyncio.Event()
    for n in range(5, 13):
        seen.site.on(f"/docs/{n}", Reply(body=f"<main><h1>Chapter {n}</h1><p>{'slow ' * 3}</p></main>", drip_s=0.05))
    return gate


async def _sync(dashboard: Dashboard, seen: Scene) -> None:
    request = SyncSource(organization_id=seen.organization, source_id=seen.site_source)
    runtime = dashboard.runtime
    await accept_units(runtime.database, runtime.fleet, [request], priority=Priority.URGENT, rerun_if_active=True)


async def _value(dashboard: Dashboard, query: str) -> object:
    async with dashboard.runtime.database.fleet() as connection:
        return await connection.fetchval(query)


async def _a_crawl_runs(dashboard: Dashboard) -> bool:
    query = "select count(*) from knowledge_base_crawl_tasks where status = 'running' and urls_pending > 3"
    return await _value(dashboard, query) == 1


@pytest.mark.needs("chromium")
@pytest.mark.spec("OP-07", "SE-04")
async def test_keys_move_and_open_and_never_act(dashboard: Dashboard, windows: Windows, tmp_path: Path) -> None:
    person = await dashboard.person(Role.OPERATOR)
    async with scene(dashboard, tmp_path), windows.of(person) as window:
        await window.open("/")
        await window.page.keyboard.press("g")
        await window.page.keyboard.press("q")
        await window.page.wait_for_url("**/queues")
        await window.page.keyboard.press("j")
        await window.page.keyboard.press("Enter")
        await window.page.wait_for_url("**/queues/*")
        await window.open(f"{SYNC}?state=failed")
        await window.page.keyboard.press("j")
        await window.page.keyboard.press("x")
        assert await window.page.locator("input[name=job]:checked").count() == 1
        await window.page.keyboard.press("Escape")
        assert await window.page.locator("input[name=job]:checked").count() == 0
        await window.page.keyboard.press("/")
        await window.page.keyboard.type("gq?x")
        assert await window.page.get_by_label("Find a job, source or document").input_value() == "gq?x"
        await window.page.keyboard.press("Escape")
        await window.page.keyboard.press("?")
        await window.sees("Hold live updates")
        await window.axe()
    assert await dashboard.audit() == []
