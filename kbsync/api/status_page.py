"""`GET /`: one plain page for a browser (HTTP Basic, the token as password): queues and the kill switch, no script."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from aiohttp import web

from kbsync.api.context import services_of
from kbsync.api.queues import QueueRow, read_queues
from kbsync.domain.states import JobState

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
    rows = await read_queues(services.fleet)
    paused = await services.kill_switch.paused(None)
    return web.Response(
        text=render(services.settings.environment, paused, rows), content_type="text/html", charset="utf-8"
    )


def render(environment: str, paused: bool, queues: Sequence[QueueRow]) -> str:
    """The page, everything that is not ours escaped."""
    heads = "".join(f'<th scope="col">{escape(state)}</th>' for state in JobState)
    switch = "on: library units are skipped" if paused else "off"
    rows = "".join(_row(queue) for queue in queues)
    return _PAGE.format(environment=escape(environment), switch=switch, heads=heads, rows=rows)


def _row(queue: QueueRow) -> str:
    name = escape(queue.name) + (" (paused)" if queue.paused else "")
    cells = "".join(f"<td>{queue.counts.get(state, 0)}</td>" for state in JobState)
    return f'<tr><th scope="row">{name}</th>{cells}</tr>'
