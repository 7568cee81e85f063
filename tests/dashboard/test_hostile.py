"""Hostile words in every place where a page takes some: shown as text, never as markup, never as a way elsewhere (SE-04)."""

from __future__ import annotations

import re
from urllib.parse import quote, urlencode

import pytest

from kbsync.dashboard.pages import ACTIONS, PAGES
from kbsync.library.principals import Role
from tests.dashboard.conftest import Dashboard

MARKUP = "\"'><script>alert(1)</script><img src=x onerror=alert(1)>{{7*7}}"
WORDS = (
    "q", "state", "kind", "tenant", "error", "age", "cursor", "after", "before", "id", "organization", "provider", "status",
    "source", "actor", "action", "target", "since", "until", "next", "page", "do", "data_source", "parent", "text", "title",
    "outcome", "from", "to", "first",
)  # fmt: skip
LINES = "x\r\nSet-Cookie: stolen=1\r\n\r\n<b>"


def paths() -> list[str]:
    return [re.sub(r"\{queue[^}]*\}", "knowledge-base-sync", page.path) for page in PAGES]


@pytest.mark.spec("SE-04")
@pytest.mark.parametrize("text", [MARKUP, LINES, "\u202e\x00\x1b[31m", "9" * 100, "javascript:alert(1)"])
async def test_what_an_address_says_is_never_markup(dashboard: Dashboard, text: str) -> None:
    person = await dashboard.person(*Role)
    for path in paths():
        for place in {re.sub(r"\{[^}]+\}", "1", path), re.sub(r"\{[^}]+\}", quote(text, safe=""), path)}:
            query = urlencode(dict.fromkeys(WORDS, text))
            answer = await person.raw("GET", f"{place}?{query}", headers={"Accept": "text/html"})
            body = await answer.text()
            assert answer.status in (200, 303, 400, 404, 409), (place, answer.status, body[:300])
            assert "<script>alert" not in body, place
            assert "<img src=x" not in body, place
            assert 'href="javascript:' not in body, place
            assert "stolen" not in str(answer.headers), place
            assert answer.headers["Content-Type"].startswith("text/html"), place


@pytest.mark.spec("SE-04", "OP-06")
@pytest.mark.parametrize("text", [MARKUP, LINES, "\x00", "9" * 100])
async def test_what_a_form_says_is_refused_or_kept_as_text(dashboard: Dashboard, text: str) -> None:
    """No action falls over hostile fields, leads elsewhere, or answers as anything but our own pages."""
    person = await dashboard.person(*Role)
    fields = dict.fromkeys(
        [*WORDS, "why", "limit", "max_active", "window_s", "scope", "redrive", "back", "job", "theme"], text
    )
    for action in ACTIONS:
        path = re.sub(r"\{queue[^}]*\}", "knowledge-base-sync", action.path)
        path = re.sub(r"\{[^}]+\}", "1", path)
        answer = await person.raw(
            "POST", path, data={**fields, "csrf": person.csrf}, headers={"Origin": dashboard.url}
        )  # fmt: skip
        assert answer.status in (303, 400, 404, 409), (path, answer.status, (await answer.text())[:300])
        if answer.status == 303:
            to = answer.headers["Location"]
            assert to.startswith("/"), to
            assert not to.startswith("//"), to
            assert "\r" not in to + "\n", to
            shown = await person.raw("GET", to)
            assert "<script>alert" not in await shown.text(), path
        assert "stolen" not in str(answer.headers)


@pytest.mark.spec("SE-04")
@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
async def test_other_methods_do_nothing(dashboard: Dashboard, method: str) -> None:
    person = await dashboard.person(*Role)
    for path in ("/", "/kill-switch/on", "/queues/knowledge-base-sync/pause", "/login"):
        answer = await person.raw(method, path, headers={"X-HTTP-Method-Override": "POST", "Origin": dashboard.url})
        assert answer.status in (400, 401, 404, 405), (method, path)
        assert "Access-Control-Allow-Origin" not in answer.headers
    assert await dashboard.audit() == []


@pytest.mark.spec("SE-04", "OP-06")
async def test_no_state_changes_by_a_get(dashboard: Dashboard) -> None:
    person = await dashboard.person(*Role)
    for action in ACTIONS:
        path = re.sub(r"\{queue[^}]*\}", "knowledge-base-sync", action.path)
        path = re.sub(r"\{[^}]+\}", "1", path)
        answer = await person.raw("GET", f"{path}?csrf={person.csrf}&why=x&scope=all&theme=dark")
        assert answer.status in (401, 404, 405), path
    assert await dashboard.audit() == []


@pytest.mark.spec("SE-04")
async def test_forms_of_another_kind_or_size_are_refused(dashboard: Dashboard) -> None:
    person = await dashboard.person(Role.OPERATOR)
    origin = {"Origin": dashboard.url}
    multipart = {"Content-Type": "multipart/form-data; boundary=x", **origin}
    answer = await person.raw("POST", "/preferences/theme", data=b"--x--", headers=multipart)
    assert answer.status == 415
    large = {"theme": "dark", "csrf": person.csrf, "x": "y" * 100_000}
    answer = await person.raw("POST", "/preferences/theme", data=large, headers=origin)
    assert answer.status == 413
