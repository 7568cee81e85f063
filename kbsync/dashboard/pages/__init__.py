"""Every page and every action: the whole list, one line a file."""

from __future__ import annotations

from kbsync.dashboard.page import Action, Page
from kbsync.dashboard.pages import (
    audit,
    bulk,
    crawls,
    documents,
    find,
    job,
    kill_switch,
    overview,
    preferences,
    queue,
    queue_acts,
    queues,
    search,
    sources,
    throttles,
    workers,
)

PAGES: tuple[Page, ...] = (
    *overview.PAGES,
    *throttles.PAGES,
    *audit.PAGES,
    *find.PAGES,
    *preferences.PAGES,
    *sources.PAGES,
    *documents.PAGES,
    *crawls.PAGES,
    *search.PAGES,
    *queues.PAGES,
    *queue.PAGES,
    *job.PAGES,
    *bulk.PAGES,
    *workers.PAGES,
)
ACTIONS: tuple[Action, ...] = (
    *preferences.ACTIONS,
    *sources.ACTIONS,
    *queue_acts.ACTIONS,
    *bulk.ACTIONS,
    *throttles.ACTIONS,
    *kill_switch.ACTIONS,
)
