"""The own listener of a worker or scheduler: health (OP-11) and metrics (OP-08).

Alive while it answers, ready while Postgres answers and Redis takes a write. `/metrics` takes a viewer's token like the
API's, unless KBSYNC_METRICS_OPEN says that whoever reaches this address may read it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client.core import Metric

from kbsync.api.auth import Authenticator, RouteClass, authorise
from kbsync.api.metrics import scrape_of
from kbsync.api.problems import problem_of
from kbsync.domain.errors import ServerUnavailable, SettingsError
from kbsync.telemetry import log
from workers.runtime import Runtime

Collect = Callable[[], Awaitable[Iterable[Metric]]]


@asynccontextmanager
async def serve_health(runtime: Runtime, port: int, collect: Collect) -> AsyncIterator[None]:
    """/healthz, /readyz and /metrics while the block runs; with port 0, nothing. `collect` is read at each scrape.

    Raises SettingsError when the address is taken."""
    if not port:
        yield
        return
    runner = web.AppRunner(_app(runtime, collect), access_log=None)
    await runner.setup()
    try:
        await _listen(runner, runtime.settings.health_host, port)
        yield
    finally:
        await runner.cleanup()


async def _listen(runner: web.AppRunner, host: str, port: int) -> None:
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError as error:
        raise SettingsError(
            f"can't listen on {host}:{port} ({error.strerror}): choose another --health-port or KBSYNC_HEALTH_HOST"
        ) from error


def _app(runtime: Runtime, collect: Collect) -> web.Application:
    authenticator = Authenticator(runtime.database)

    async def alive(request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def ready(request: web.Request) -> web.Response:
        try:
            await runtime.database.ping()
            await runtime.fleet.ping_write()
        except ServerUnavailable as error:
            return web.json_response({"status": "unavailable", "why": type(error).__name__}, status=503)
        return web.json_response({"status": "ok"})

    async def metrics(request: web.Request) -> web.Response:
        try:
            if not runtime.settings.metrics_open:
                authorise(await authenticator.authenticate(request.headers.get("Authorization")), RouteClass.METRICS)
            return scrape_of(await collect())
        except Exception as error:  # the border: a refusal, an outage, or a fault of ours that is logged
            problem = problem_of(error)
            if problem is None:
                log.exception("scrape_fault")
                raise
            return problem.response()

    app = web.Application()
    app.add_routes([web.get("/healthz", alive), web.get("/readyz", ready), web.get("/metrics", metrics)])
    return app
