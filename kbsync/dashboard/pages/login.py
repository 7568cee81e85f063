"""`/login`, `/logout`, and the assets that the login page needs. The only pages that need no principal."""

from __future__ import annotations

import hmac
import secrets
from pathlib import PurePosixPath

from aiohttp import web

from kbsync.dashboard import rendering
from kbsync.dashboard.answers import bare, form_of, own_path, see_other, unavailable, with_headers
from kbsync.dashboard.ask import Access, may
from kbsync.dashboard.page import SERVICES
from kbsync.dashboard.session import (
    COOKIE,
    csrf_of,
    is_csrf_right,
    is_same_site,
    is_secure,
    new_secret,
    session_of,
    set_cookie,
)
from kbsync.domain.errors import ServerUnavailable
from kbsync.library import audit
from kbsync.library.dashboard_sessions import end_session, open_session
from kbsync.library.principals import MAX_TOKEN_LENGTH, TOKEN_PREFIX, digest_of, find_principal
from kbsync.telemetry import log

# Before there is a session, the form and this cookie carry the same random word: another site can set neither.
LOGIN_COOKIE = "kbsync_login"
OPEN_ASSETS = frozenset({"style.css", "icon.svg"})
_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


def install(app: web.Application) -> None:
    app.router.add_get("/login", with_headers(_show))
    app.router.add_post("/login", with_headers(_enter))
    app.router.add_post("/logout", with_headers(_leave))
    app.router.add_get("/assets/{name:.+}", with_headers(_asset))


def form(request: web.Request, *, wanted: str = "/", refusal: str = "", status: int = 200) -> web.Response:
    word = request.cookies.get(LOGIN_COOKIE) or secrets.token_urlsafe(24)
    services = request.app[SERVICES]
    context = {
        "wanted": own_path(wanted),
        "refusal": refusal,
        "csrf": csrf_of(word),
        "theme": request.cookies.get("kbsync_theme"),
        "environment": services.settings.environment,
        "version": services.version,
    }
    text = rendering.render(request, "login.html", context)
    response = web.Response(text=text, status=status, content_type="text/html", charset="utf-8")
    set_cookie(
        response, LOGIN_COOKIE, word, secure=is_secure(request, request.app[SERVICES].settings.public_url), age_s=3_600
    )
    return response


def sign_in(request: web.Request) -> web.Response:
    """401 with the login form, which comes back to where they wanted to go."""
    wanted = request.path_qs if request.method == "GET" else "/"
    response = form(request, wanted=wanted, status=401)
    response.headers["WWW-Authenticate"] = 'Bearer realm="kbsync"'
    return response


async def _show(request: web.Request) -> web.StreamResponse:
    return form(request, wanted=request.query.get("next", "/"))


async def _enter(request: web.Request) -> web.StreamResponse:
    services = request.app[SERVICES]
    if not is_same_site(request, services.settings.public_url):
        return bare(request, 403, "Refused", "This form was sent from another site. Open the sign-in page here.")
    fields, _ = await form_of(request)
    wanted, token = own_path(fields.get("next", "/")), fields.get("token", "").strip()
    word = request.cookies.get(LOGIN_COOKIE, "")
    if not word or not hmac.compare_digest(csrf_of(word), fields.get("csrf", "")):
        return form(request, wanted=wanted, refusal="This page was too old. Type the token once more.", status=403)
    try:
        async with services.database.fleet() as connection:
            fits = 0 < len(token) <= MAX_TOKEN_LENGTH
            principal = await find_principal(connection, digest_of(token)) if fits else None
            if principal is None:
                log.warning("dashboard_login_refused", peer=request.remote)
                refusal = f"This token isn’t known here, or it was revoked. Tokens begin with {TOKEN_PREFIX}."
                return form(request, wanted=wanted, refusal=refusal, status=401)
            if not may(principal, Access.SELF):
                refusal = "This token is for programs. Signing in takes the role viewer, operator, admin or reader."
                return form(request, wanted=wanted, refusal=refusal, status=403)
            secret = new_secret()
            await open_session(connection, digest_of(secret), principal.token_id)
            await audit.write(connection, actor=principal.name, action="dashboard.sign_in", target="dashboard")
    except ServerUnavailable as error:
        return unavailable(request, error)
    if not may(principal, Access.LOOK) and wanted == "/":
        wanted = "/sources" if may(principal, Access.KNOWLEDGE) else "/search"
    response = see_other(wanted)
    set_cookie(response, COOKIE, secret, secure=is_secure(request, request.app[SERVICES].settings.public_url))
    response.del_cookie(LOGIN_COOKIE, path="/")
    return response


async def _leave(request: web.Request) -> web.StreamResponse:
    services = request.app[SERVICES]
    if not is_same_site(request, services.settings.public_url):
        return bare(request, 403, "Refused", "This form was sent from another site.")
    try:
        session = await session_of(request, services.database)
        if session is None or session.digest is None:
            return see_other("/login")
        fields, _ = await form_of(request)
        if not is_csrf_right(session, fields.get("csrf", "")):
            return bare(request, 403, "Refused", "This form is not from your session. Open the page again.")
        async with services.database.fleet() as connection:
            await end_session(connection, session.digest)
            await audit.write(connection, actor=session.principal.name, action="dashboard.sign_out", target="dashboard")
    except ServerUnavailable as error:
        return unavailable(request, error)
    response = see_other("/login")
    response.del_cookie(COOKIE, path="/")
    return response


async def _asset(request: web.Request) -> web.StreamResponse:
    """A file of ours. What the login page needs is open; scripts are for who is signed in."""
    name = request.match_info["name"]
    path = rendering.ASSETS / name
    kind = _TYPES.get(PurePosixPath(name).suffix)
    if name not in OPEN_ASSETS:
        try:
            if await session_of(request, request.app[SERVICES].database) is None:
                return sign_in(request)
        except ServerUnavailable as error:
            return unavailable(request, error)
    if kind is None or rendering.ASSETS not in path.resolve().parents or not path.is_file():
        return bare(request, 404, "Nothing here", "There is nothing at this address.")
    response = web.Response(body=path.read_bytes(), content_type=kind, charset="utf-8")
    response.headers["Cache-Control"] = "private, max-age=31536000, immutable"
    return response
