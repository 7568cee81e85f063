"""How the dashboard answers: pages, refusals, redirects, and the headers that all of them carry (SE-04)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from aiohttp import web

from kbsync.dashboard import rendering
from kbsync.domain.errors import DatabaseUnavailable, KbsyncError, ServerUnavailable
from kbsync.domain.text import storable
from kbsync.telemetry import log

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

MOST_FORM_BYTES = 64 * 1024
MOST_PICKED = 1_000

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Not no-referrer: with it a browser hides the origin of our own forms, which the posts are checked by.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(), payment=()",
    "Cache-Control": "no-store",
    "Vary": "Accept, Cookie",
}


def html(request: web.Request, template: str, context: Mapping[str, Any], status: int = 200) -> web.Response:
    text = rendering.render(request, template, context)
    # A lone surrogate (an id that is no text) must not break the page that shows it.
    return web.Response(body=text.encode("utf-8", "replace"), status=status, content_type="text/html", charset="utf-8")


def bare(request: web.Request, status: int, title: str, said: str) -> web.Response:
    """A page without its frame, which would need servers that may be away."""
    return html(
        request, "bare.html", {"title": title, "said": said, "theme": request.cookies.get("kbsync_theme")}, status
    )


def unavailable(request: web.Request, error: ServerUnavailable) -> web.Response:
    server = "Postgres" if isinstance(error, DatabaseUnavailable) else "Redis"
    log.warning("dashboard_waits", server=server, error=str(error))
    said = f"{server} does not answer, so this page can't be true. Nothing is lost: workers wait and go on."
    response = bare(request, 503, f"{server} does not answer", said)
    response.headers["Retry-After"] = "2"
    return response


async def form_of(request: web.Request) -> tuple[dict[str, str], tuple[str, ...]]:
    """A posted form's fields, and its `job` fields. Raises 413 and 415 as aiohttp does."""
    if request.content_type != "application/x-www-form-urlencoded" and request.can_read_body:
        raise web.HTTPUnsupportedMediaType
    if (request.content_length or 0) > MOST_FORM_BYTES:
        raise web.HTTPRequestEntityTooLarge(MOST_FORM_BYTES, request.content_length or 0)
    posted = await request.post()
    form = {name: storable(value) for name, value in posted.items() if isinstance(value, str)}
    return form, tuple(str(value) for value in posted.getall("job", [])[:MOST_PICKED])


def see_other(to: str) -> web.Response:
    """On to a page of ours: after a post, so that reloading repeats nothing."""
    return web.Response(status=303, headers={"Location": own_path(to)})


def lead_out(to: str) -> web.Response:
    """On to an address outside that was checked where it came from, and is not told where the reader comes from."""
    return web.Response(status=302, headers={"Location": to, "Referrer-Policy": "no-referrer"})


def own_path(to: str) -> str:
    """`to` when it is a path of this site, else the overview: nobody is sent elsewhere by what they clicked."""
    fine = to.startswith("/") and not to.startswith(("//", "/\\")) and to.isprintable() and to.isascii()
    return to if fine and len(to) <= 4_000 else "/"


def with_headers(handle: Handler) -> Handler:
    """Every answer of a page carries the headers, and a fault of ours is a page too."""

    async def handler(request: web.Request) -> web.StreamResponse:
        try:
            response = await handle(request)
        except web.HTTPException as error:
            response = bare(request, error.status, error.reason, "The request can't be taken as it is.")
        except KbsyncError as error:
            response = bare(request, 409, "Refused", str(error))
        except Exception:
            log.exception("dashboard_fault", method=request.method, path=request.path)
            response = bare(request, 500, "A fault of kbsync", "kbsync met a fault of its own; it has been logged.")
        if not response.prepared:
            for name, value in HEADERS.items():
                response.headers.setdefault(name, value)
        return response

    return handler
