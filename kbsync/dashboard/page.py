"""What a page and an action are, for those who write one. `site.py` serves them, `pages/__init__.py` lists them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from kbsync.dashboard.ask import Access, Ask, Done
from kbsync.dashboard.services import DashboardServices

SERVICES: web.AppKey[DashboardServices] = web.AppKey("dashboard_services", DashboardServices)

Read = Callable[[Ask], Awaitable[Mapping[str, Any]]]
Act = Callable[[Ask], Awaitable[Done]]


@dataclass(frozen=True)
class Page:
    """A page at `path`: what `read` answers fills `template`. `live` names the blocks that a stream keeps fresh."""

    path: str
    template: str
    read: Read
    access: Access
    live: tuple[str, ...] = ()


@dataclass(frozen=True)
class Action:
    """A post to `path`. `act` does one thing, audits it, and says what came of it."""

    path: str
    act: Act
    access: Access
