"""The HTTP API: parse -> authorise -> one call -> map outcome. `build_app(services)` is all there is to start it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import web

from kbsync.api import assets, enqueue, fallbacks, health, metrics, openapi, problems, queues, search
from kbsync.api.acceptance import Acceptance
from kbsync.api.auth import Authenticator, RouteClass, authorise
from kbsync.api.context import ACCEPTANCE, AUTHENTICATOR, PRINCIPAL, RATES, SERVICES
from kbsync.api.described import Described
from kbsync.api.rates import TokenRates
from kbsync.api.services import ApiServices
from kbsync.api.watching import watched
from kbsync.api.wire import RUNNER_OPTIONS as RUNNER_OPTIONS
from kbsync.api.wire import secure
from kbsync.telemetry import log

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Route:
    method: str
    path: str
    handler: Handler
    route_class: RouteClass
    described: Described


ROUTES: tuple[Route, ...] = (
    Route("POST", "/internal/knowledge_base_sync/enqueue", enqueue.enqueue, RouteClass.ENQUEUE, enqueue.DESCRIBED),
    Route("GET", "/v1/search", search.search_route, RouteClass.SEARCH, search.DESCRIBED),
    Route("GET", assets.PATH, assets.asset_route, RouteClass.SEARCH, assets.DESCRIBED),
    Route("GET", "/v1/queues", queues.queues, RouteClass.QUEUES, queues.DESCRIBED),
    Route("GET", "/healthz", health.healthz, RouteClass.HEALTH, health.DESCRIBED_HEALTH),
    Route("GET", "/readyz", health.readyz, RouteClass.HEALTH, health.DESCRIBED_READINESS),
    Route("POST", fallbacks.PATH, fallbacks.report_fallbacks, RouteClass.ENQUEUE, fallbacks.DESCRIBED),
    Route("GET", "/metrics", metrics.metrics, RouteClass.METRICS, metrics.DESCRIBED),
    Route("GET", "/openapi.json", openapi.openapi, RouteClass.DESCRIPTION, openapi.DESCRIBED),
)


@dataclass(frozen=True)
class Pages:
    """Another room's routes on the same address, which it guards itself: the dashboard's. `lost` answers a browser at an
    address that is nobody's."""

    install: Callable[[web.Application], None]
    lost: Handler


PAGES: web.AppKey[Pages | None] = web.AppKey("pages")


def build_app(services: ApiServices, pages: Pages | None = None) -> web.Application:
    """The application over what it is given; whoever gave it closes it."""
    app = web.Application(middlewares=[watched, _as_problems, _guard], client_max_size=services.settings.api_body_limit)
    app[SERVICES] = services
    app[AUTHENTICATOR] = Authenticator(services.database)
    app[ACCEPTANCE] = Acceptance(services.database, services.enqueuer)
    app[openapi.DOCUMENT] = openapi.encoded(openapi.document_of(ROUTES))
    app[RATES] = TokenRates(services.settings.api_requests_per_second)
    for route in ROUTES:
        app.router.add_route(route.method, route.path, route.handler)
    if pages is not None:
        pages.install(app)
    app[PAGES] = pages
    app.on_response_prepare.append(_secure)
    return app


@web.middleware
async def _as_problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Every ending that is not a response becomes a problem document; a fault of ours is logged, and opaque."""
    try:
        return await handler(request)
    except Exception as error:  # the border: whatever is not known here is a 500, never a broken connection
        problem = problems.problem_of(error)
        if problem is None:
            log.exception("api_fault", method=request.method, path=request.path)
            problem = problems.INTERNAL
        return problem.response()


@web.middleware
async def _guard(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Closed by default: a route without a class, like an unknown path, needs a principal before it is even missing."""
    route_class = _CLASS_OF.get((request.match_info.route.method, request.match_info.handler))
    if route_class is RouteClass.HEALTH:
        return await handler(request)
    pages = request.app[PAGES]
    if pages is not None and route_class is None:
        if request.match_info.http_exception is None:
            return await handler(request)
        if "text/html" in request.headers.get("Accept", ""):
            return await pages.lost(request)
    authorization = request.headers.get("Authorization")
    authenticator = request.app[AUTHENTICATOR]
    principal = await authenticator.authenticate(authorization)
    if route_class is not None:
        authorise(principal, route_class)
    request[PRINCIPAL] = principal
    return await handler(request)


async def _secure(request: web.Request, response: web.StreamResponse) -> None:
    secure(response)


_CLASS_OF: dict[tuple[str, object], RouteClass] = {(route.method, route.handler): route.route_class for route in ROUTES}
