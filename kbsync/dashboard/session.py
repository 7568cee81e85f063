"""Who is at the other end: a session cookie, or a bearer token for programs; and whether a post is really theirs (OP-06).

The cookie holds 256 random bits. Its digest finds the session, and a second digest of it is the CSRF token of its forms,
so that nothing more has to be kept.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from urllib.parse import urlsplit

from aiohttp import web

from kbsync.db.pool import Database
from kbsync.library.dashboard_sessions import find_session
from kbsync.library.principals import MAX_TOKEN_LENGTH, Principal, digest_of, find_principal

COOKIE = "kbsync_session"
COOKIE_AGE_S = 7 * 24 * 3600


@dataclass(frozen=True)
class Session:
    """`csrf` is what its forms carry; None for a bearer token, which no browser sends by itself. `digest` likewise."""

    principal: Principal
    csrf: str | None
    digest: bytes | None


def new_secret() -> str:
    return secrets.token_urlsafe(32)


def csrf_of(secret: str) -> str:
    return hashlib.sha256(f"csrf:{secret}".encode("utf-8", "replace")).hexdigest()


async def session_of(request: web.Request, database: Database) -> Session | None:
    """Who asks, or None. Raises DatabaseUnavailable when nobody can be looked up (never None then)."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    token = token.strip()
    if scheme.lower() == "bearer":
        if not 0 < len(token) <= MAX_TOKEN_LENGTH:
            return None
        async with database.fleet() as connection:
            principal = await find_principal(connection, digest_of(token))
        return Session(principal, None, None) if principal else None
    secret = request.cookies.get(COOKIE, "")
    if not 0 < len(secret) <= MAX_TOKEN_LENGTH:
        return None
    digest = digest_of(secret)
    async with database.fleet() as connection:
        principal = await find_session(connection, digest)
    return Session(principal, csrf_of(secret), digest) if principal else None


def is_same_site(request: web.Request, public_url: str | None) -> bool:
    """Whether a post comes from a page of ours, as far as the browser says: by Sec-Fetch-Site and by Origin.

    A program sends neither. A page elsewhere can't forge them."""
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = request.headers.get("Origin")
    if origin is None:
        return True
    ours = {request.host.lower()}
    if public_url:
        ours.add(urlsplit(public_url).netloc.lower())
    return urlsplit(origin).netloc.lower() in ours


def is_csrf_right(session: Session, given: str) -> bool:
    """A bearer token needs no CSRF token: whoever can send it holds it."""
    return session.csrf is None or hmac.compare_digest(session.csrf.encode(), given.encode("utf-8", "replace"))


def set_cookie(response: web.StreamResponse, name: str, value: str, *, secure: bool, age_s: int = COOKIE_AGE_S) -> None:
    response.set_cookie(name, value, max_age=age_s, path="/", httponly=True, samesite="Lax", secure=secure)


def is_secure(request: web.Request, public_url: str | None) -> bool:
    """Whether cookies are for https alone: as the public address says, else as the request came."""
    return public_url.lower().startswith("https:") if public_url else request.secure
