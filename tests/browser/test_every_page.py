"""Every page, wide and on a phone, light and dark: no fault, nothing in anybody's way, and a picture to look at (OP-07)."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest

from kbsync.library.principals import Role
from tests.browser.conftest import PHONE, WIDE, Windows
from tests.browser.scene import Scene, scene
from tests.dashboard.conftest import Dashboard

SYNC = "/queues/knowledge-base-sync"


def pages(scene: Scene) -> dict[str, str]:
    return {
        "overview": "/",
        "queues": "/queues",
        "queue-failed": f"{SYNC}?state=failed",
        "queue-waiting": f"{SYNC}?state=waiting",
        "queue-delayed": f"{SYNC}?state=delayed",
        "queue-empty": "/queues/knowledge-loader",
        "job-failed": f"{SYNC}/job?id={quote(scene.failed_job, safe='')}",
        "job-hostile": f"{SYNC}/job?id={quote(scene.hostile_job, safe='')}",
        "throttles": "/throttles",
        "workers": "/workers",
        "sources": "/sources",
        "source-folder": f"/sources/{scene.folder_source}",
        "source-failed": f"/sources/{scene.failed_source}",
        "document": f"/documents/{scene.document}",
        "crawls": "/crawls",
        "crawl": f"/crawls/{scene.crawl}",
        "search": f"/search?q=refund&organization={scene.organization}",
        "search-none": f"/search?q=nothingofthekind&organization={scene.organization}",
        "audit": "/audit",
        "settings": "/settings",
        "find": "/find?q=refund",
        "lost": "/nowhere",
    }


@pytest.mark.needs("chromium")
@pytest.mark.spec("OP-07", "OP-05")
async def test_every_page_is_sound_for_everybody(dashboard: Dashboard, windows: Windows, tmp_path: Path) -> None:
    """Each page is opened once, wide and on a phone, and looked at in both themes."""
    person = await dashboard.person(*Role, name="Priya Raman")
    faults: list[str] = []
    async with scene(dashboard, tmp_path) as seen:
        for size in (WIDE, PHONE):
            async with windows.of(person, size=size) as window:
                for name, path in pages(seen).items():
                    await window.open(path)
                    await window.in_theme("light")
                    await window.shoot(f"{name}-{size[0]}-light")
                    faults += await window.faults_for_everybody()
                    await window.in_theme("dark")
                    await window.shoot(f"{name}-{size[0]}-dark")
                    faults += await window.faults_of_colours()
                faults += window.faults
                window.faults.clear()
    assert not faults, "\n\n".join(faults)


@pytest.mark.needs("chromium")
@pytest.mark.spec("OP-07", "SE-04")
async def test_every_page_reads_without_script_and_as_a_viewer(
    dashboard: Dashboard, windows: Windows, tmp_path: Path
) -> None:
    person = await dashboard.person(Role.VIEWER)
    async with scene(dashboard, tmp_path) as seen, windows.of(person, script=False) as window:
        for name, path in pages(seen).items():
            if name in ("search", "search-none"):
                continue  # for readers
            await window.open(path)
            assert await window.page.locator("h1").count() == 1, name
            buttons = await window.page.locator("main form[method=post] button").all_inner_texts()
            assert buttons == [] or name == "settings", (name, buttons)
