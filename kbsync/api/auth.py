"""Who is calling, and may they: bearer tokens to principals, route classes to roles (CP-22, SE-01)."""

from __future__ import annotations

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
    DESCRIPTION = "description"
    METRICS = "metrics"


# The whole policy. HEALTH is for everybody; a pair that is not here is 403.
ROLES_OF: dict[RouteClass, frozenset[Role]] = {
    RouteClass.ENQUEUE: frozenset({Role.PRODUCER}),
    RouteClass.SEARCH: frozenset({Role.READER}),
    RouteClass.QUEUES: frozenset({Role.READER, Role.VIEWER, Role.OPERATOR, Role.ADMIN}),
    RouteClass.DESCRIPTION: frozenset(Role),
    RouteClass.METRICS: frozenset({Role.VIEWER, Role.OPERATOR, Role.ADMIN}),
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

    async def authenticate(self, authorization: str | None) -> Principal:
        """Raises the 401 problem; DatabaseUnavailable when nobody can be asked (never a 401 then)."""
        token = token_in(authorization)
        principal = None if token is None else await self._principal(digest_of(token))
        if principal is None:
            raise unauthorized('Bearer realm="kbsync"')
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


def token_in(authorization: str | None) -> str | None:
    """The token of `Bearer <token>`."""
    scheme, _, token = (authorization or "").strip().partition(" ")
    token = token.strip()
    return token if scheme.lower() == "bearer" and 0 < len(token) <= MAX_TOKEN_LENGTH else None
