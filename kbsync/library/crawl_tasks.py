"""Crawls of a source: how many of the claimed URLs are unfinished, and whether the crawl has ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import asyncpg

from kbsync.db.pool import Connection
from kbsync.db.statements import Statements
from kbsync.domain.states import CrawlStatus
from kbsync.domain.text import storable

_SQL = Statements.beside(__file__)

MAX_ERROR_LENGTH = 2_000


@dataclass(frozen=True)
class CrawlTaskRow:
    """`incomplete_reasons` say why the crawl is no complete listing; `started_at` when its seeds were all claimed."""

    id: int
    organization_id: int
    source_id: int
    start_url: str
    status: CrawlStatus
    urls_pending: int
    urls_found: int
    incomplete_reasons: tuple[str, ...]
    notes: tuple[str, ...]
    started_at: datetime | None


def _row(record: asyncpg.Record | None) -> CrawlTaskRow | None:
    if record is None:
        return None
    values = dict(record)
    values["status"] = CrawlStatus(values["status"])
    values["incomplete_reasons"] = tuple(values["incomplete_reasons"])
    values["notes"] = tuple(values["notes"])
    return CrawlTaskRow(**values)


async def create_or_find_live(
    connection: Connection, organization_id: int, source_id: int, start_url: str
) -> tuple[int, bool] | None:
    """The source's live crawl and whether it is new; None when there is no such kept source."""
    made = await connection.fetchval(_SQL["insert_task_if_none_live"], organization_id, source_id, storable(start_url))
    if made is not None:
        return made, True
    live = await connection.fetchval(_SQL["live_task_of_source"], organization_id, source_id)
    return (live, False) if live is not None else None


async def get(connection: Connection, organization_id: int, task_id: int) -> CrawlTaskRow | None:
    """A crawl of a kept source of this organization."""
    return _row(await connection.fetchrow(_SQL["task_by_id"], organization_id, task_id))


async def lock(connection: Connection, organization_id: int, task_id: int) -> CrawlTaskRow | None:
    """Holds the hot row until the transaction ends: claims and counts are exact under it."""
    return _row(await connection.fetchrow(_SQL["task_for_update"], organization_id, task_id))


async def count_claimed(
    connection: Connection,
    organization_id: int,
    task_id: int,
    claimed: int,
    reasons: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> None:
    """Before: the row is locked and `claimed` URL rows were inserted in this transaction."""
    arguments = (organization_id, task_id, claimed, distinct_texts(reasons), distinct_texts(notes))
    await connection.execute(_SQL["count_claimed"], *arguments)


async def run_if_pending(
    connection: Connection, organization_id: int, task_id: int, crawl_delay_s: float | None = None
) -> int | None:
    """After: the crawl is `running`. Answers what is pending, or None when it was not `pending`. `crawl_delay_s` is what the
    host asks for between two fetches."""
    arguments = (organization_id, task_id, crawl_delay_s)
    pending: int | None = await connection.fetchval(_SQL["run_task_if_pending"], *arguments)
    return pending


async def complete(connection: Connection, organization_id: int, task_id: int) -> CrawlTaskRow | None:
    """The crawl as it ended, for the one caller that ended it; None for everybody else."""
    return _row(await connection.fetchrow(_SQL["complete_task"], organization_id, task_id))


async def fail_if_pending(connection: Connection, organization_id: int, task_id: int, error: str) -> int | None:
    """The source of a crawl that this call failed; None when it had started or ended already."""
    text = storable(error)[:MAX_ERROR_LENGTH]
    source_id: int | None = await connection.fetchval(_SQL["fail_task_if_pending"], organization_id, task_id, text)
    return source_id


def distinct_texts(texts: Sequence[str]) -> list[str]:
    """Each text once, storable, in order."""
    return list(dict.fromkeys(storable(text) for text in texts))
