"""What a handler may take from its request: the app's services and the principal that the guard has admitted."""

from __future__ import annotations

from aiohttp import web

from kbsync.api.acceptance import Acceptance
from kbsync.api.auth import Authenticator
from kbsync.api.rates import TokenRates
from kbsync.api.services import ApiServices
from kbsync.library.principals import Principal

SERVICES: web.AppKey[ApiServices] = web.AppKey("services", ApiServices)
AUTHENTICATOR: web.AppKey[Authenticator] = web.AppKey("authenticator", Authenticator)
ACCEPTANCE: web.AppKey[Acceptance] = web.AppKey("acceptance", Acceptance)
RATES: web.AppKey[TokenRates] = web.AppKey("rates", TokenRates)
PRINCIPAL: web.RequestKey[Principal] = web.RequestKey("principal", Principal)


def services_of(request: web.Request) -> ApiServices:
    return request.app[SERVICES]


def rates_of(request: web.Request) -> TokenRates:
    return request.app[RATES]


def acceptance_of(request: web.Request) -> Acceptance:
    return request.app[ACCEPTANCE]


def principal_of(request: web.Request) -> Principal:
    """The caller. A route that the guard let through without one has none: that is a KeyError, and so a 500."""
    return request[PRINCIPAL]
