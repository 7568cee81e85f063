"""Who is calling, and may they: bearer tokens to principals, route classes to roles (CP-22, SE-01)."""

from __future__ import annotations

import base64
import binascii
import time
from collections import OrderedDict
from collections.abc import Callable
from enum import StrEnum

from kbsync.api.problems import forbidden, unauthorized
from kbsync.db.pool import Database
from kbsync.library.principals import MAX_TOKEN_LENGTH, Principal, Role, digest_of, find_principal

# A revoked token must be refused within a second everywhere, so what is remembered of it is younger than that.
CACHE_S = 0.9
CACHE_SIZE = 10_000


class RouteClass(StrEnum):
    HEALTH = "health"
    ENQUEUE = "enqueue"
    SEARCH = "search"
    QUEUES = "queues"
    STATUS_PAGE = "status_page"


# The whole policy. HEALTH is for everybody; a pair that is not here is 403.
ROLES_OF: dict[RouteClass, frozenset[Role]] = {
    RouteClass.ENQUEUE: frozenset({Role.PRODUCER}),
    RouteClass.SEARCH: frozenset({Role.READER}),
    RouteClass.QUEUES: frozenset({Role.READER, Role.VIEWER, Role.OPERATOR, Role.ADMIN}),
    RouteClass.STATUS_PAGE: frozenset({Role.VIEWER, Role.OPERATOR, Role.ADMIN}),
}


def authorise(principal: Principal, route_class: RouteClass) -> None:
    """Raises the 403 problem unless one of the principal's roles opens the class."""
    if not principal.roles & ROLES_OF.get(route_class, frozenset()):
        raise forbidden(f"{principal.name} has no role for this: it takes {_names(route_class)}")


def _names(route_class: RouteClass) -> str:
    return " or ".join(sorted(ROLES_OF.get(route_class, frozenset()))) or "a role that nobody has"


class Authenticator:
    """Finds the principal of an Authorization header, remembering each for less than a second."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._known: OrderedDict[bytes, tuple[float, Principal]] = OrderedDict()

    async def authenticate(self, authorization: str | None, route_class: RouteClass) -> Principal:
        """Raises the 401 problem; DatabaseUnavailable when nobody can be asked (never a 401 then)."""
        browser = route_class is RouteClass.STATUS_PAGE
        challenge = 'Basic realm="kbsync", charset="UTF-8"' if browser else 'Bearer realm="kbsync"'
        token = token_in(authorization, basic=browser)
        if token is None:
            raise unauthorized(challenge)
        principal = await self._principal(digest_of(token))
        if principal is None:
            raise unauthorized(challenge)
        return principal

    async def _principal(self, digest: bytes) -> Principal | None:
        remembered = self._known.get(digest)
        # Taken before the look-up: a revocation that commits during it must not be hidden for longer.
        now = self._clock()
        if remembered is not None and now - remembered[0] < CACHE_S:
            return remembered[1]
        async with self._database.fleet() as connection:
            principal = await find_principal(connection, digest)
        self._known.pop(digest, None)
        if principal is not None:
            self._known[digest] = (now, principal)
            while len(self._known) > CACHE_SIZE:
                self._known.popitem(last=False)
        return principal


def token_in(authorization: str | None, *, basic: bool) -> str | None:
    """The token of `Bearer <token>`, or with `basic` of `Basic` (any user name, the token as password)."""
    scheme, _, rest = (authorization or "").strip().partition(" ")
    rest = rest.strip()
    if scheme.lower() == "bearer" and rest:
        token = rest
    elif basic and scheme.lower() == "basic":
        try:
            token = base64.b64decode(rest, validate=True).decode().partition(":")[2]
        except (binascii.Error, UnicodeDecodeError):
            return None
    else:
        return None
    return token if 0 < len(token) <= MAX_TOKEN_LENGTH else None
