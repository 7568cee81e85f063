"""Every page and every action: the whole list, one line a file."""

from __future__ import annotations

from kbsync.dashboard.page import Action, Page
from kbsync.dashboard.pages import overview, preferences

PAGES: tuple[Page, ...] = (*overview.PAGES, *preferences.PAGES)
ACTIONS: tuple[Action, ...] = (*preferences.ACTIONS,)
