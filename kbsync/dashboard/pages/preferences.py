"""`/settings`: one's own preferences (theme, single keys), kept in cookies, and what this deployment is set to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kbsync.dashboard.ask import Access, Ask, Done
from kbsync.dashboard.frame import KEYS_COOKIE, THEME_COOKIE, THEMES
from kbsync.dashboard.page import Action, Page

# What an operator may want to know of this deployment; addresses of servers and secrets are not among them.
_SHOWN = (
    ("environment", "Environment"),
    ("profile", "Profile"),
    ("sync_concurrency", "Jobs at once, sync worker"),
    ("chunks_concurrency", "Jobs at once, chunk worker"),
    ("sync_timeout_s", "Time limit of a sync job, seconds"),
    ("chunks_timeout_s", "Time limit of a chunk job, seconds"),
    ("lease_s", "Lease of a running job, seconds"),
    ("max_stalls", "Lost workers until a job is set aside"),
    ("first_backoff_s", "First wait after a failed attempt, seconds"),
    ("fetch_per_second", "Requests a second to one host"),
    ("fetch_at_once", "Requests at once to one host"),
    ("reconcile_interval_s", "Recovery looks every, seconds"),
    ("flag_store", "Flag store"),
)


async def settings(ask: Ask) -> Mapping[str, Any]:
    values = ask.services.settings
    shown = [(name, getattr(values, field)) for field, name in _SHOWN] if ask.may(Access.LOOK) else []
    return {"shown": shown}


async def set_theme(ask: Ask) -> Done:
    """A theme, or anything else for what the system has."""
    theme = ask.form.get("theme", "")
    return Done("", ask.form.get("back", "/"), cookies={THEME_COOKIE: theme if theme in THEMES else "system"})


async def set_keys(ask: Ask) -> Done:
    on = ask.form.get("keys") == "on"
    return Done(f"Single keys are {'on' if on else 'off'}.", "/settings", cookies={KEYS_COOKIE: "on" if on else "off"})


PAGES = (Page("/settings", "settings.html", settings, Access.SELF),)
ACTIONS = (
    Action("/preferences/theme", set_theme, Access.SELF),
    Action("/preferences/keys", set_keys, Access.SELF),
)
