"""What stands around every page: menu, kill switch, environment, who, and what came of the last action."""

from __future__ import annotations

from dataclasses import dataclass

from kbsync.dashboard.ask import Access, Ask
from kbsync.domain.errors import FlagStoreUnavailable
from kbsync.flags.kill_switch import KillSwitchState, Pause
from kbsync.library import organizations
from kbsync.library.dashboard_sessions import Notice, take_notice
from kbsync.library.paused_work import skipped_since

KEYS_COOKIE = "kbsync_keys"
THEME_COOKIE = "kbsync_theme"
THEMES = ("light", "dark")
MOST_SKIPPED_COUNTED = 10_000


@dataclass(frozen=True)
class Entry:
    """A page of the menu. `key` follows `g` on the keyboard."""

    path: str
    name: str
    icon: str
    access: Access
    key: str = ""


MENU: tuple[tuple[str, tuple[Entry, ...]], ...] = (
    ("", (Entry("/", "Overview", "overview", Access.LOOK, "o"), Entry("/search", "Search", "search", Access.SEARCH))),
    (
        "Fleet",
        (
            Entry("/queues", "Queues", "queues", Access.LOOK, "q"),
            Entry("/throttles", "Throttles", "throttles", Access.LOOK, "t"),
            Entry("/workers", "Workers", "workers", Access.LOOK, "w"),
        ),
    ),
    (
        "Knowledge",
        (
            Entry("/sources", "Sources", "sources", Access.KNOWLEDGE, "s"),
            Entry("/crawls", "Crawls", "crawls", Access.KNOWLEDGE, "c"),
        ),
    ),
    (
        "Record",
        (
            Entry("/audit", "Audit", "audit", Access.LOOK, "a"),
            Entry("/settings", "Settings", "settings", Access.SELF),
        ),
    ),
)


@dataclass(frozen=True)
class Frame:
    """`switch` None: the flag can't be read. `paused_names` names the paused organizations that this person may see."""

    menu: list[tuple[str, list[Entry]]]
    here: str
    environment: str
    version: str
    who: str
    role: str
    csrf: str
    theme: str | None
    keys_on: bool
    switch: KillSwitchState | None
    pauses: list[tuple[Pause, str]]
    skipped: str | None  # units, since the pause that the banner names
    notice: Notice | None
    can_act: bool
    can_switch: bool


async def frame_of(ask: Ask, *, with_notice: bool = True) -> Frame:
    """At most one look at the flag, one at its notes, one at names, one at what it skipped and one at the notice."""
    switch, pauses = await _switch(ask)
    notice = None
    if with_notice and ask.session.digest is not None:
        async with ask.services.database.fleet() as connection:
            notice = await take_notice(connection, ask.session.digest)
    theme = ask.request.cookies.get(THEME_COOKIE)
    return Frame(
        menu=_menu(ask),
        here=_here(ask.request.path),
        environment=ask.services.settings.environment,
        version=ask.services.version,
        who=ask.principal.name,
        role=_role(ask),
        csrf=ask.session.csrf or "",
        theme=theme if theme in THEMES else None,
        keys_on=ask.request.cookies.get(KEYS_COOKIE) != "off",
        switch=switch,
        pauses=pauses,
        skipped=await _skipped(ask, pauses),
        notice=notice,
        can_act=ask.may(Access.ACT) or ask.may(Access.ACT_ON_KNOWLEDGE),
        can_switch=ask.may(Access.ACT),
    )


async def _switch(ask: Ask) -> tuple[KillSwitchState | None, list[tuple[Pause, str]]]:
    """The pauses that concern this person: of everybody, and of the organizations that they may see."""
    try:
        state = await ask.services.kill_switch.describe()
    except FlagStoreUnavailable:
        return None, []
    shown = [one for one in state.organizations if ask.organization_id in (None, one.organization_id)]
    pauses = [(state.for_all, "every organization")] if state.for_all else []
    if not shown:
        return state, pauses
    async with ask.services.database.fleet() as connection:
        names = await organizations.names_of(connection, [one.organization_id or 0 for one in shown[:50]])
    return state, pauses + [
        (one, names.get(one.organization_id or 0, f"organization {one.organization_id}")) for one in shown
    ]


async def _skipped(ask: Ask, pauses: list[tuple[Pause, str]]) -> str | None:
    """How many units were skipped since the first pause of the banner, in words; None where nobody knows since when."""
    if not pauses or pauses[0][0].since is None:
        return None
    pause, since = pauses[0][0], pauses[0][0].since
    organization_id = ask.organization_id if pause.organization_id is None else pause.organization_id
    if pause.organization_id is not None and len(pauses) > 1:
        return None  # the banner speaks of several, whose pauses began at different times
    async with ask.services.database.fleet() as connection:
        many = await skipped_since(connection, since, organization_id, MOST_SKIPPED_COUNTED)
    return f"{many:,}" if many < MOST_SKIPPED_COUNTED else f"{many:,} or more"


def _menu(ask: Ask) -> list[tuple[str, list[Entry]]]:
    groups = [(title, [entry for entry in entries if ask.may(entry.access)]) for title, entries in MENU]
    return [(title, entries) for title, entries in groups if entries]


def _here(path: str) -> str:
    """The menu entry that a page belongs to."""
    first = "/" + path.strip("/").split("/")[0]
    return {"/documents": "/sources", "/kill-switch": "/throttles"}.get(first, first)


def _role(ask: Ask) -> str:
    for role in ("admin", "operator", "viewer", "reader"):
        if role in ask.principal.roles:
            return role
    return "no role"
