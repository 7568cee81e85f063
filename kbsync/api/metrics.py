"""`GET /metrics`: what this process counted, and how the fleet stands right now (OP-08).

Closed like everything else: a bearer token of a viewer, operator or admin, which Prometheus sends by `authorization`.
"""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus

from aiohttp import web
from prometheus_client.core import Metric

from kbsync.api.context import services_of
from kbsync.api.described import Described
from kbsync.api.fleet_state import FleetState
from kbsync.telemetry.metrics import CONTENT_TYPE, render

DESCRIBED = Described(
    "What this process counted and how the fleet stands, for Prometheus.", {HTTPStatus.OK: "text/plain"}
)


async def metrics(request: web.Request) -> web.Response:
    services = services_of(request)
    state = FleetState(services.database, services.fleet, services.kill_switch, services.settings.redis_url)
    return scrape_of(await state.read())


def scrape_of(state: Iterable[Metric]) -> web.Response:
    return web.Response(body=render(state), headers={"Content-Type": CONTENT_TYPE})
