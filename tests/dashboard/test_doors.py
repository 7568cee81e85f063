"""Who gets in, who may act, and that a form is really theirs (OP-06, SE-01, SE-04)."""

from __future__ import annotations

import re

import pytest

from kbsync.dashboard.pages import ACTIONS, PAGES
from kbsync.library.principals import Role, revoke_token
from tests.dashboard.conftest import Dashboard


@pytest.mark.spec("OP-06")
async def test_every_page_and_action_is_closed_without_a_principal(dashboard: Dashboard) -> None:
    async with dashboard.stranger() as nobody:
        for page in PAGES:
            path = re.sub(r"\{[^}]+\}", "1", page.path)
            answer = await nobody.raw("GET", path)
            assert answer.status == 401, page.path
            assert "Sign in" in await answer.text()
        for action in ACTIONS:
            path = re.sub(r"\{[^}]+\}", "1", action.path)
            assert (await nobody.raw("POST", path)).status == 401, action.path
        assert (await nobody.raw("GET", "/nowhere", headers={"Accept": "text/html"})).status == 401
        assert (await nobody.raw("GET", "/assets/app.js")).status == 401
        assert (await nobody.raw("GET", "/assets/../site.py")).status in (401, 404)


@pytest.mark.spec("OP-06", "SE-04")
async def test_a_post_needs_the_sessions_token_and_this_origin(dashboard: Dashboard) -> None:
    person = await dashboard.person(Role.OPERATOR)
    own = {"Origin": dashboard.url}
    form = {"theme": "dark", "csrf": person.csrf}
    for headers, fields, status in (
        (own, {"theme": "dark"}, 403),
        (own, {"theme": "dark", "csrf": "0" * 64}, 403),
        ({"Origin": "http://evil.test"}, form, 403),
        ({"Origin": "null"}, form, 403),
        ({"Sec-Fetch-Site": "cross-site"}, form, 403),
        (own, form, 303),
    ):
        answer = await person.raw("POST", "/preferences/theme", data=fields, headers=headers)
        assert answer.status == status, (headers, fields)
    assert (await person.raw("GET", "/preferences/theme")).status in (401, 405)


@pytest.mark.spec("OP-06")
async def test_a_revoked_token_ends_its_sessions_at_once(dashboard: Dashboard) -> None:
    person = await dashboard.person(Role.VIEWER)
    assert (await person.get("/"))[0] == 200
    async with dashboard.runtime.database.fleet() as connection:
        token_id = await connection.fetchval("select max(id) from kbsync.tokens")
        assert await revoke_token(connection, token_id)
    status, text = await person.get("/")
    assert (status, "Sign in" in text) == (401, True)


async def test_a_wrong_token_and_a_programs_token_are_told_apart(dashboard: Dashboard) -> None:
    person = await dashboard.person(Role.VIEWER)
    async with dashboard.stranger() as nobody:
        from tests.dashboard.conftest import csrf_in

        nobody.csrf = csrf_in((await nobody.get("/login"))[1])
        status, text = await nobody.post("/login", token="kbs_wrong")
        assert (status, "isn’t known here" in text) == (401, True)
    assert (await person.post("/logout"))[0] == 200
    assert (await person.get("/"))[0] == 401


@pytest.mark.spec("SE-04")
async def test_nobody_is_sent_elsewhere_by_signing_in(dashboard: Dashboard) -> None:
    person = await dashboard.person(Role.VIEWER)
    async with dashboard.stranger() as nobody:
        from tests.dashboard.conftest import csrf_in

        for wanted in (
            "https://evil.test/",
            "//evil.test",
            "/\\evil.test",
            "/ok\r\nSet-Cookie: a=b",
            "javascript:alert(1)",
        ):
            nobody.csrf = csrf_in((await nobody.get("/login"))[1])
            answer = await nobody.raw(
                "POST",
                "/login",
                data={"csrf": nobody.csrf, "token": person.token, "next": wanted},
                headers={"Origin": dashboard.url},
            )
            assert answer.status == 303
            assert answer.headers["Location"] == "/"
            assert "evil" not in answer.headers.get("Set-Cookie", "")


@pytest.mark.spec("SE-04")
async def test_every_answer_carries_the_strict_headers(dashboard: Dashboard) -> None:
    person = await dashboard.person(Role.VIEWER)
    for path in ("/", "/settings", "/nowhere", "/login", "/assets/style.css"):
        answer = await person.raw("GET", path, headers={"Accept": "text/html"})
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy, path
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["X-Frame-Options"] == "DENY"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


async def test_a_live_page_streams_what_changed(dashboard: Dashboard) -> None:
    person = await dashboard.person(Role.VIEWER)
    async with person.http.get(dashboard.url + "/", headers={"Accept": "text/event-stream"}) as stream:
        assert stream.content_type == "text/event-stream"
        seen = b""
        async for chunk in stream.content.iter_any():
            seen += chunk
            if b"event: stamp" in seen and b"knowledge-base-sync" in seen:
                break
