"""`/healthz`: the process runs. `/readyz`: it can keep its promises (OP-11). Both are open, and name no address."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from http import HTTPStatus

from aiohttp import web

from kbsync.api.context import services_of
from kbsync.domain.errors import ServerUnavailable

READY_TIMEOUT_S = 3.0


async def healthz(request: web.Request) -> web.Response:
    return web.json_response({"status": "ok"})


async def readyz(request: web.Request) -> web.Response:
    services = services_of(request)
    postgres, redis = await asyncio.gather(_works(services.database.ping()), _works(services.fleet.ping_write()))
    ready = postgres and redis
    return web.json_response(
        {"ready": ready, "postgres": postgres, "redis": redis},
        status=HTTPStatus.OK if ready else HTTPStatus.SERVICE_UNAVAILABLE,
    )


async def _works(ping: Awaitable[None]) -> bool:
    try:
        async with asyncio.timeout(READY_TIMEOUT_S):
            await ping
    except (ServerUnavailable, TimeoutError):
        return False
    return True
