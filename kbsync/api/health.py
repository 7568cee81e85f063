"""`/healthz`: the process runs. `/readyz`: it can keep its promises (OP-11). Both are open, and name no address."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Literal

from aiohttp import web

from kbsync.api.answers import Shape
from kbsync.api.context import services_of
from kbsync.api.described import Described
from kbsync.domain.errors import ServerUnavailable

READY_TIMEOUT_S = 3.0


@dataclass(frozen=True)
class Health:
    status: Literal["ok"] = "ok"


@dataclass(frozen=True)
class Readiness:
    ready: bool
    postgres: bool
    redis: bool


HEALTH = Shape(Health)
READINESS = Shape(Readiness)
DESCRIBED_HEALTH = Described("The process runs.", {HTTPStatus.OK: HEALTH})
DESCRIBED_READINESS = Described(
    "Whether it can keep its promises.", {HTTPStatus.OK: READINESS, HTTPStatus.SERVICE_UNAVAILABLE: READINESS}
)


async def healthz(request: web.Request) -> web.Response:
    return HEALTH.response(Health())


async def readyz(request: web.Request) -> web.Response:
    services = services_of(request)
    postgres, redis = await asyncio.gather(_works(services.database.ping()), _works(services.fleet.ping_write()))
    ready = postgres and redis
    status = HTTPStatus.OK if ready else HTTPStatus.SERVICE_UNAVAILABLE
    return READINESS.response(Readiness(ready, postgres, redis), status)


async def _works(ping: Awaitable[None]) -> bool:
    try:
        async with asyncio.timeout(READY_TIMEOUT_S):
            await ping
    except (ServerUnavailable, TimeoutError):
        return False
    return True
