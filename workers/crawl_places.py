"""The places of running crawls, looked up once a second instead of once a page, and of chunks, which need none."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from kbsync.db.pool import Database
from kbsync.domain.requests import CrawlUrl, DocumentChunks
from kbsync.library.places import Place, place_of

FRESH_S = 1.0
MOST = 1_000


class CrawlPlaces:
    """A found place may be up to a second old: the unit itself checks its tenant again, and quotas may change that late.
    `started_at` is the database's time, moved on by our own clock; it is never ahead of the truth."""

    def __init__(self, database: Database, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._monotonic = monotonic
        self._known: dict[tuple[int, int], tuple[Place, float]] = {}
        self._clock: tuple[datetime, float] | None = None

    async def place_of_chunks(self, request: DocumentChunks) -> Place:
        """Cutting a text asks no provider, and the unit looks for its document itself: only the time is wanted."""
        if self._clock is not None:
            started_at, read_at = self._clock
            age_s = self._monotonic() - read_at
            if age_s < FRESH_S:
                return Place(started_at + timedelta(seconds=age_s), True, None, None, None, {}, None)
        async with self._database.organization(request.organization_id) as connection:
            place = await place_of(connection, request)
        self._clock = (place.started_at, self._monotonic())
        return place

    async def place_of(self, request: CrawlUrl) -> Place:
        key = (request.organization_id, request.crawl_task_id)
        if known := self._known.get(key):
            place, read_at = known
            age_s = self._monotonic() - read_at
            if age_s < FRESH_S:
                return replace(place, started_at=place.started_at + timedelta(seconds=age_s))
        async with self._database.organization(request.organization_id) as connection:
            place = await place_of(connection, request)
        if place.found:
            if len(self._known) >= MOST:
                self._known.clear()
            self._known[key] = (place, self._monotonic())
        return place
