"""Signing in and out as people do it."""

from __future__ import annotations

import pytest

from kbsync.library.principals import Role
from tests.browser.conftest import PHONE, WIDE, Windows
from tests.dashboard.conftest import Dashboard


@pytest.mark.needs("chromium")
@pytest.mark.spec("OP-07")
@pytest.mark.parametrize("script", [True, False])
async def test_a_token_signs_in_and_out(dashboard: Dashboard, windows: Windows, script: bool) -> None:
    person = await dashboard.person(Role.VIEWER, name="Priya Raman")
    async with windows.of(None, script=script) as window:
        page = window.page
        await window.open("/settings")
        await page.get_by_label("Token").fill("kbs_wrong")
        await page.get_by_role("button", name="Sign in").click()
        await window.sees("This token isn’t known here")
        await page.get_by_label("Token").fill(person.token)
        await page.get_by_role("button", name="Sign in").click()
        await window.sees("Priya Raman")
        assert page.url.endswith("/settings")
        await page.get_by_role("button", name="sign out").click()
        assert page.url.endswith("/login")
        await window.open("/")
        await window.sees("Sign in")


@pytest.mark.needs("chromium")
@pytest.mark.spec("OP-07")
@pytest.mark.parametrize("size", [WIDE, PHONE])
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_the_door_is_for_everybody(
    dashboard: Dashboard, windows: Windows, size: tuple[int, int], scheme: str
) -> None:
    async with windows.of(None, size=size, scheme=scheme) as window:
        await window.open("/login")
        await window.sees("Sign in")
        assert await window.faults_for_everybody() == []
        await window.shoot(f"login-{size[0]}-{scheme}")


@pytest.mark.needs("chromium")
async def test_a_theme_is_kept_without_script_and_without_a_flash(dashboard: Dashboard, windows: Windows) -> None:
    person = await dashboard.person(Role.VIEWER)
    async with windows.of(person, script=False) as window:
        await window.open("/settings")
        await window.page.get_by_role("button", name="Dark").click()
        assert await window.page.locator("html").get_attribute("data-theme") == "dark"
        await window.page.get_by_role("button", name="Follow the system").click()
        assert await window.page.locator("html").get_attribute("data-theme") is None
