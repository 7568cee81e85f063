"""Every page and every action of the dashboard, and the one way in for all: who, may they, do it, say so (OP-05, OP-06).

`install(app, services)` adds the routes; `lost` answers a browser at an address that nobody serves.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from kbsync.dashboard import rendering
from kbsync.dashboard.answers import Handler, bare, form_of, html, lead_out, see_other, unavailable, with_headers
from kbsync.dashboard.ask import Access, ActionRefused, Ask, GoTo, LeadOut, NotHere, NotNow, may
from kbsync.dashboard.bulk import BulkRunner
from kbsync.dashboard.frame import Frame, frame_of
from kbsync.dashboard.live import Streams
from kbsync.dashboard.page import SERVICES, Action, Page
from kbsync.dashboard.pages import ACTIONS, PAGES, login
from kbsync.dashboard.pages.bulk import RUNNER
from kbsync.dashboard.pages.login import sign_in
from kbsync.dashboard.services import DashboardServices
from kbsync.dashboard.session import Session, is_csrf_right, is_same_site, is_secure, session_of, set_cookie
from kbsync.domain.errors import ServerUnavailable
from kbsync.library.dashboard_sessions import Notice, leave_notice

STREAMS: web.AppKey[Streams] = web.AppKey("dashboard_streams", Streams)


def install(app: web.Application, services: DashboardServices) -> None:
    """Adds every page and action to `app`, each guarded by itself."""
    app[SERVICES] = services
    app[STREAMS] = Streams()
    rendering.install(app)
    for page in PAGES:
        app.router.add_get(page.path, _page_handler(page))
    for action in ACTIONS:
        app.router.add_post(action.path, _action_handler(action))
    login.install(app)
    app[RUNNER] = BulkRunner(services.database, services.fleet)
    app.cleanup_ctx.append(_run_bulk_actions)
    app.on_shutdown.append(_close_streams)


async def _run_bulk_actions(app: web.Application) -> AsyncIterator[None]:
    app[RUNNER].start()
    yield
    await app[RUNNER].close()


async def _close_streams(app: web.Application) -> None:
    await app[STREAMS].close()


async def _lost(request: web.Request) -> web.StreamResponse:
    """A browser at an address that is nobody's: who is signed in is told so, everybody else is asked to sign in."""
    services = request.app[SERVICES]
    try:
        session = await session_of(request, services.database)
        if session is None:
            return sign_in(request)
        return await _sorry(request, session, 404, "Nothing here", "There is nothing at this address.")
    except ServerUnavailable as error:
        return unavailable(request, error)


lost = with_headers(_lost)


def _page_handler(page: Page) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        services = request.app[SERVICES]
        session: Session | None = None
        try:
            session = await session_of(request, services.database)
            if session is None:
                return sign_in(request)
            if not may(session.principal, page.access):
                return await _sorry(request, session, 403, "Not for you", _why_not(session, page.access))
            ask = Ask(request, services, session, datetime.now(UTC))
            if page.live and "text/event-stream" in request.headers.get("Accept", ""):
                return await request.app[STREAMS].serve(request, _block_renderer(page, request))
            context = await page.read(ask)
            frame = await frame_of(ask)
            return html(request, page.template, {**context, **_around(ask, frame), "live": page.live})
        except GoTo as found:
            return see_other(found.to)
        except LeadOut as found:
            return lead_out(found.to)
        except NotNow as error:
            assert session is not None
            answer = await _sorry(request, session, 503, "Not at the moment", str(error))
            answer.headers["Retry-After"] = str(max(1, math.ceil(error.wait_s)))
            return answer
        except NotHere as error:
            assert session is not None
            return await _sorry(request, session, 404, "Nothing here", str(error))
        except ServerUnavailable as error:
            return unavailable(request, error)

    return with_headers(handle)


def _block_renderer(page: Page, request: web.Request) -> Callable[[], Awaitable[Mapping[str, str] | None]]:
    """Looks the person up each time, so that a session that ended ends its streams."""

    async def render() -> Mapping[str, str] | None:
        services = request.app[SERVICES]
        session = await session_of(request, services.database)
        if session is None or not may(session.principal, page.access):
            return None
        ask = Ask(request, services, session, datetime.now(UTC))
        try:
            context = {**await page.read(ask), **_around(ask, None), "live": page.live}
        except NotHere:
            return None
        blocks = rendering.render_blocks(request, page.template, page.live, context)
        return {**blocks, "stamp": rendering.render(request, "stamp.html", context)}

    return render


def _action_handler(action: Action) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        services = request.app[SERVICES]
        try:
            if not is_same_site(request, services.settings.public_url):
                return bare(
                    request,
                    403,
                    "Refused",
                    "This form was sent from another site. Open the page here.",
                )
            session = await session_of(request, services.database)
            if session is None:
                return sign_in(request)
            if not may(session.principal, action.access):
                return await _sorry(request, session, 403, "Not for you", _why_not(session, action.access))
            form, picked = await form_of(request)
            if not is_csrf_right(session, form.get("csrf", "")):
                said = "This form is not from your session: it may be older than your sign-in. Open the page again."
                return await _sorry(request, session, 403, "Refused", said)
            ask = Ask(request, services, session, datetime.now(UTC), form, picked)
            return await _acted(action, ask)
        except NotHere as error:
            assert session is not None
            return await _sorry(request, session, 404, "Nothing here", str(error))
        except ServerUnavailable as error:
            return unavailable(request, error)

    return with_headers(handle)


async def _acted(action: Action, ask: Ask) -> web.Response:
    cookies: Mapping[str, str] = {}
    try:
        done = await action.act(ask)
        notice, to, cookies = Notice("done", done.said, done.link), done.to, done.cookies
    except ActionRefused as error:
        notice, to = Notice("failed", str(error)), error.to
    if ask.session.digest is None:  # a program: it is told at once
        answer = {"outcome": notice.kind, "said": notice.text}
        return web.json_response(answer, status=200 if notice.kind == "done" else 409)
    if notice.text:
        async with ask.services.database.fleet() as connection:
            await leave_notice(connection, ask.session.digest, notice)
    response = see_other(to)
    for name, value in cookies.items():
        set_cookie(response, name, value, secure=is_secure(ask.request, ask.services.settings.public_url))
    return response


def _around(ask: Ask, frame: Frame | None) -> dict[str, Any]:
    return {"ask": ask, "frame": frame, "now": ask.now, "csrf": ask.session.csrf or "", "Access": Access}


async def _sorry(request: web.Request, session: Session, status: int, title: str, said: str) -> web.Response:
    ask = Ask(request, request.app[SERVICES], session, datetime.now(UTC))
    frame = await frame_of(ask, with_notice=False)
    context = {**_around(ask, frame), "live": (), "title": title, "said": said}
    return html(request, "sorry.html", context, status)


def _why_not(session: Session, access: Access) -> str:
    if session.principal.organization_id is not None and may_otherwise(session, access):
        return "You are bound to one organization; this page shows the whole fleet."
    return f"{session.principal.name} has no role for this. An admin can give you one."


def may_otherwise(session: Session, access: Access) -> bool:
    from kbsync.dashboard.ask import ROLES_FOR

    return bool(session.principal.roles & ROLES_FOR[access])
