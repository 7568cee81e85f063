"""What a page or an action is asked, and how it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from aiohttp import web

from kbsync.dashboard.services import DashboardServices
from kbsync.dashboard.session import Session
from kbsync.domain.errors import KbsyncError
from kbsync.domain.text import storable
from kbsync.library.principals import Principal, Role


class Access(StrEnum):
    """Who may open what. Fleet-wide pages and acts are for those who are bound to no organization."""

    LOOK = "look"  # the fleet: queues, throttles, workers, audit
    KNOWLEDGE = "knowledge"  # sources, documents, crawls: of one organization when the principal is bound to it
    SEARCH = "search"
    ACT = "act"  # retry, pause, promote, kill switch
    ACT_ON_KNOWLEDGE = "act_on_knowledge"  # sync now, approve a removal
    ADMIN = "admin"
    SELF = "self"  # one's own preferences and session


_PEOPLE = frozenset({Role.VIEWER, Role.OPERATOR, Role.ADMIN})
_ACTORS = frozenset({Role.OPERATOR, Role.ADMIN})
ROLES_FOR: Mapping[Access, frozenset[Role]] = {
    Access.LOOK: _PEOPLE,
    Access.KNOWLEDGE: _PEOPLE,
    Access.SEARCH: frozenset({Role.READER}),
    Access.ACT: _ACTORS,
    Access.ACT_ON_KNOWLEDGE: _ACTORS,
    Access.ADMIN: frozenset({Role.ADMIN}),
    Access.SELF: frozenset({*_PEOPLE, Role.READER}),
}
FLEET_WIDE = frozenset({Access.LOOK, Access.ACT, Access.ADMIN})


def may(principal: Principal, access: Access) -> bool:
    """Whether one of the principal's roles opens `access`, and no binding to an organization closes it."""
    if access in FLEET_WIDE and principal.organization_id is not None:
        return False
    return bool(principal.roles & ROLES_FOR[access])


@dataclass(frozen=True)
class Ask:
    """One request of a known person. `now` is aware UTC. `form` is empty but for actions."""

    request: web.Request
    services: DashboardServices
    session: Session
    now: datetime
    form: Mapping[str, str] = field(default_factory=dict)
    picked: tuple[str, ...] = ()  # the form's `job` fields: rows that were ticked

    @property
    def principal(self) -> Principal:
        return self.session.principal

    @property
    def organization_id(self) -> int | None:
        """The one organization that this person may see; None: all."""
        return self.principal.organization_id

    def may(self, access: Access) -> bool:
        return may(self.principal, access)

    def part(self, name: str) -> str:
        """A part of the path."""
        return self.request.match_info[name]

    def number(self, name: str) -> int:
        """A part of the path that is a row's id. Raises NotHere for what can be none."""
        text = self.part(name)
        if not (text.isascii() and text.isdigit() and len(text) <= 18):
            raise NotHere("There is nothing at this address.")
        return int(text)

    def query(self, name: str, most: int = 500) -> str:
        """A trimmed query parameter that a database can be asked with, "" when it is not there; cut to `most` characters."""
        return storable(self.request.query.get(name, "")).strip()[:most]


@dataclass(frozen=True)
class Done:
    """An action took place: one sentence in numbers, and the page to go on to (a path of ours). An empty sentence needs
    no notice; `cookies` are set on the way."""

    said: str
    to: str
    link: str | None = None
    cookies: Mapping[str, str] = field(default_factory=dict)


class ActionRefused(KbsyncError):
    """Nothing was done; the message says why, and what to do, to the person who asked. `to` is the page to go back to."""

    def __init__(self, said: str, to: str) -> None:
        super().__init__(said)
        self.to = to


class GoTo(KbsyncError):
    """Instead of a page: the one page of ours that the person looked for."""

    def __init__(self, to: str) -> None:
        super().__init__(to)
        self.to = to


class LeadOut(KbsyncError):
    """Instead of a page: an address outside, which kbsync itself has checked."""

    def __init__(self, to: str) -> None:
        super().__init__("an address outside")
        self.to = to


class NotNow(KbsyncError):
    """It can't be shown at the moment; the message says why to a person. `wait_s` is when to ask again."""

    def __init__(self, said: str, wait_s: float) -> None:
        super().__init__(said)
        self.wait_s = wait_s


class NotHere(KbsyncError):
    """There is no such thing (any more); the message says what and why to a person."""
