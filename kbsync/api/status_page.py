"""`GET /`: one plain page for a browser (HTTP Basic, the token as password): queues and the kill switch, no script."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from aiohttp import web

from kbsync.api.context import services_of

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>kbsync</title>
<meta name="viewport" content="width=device-width, initial-scale=1"></head>
<body><h1>kbsync: {environment}</h1>
<p>Kill switch: <strong>{switch}</strong></p>
<table border="1"><caption>Jobs</caption><thead><tr><th scope="col">Queue</th>{heads}</tr></thead>
<tbody>{rows}</tbody></table></body></html>
"""


async def status_page(request: web.Request) -> web.Response:
    services = services_of(request)
    counts = await services.fleet.counts()
    paused = await services.kill_switch.is_paused(None)
    return web.Response(
        text=render(services.settings.environment, paused, counts), content_type="text/html", charset="utf-8"
    )


def render(environment: str, paused: bool, counts: Mapping[str, Mapping[str, int]]) -> str:
    """The page, everything that is not ours escaped."""
    states = list(dict.fromkeys(state for row in counts.values() for state in row))
    heads = "".join(f'<th scope="col">{escape(state)}</th>' for state in states)
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th>{"".join(f"<td>{row.get(state, 0)}</td>" for state in states)}</tr>'
        for name, row in counts.items()
    )
    switch = "on (library units are skipped)" if paused else "off"
    return _PAGE.format(environment=escape(environment), switch=switch, heads=heads, rows=rows)
