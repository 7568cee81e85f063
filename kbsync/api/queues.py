"""`GET /v1/queues`: jobs per queue and state, for those who look at the fleet."""

from __future__ import annotations

from aiohttp import web

from kbsync.api.context import services_of


async def queues(request: web.Request) -> web.Response:
    counts = await services_of(request).fleet.counts()
    return web.json_response({"queues": [{"name": name, "counts": dict(states)} for name, states in counts.items()]})
