"""The API with the dashboard on its address."""

from __future__ import annotations

from functools import partial

from aiohttp import web

import kbsync
from kbsync.api.app import Pages, build_app
from kbsync.api.fallbacks import expect_fallbacks
from kbsync.api.services import ApiServices
from kbsync.api.wire import ApiRunner
from kbsync.dashboard import site
from kbsync.dashboard.services import DashboardServices
from kbsync.domain.errors import SettingsError
from kbsync.settings import Settings
from kbsync.telemetry import log
from ops.serve.process import process
from workers.runtime import Runtime


async def serve_api(settings: Settings) -> None:
    """Raises SettingsError or ServerUnavailable when it can't start; afterwards outages are answered, not died of."""
    async with process(settings, "api") as (runtime, stop):
        services = ApiServices(
            runtime.database, runtime.enqueuer, runtime.fleet, runtime.kill_switch, settings, runtime.assets
        )
        expect_fallbacks()
        runner = ApiRunner(build_app(services, dashboard_of(runtime)))
        await runner.setup()
        try:
            await _listen(runner, settings)
            log.info("api_ready", address=runner.addresses[0])
            await stop.wait()
        finally:
            await runner.cleanup()


def dashboard_of(runtime: Runtime) -> Pages:
    """The dashboard over one process's runtime, for the API's address."""
    services = DashboardServices(
        database=runtime.database,
        fleet=runtime.fleet,
        enqueuer=runtime.enqueuer,
        throttle=runtime.throttle,
        kill_switch=runtime.kill_switch,
        settings=runtime.settings,
        assets=runtime.assets,
        version=kbsync.__version__,
    )
    return Pages(install=partial(site.install, services=services), lost=site.lost)


async def _listen(runner: web.AppRunner, settings: Settings) -> None:
    try:
        await web.TCPSite(runner, settings.api_host, settings.api_port).start()
    except OSError as error:
        raise SettingsError(
            f"can't listen on {settings.api_host}:{settings.api_port} ({error.strerror}): "
            "choose another address with --host and --port (KBSYNC_API_HOST, KBSYNC_API_PORT)"
        ) from error
