"""The demo's site: the descriptions of all installed Python packages, linked as pages, served on loopback.

Real text that nobody here wrote, on any machine that can run kbsync, with a link structure of its own: an index, a page a
package, and links to what each package requires.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from importlib import metadata

from aiohttp import web

_REQUIREMENT_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*")
_FENCE = re.compile(r"^(```|~~~)")
_HEADING = re.compile(r"^(#{1,6})\s+(.+?)\s*#*$")


def page_name(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package).lower()


def installed_packages() -> dict[str, metadata.Distribution]:
    """Page name -> distribution, each once."""
    found: dict[str, metadata.Distribution] = {}
    for distribution in metadata.distributions():
        name = distribution.metadata["Name"]
        if name:
            found.setdefault(page_name(name), distribution)
    return dict(sorted(found.items()))


def render_index(packages: dict[str, metadata.Distribution]) -> str:
    items = "".join(
        f'<li><a href="/packages/{name}.html">{html.escape(about["Name"])}</a> - {html.escape(about["Summary"] or "")}</li>'
        for name, about in ((name, package.metadata) for name, package in packages.items())
    )
    return _page("Installed packages", f"<h1>Installed packages</h1><ul>{items}</ul>")


def render_package(name: str, packages: dict[str, metadata.Distribution]) -> str:
    distribution = packages[name]
    about = distribution.metadata
    required = sorted({page_name(m.group()) for r in distribution.requires or [] if (m := _REQUIREMENT_NAME.match(r))})
    links = "".join(f'<li><a href="/packages/{r}.html">{html.escape(r)}</a></li>' for r in required if r in packages)
    description = about.get_payload() if not about["Description"] else about["Description"]  # type: ignore[attr-defined]
    body = (
        f"<h1>{html.escape(about['Name'])} {html.escape(about['Version'] or '')}</h1>"
        f"<p>{html.escape(about['Summary'] or '')}</p>"
        f"{''.join(_blocks(str(description or '').splitlines()))}"
        + (f"<h2>Requires</h2><ul>{links}</ul>" if links else "")
        + '<p><a href="/">All packages</a></p>'
    )
    return _page(f"{about['Name']} {about['Version'] or ''}", body)


def _blocks(lines: Iterable[str]) -> Iterable[str]:
    """Just enough structure for a page: headings, fenced code and paragraphs, everything escaped."""
    paragraph: list[str] = []
    code: list[str] | None = None
    for line in [*lines, ""]:
        if code is not None:
            if _FENCE.match(line.strip()):
                yield f"<pre><code>{html.escape(chr(10).join(code))}</code></pre>"
                code = None
            else:
                code.append(line)
            continue
        heading = _HEADING.match(line)
        fence = _FENCE.match(line.strip())
        if (heading or fence or not line.strip()) and paragraph:
            yield f"<p>{html.escape(' '.join(paragraph))}</p>"
            paragraph = []
        if heading:
            level = min(6, len(heading.group(1)) + 1)
            yield f"<h{level}>{html.escape(heading.group(2))}</h{level}>"
        elif fence:
            code = []
        elif line.strip():
            paragraph.append(line.strip())
    if code:
        yield f"<pre><code>{html.escape(chr(10).join(code))}</code></pre>"


def _page(title: str, body: str) -> str:
    head = f'<head><meta charset="utf-8"><title>{html.escape(title)}</title></head>'
    return f'<!doctype html><html lang="en">{head}<body>{body}</body></html>'


def sample_site() -> web.Application:
    """The site as an aiohttp application."""
    packages = installed_packages()

    async def index(request: web.Request) -> web.Response:
        return web.Response(text=render_index(packages), content_type="text/html")

    async def package(request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in packages:
            raise web.HTTPNotFound
        return web.Response(text=render_package(name, packages), content_type="text/html")

    async def robots(request: web.Request) -> web.Response:
        return web.Response(text="User-agent: *\nAllow: /\n")

    app = web.Application()
    app.add_routes([web.get("/", index), web.get("/packages/{name}.html", package), web.get("/robots.txt", robots)])
    return app
