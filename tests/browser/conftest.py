"""A real Chromium that looks at a real deployment, and fails the test for what a person would not see: console errors,
reports of the content policy, answers of 5xx, requests to elsewhere (OP-07)."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, BrowserContext, Page, async_playwright

from kbsync.settings import Settings
from tests.dashboard.conftest import Dashboard, Person, dashboard

__all__ = ["dashboard"]

SCREENSHOTS = Path(os.environ.get("KBSYNC_SCREENSHOTS", Path(__file__).parents[2] / ".cache" / "screenshots"))
WIDE, PHONE = (1280, 900), (390, 844)
_FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
_RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
_COLOURS = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
# What the policy refuses is said on the console too; the event names the rule.
_LISTEN = (
    "document.addEventListener('securitypolicyviolation',"
    " e => console.error('CSP ' + e.violatedDirective + ' ' + e.blockedURI))"
)


@dataclass
class Window:
    """One window of a person. `faults` must be empty at the end (`clean`)."""

    url: str
    context: BrowserContext
    page: Page
    faults: list[str] = field(default_factory=list)

    async def open(self, path: str) -> None:
        await self.page.goto(self.url + path)

    async def sees(self, text: str) -> None:
        """Waits until the text is visible somewhere on the page."""
        await self.page.get_by_text(text).first.wait_for(state="visible", timeout=10_000)

    async def axe(self, rules: Mapping[str, object] = _RULES) -> None:
        """Nothing that axe knows of stands between this page and somebody who can't see or point.

        It is judged in a window as tall as the page: a sticky bar covers what a person would scroll from under it."""
        tall = await self.page.evaluate("document.documentElement.scrollHeight")
        async with self.as_tall_as(tall):
            found = await Axe().run(self.page, options=dict(rules))
        assert found.violations_count == 0, f"{self.page.url}\n{found.generate_report()}"

    @asynccontextmanager
    async def as_tall_as(self, pixels: int) -> AsyncIterator[None]:
        size = self.page.viewport_size
        assert size is not None
        await self.page.set_viewport_size({"width": size["width"], "height": max(pixels, size["height"])})
        await self.page.evaluate("scrollTo(0, 0)")
        try:
            yield
        finally:
            await self.page.set_viewport_size(size)

    async def is_not_wider_than_the_window(self) -> None:
        wide = await self.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert wide[0] <= wide[1], f"{self.page.url} scrolls sideways: {wide}"

    async def in_theme(self, scheme: str) -> None:
        await self.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")

    async def faults_for_everybody(self) -> list[str]:
        """What `axe` and `is_not_wider_than_the_window` find, in words."""
        return [*await _fault_of(self.axe()), *await _fault_of(self.is_not_wider_than_the_window())]

    async def faults_of_colours(self) -> list[str]:
        """What another theme can do to a page that is sound otherwise."""
        return await _fault_of(self.axe(_COLOURS))

    async def shoot(self, name: str) -> None:
        """A screenshot of the whole page, kept as an artifact."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        await self.page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)

    def is_clean(self) -> None:
        assert self.faults == []


@dataclass
class Windows:
    browser: Browser
    url: str

    @asynccontextmanager
    async def of(
        self,
        person: Person | None,
        *,
        size: tuple[int, int] = WIDE,
        scheme: str = "light",
        script: bool = True,
    ) -> AsyncIterator[Window]:
        """A window of somebody who is signed in (None: of a stranger). It must be clean when it closes."""
        context = await self.browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme="dark" if scheme == "dark" else "light",
            java_script_enabled=script,
            locale="en-GB",
            reduced_motion="reduce",  # a colour that is still on its way is no colour to judge
        )
        if person is not None:
            await context.add_cookies(
                [{"name": c.key, "value": c.value, "url": self.url} for c in person.http.cookie_jar]
            )
        if script:
            await context.add_init_script(_LISTEN)
        page = await context.new_page()
        window = Window(self.url, context, page)
        _watch(window)
        try:
            yield window
            window.is_clean()
        finally:
            await context.close()


async def _fault_of(look: Awaitable[None]) -> list[str]:
    try:
        await look
    except AssertionError as fault:
        return [str(fault)]
    return []


def _watch(window: Window) -> None:
    page, faults = window.page, window.faults
    page.on(
        "console", lambda m: faults.append(f"console: {m.text}") if m.type == "error" and not _said(m.text) else None
    )
    page.on("pageerror", lambda error: faults.append(f"script: {error}"))
    page.on("response", lambda r: faults.append(f"{r.status} {r.url}") if r.status >= 500 else None)
    page.on("request", lambda r: faults.append(f"elsewhere: {r.url}") if not r.url.startswith(window.url) else None)


def _said(text: str) -> bool:
    """Chromium says of every 4xx answer that it is one; tests ask for those on purpose."""
    return "the server responded with a status of 4" in text


@pytest.fixture
def settings(settings: Settings, tmp_path: Path) -> Settings:
    """As everywhere, and a folder of the test's own may be a source."""
    return settings.model_copy(update={"files_roots": [str(tmp_path)]})


@pytest.fixture
async def windows(dashboard: Dashboard) -> AsyncIterator[Windows]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=shutil.which("chromium"), args=_FLAGS)
        yield Windows(browser, dashboard.url)
        await browser.close()
