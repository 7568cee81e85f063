"""Health of a worker process (OP-11): alive while it answers, ready while Postgres answers and Redis takes a write."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from kbsync.domain.errors import ServerUnavailable
from workers.runtime import Runtime


@asynccontextmanager
async def serve_health(runtime: Runtime, port: int) -> AsyncIterator[None]:
    """/healthz and /readyz on loopback while the block runs; with port 0, nothing."""
    if not port:
        yield
        return

    async def alive(request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def ready(request: web.Request) -> web.Response:
        try:
            await runtime.database.ping()
            await runtime.fleet.ping_write()
        except ServerUnavailable as error:
            return web.json_response({"status": "unavailable", "why": type(error).__name__}, status=503)
        return web.json_response({"status": "ok"})

    app = web.Application()
    app.add_routes([web.get("/healthz", alive), web.get("/readyz", ready)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield
    finally:
        await runner.cleanup()
