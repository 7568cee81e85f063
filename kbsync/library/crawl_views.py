"""Crawls as people look at them: lists, one crawl's figures, what failed and why, and the tree of who led to whom.

Every statement is a bounded read, also over 100,000 URLs: counts come from an index of what was not stored, and each
node of the tree brings so many children and counts so many."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import asyncpg

from kbsync.db.pool import Connection
from kbsync.db.statements import Statements

_SQL = Statements.beside(__file__)

LOOKED_AT = 20_000
GROUPED = 1_000  # the newest failed URLs that are grouped by reason
CHILDREN_COUNTED = 1_000
HIGHEST = 2**63 - 1


@dataclass(frozen=True)
class CrawlLine:
    id: int
    organization_id: int
    organization: str
    source_id: int
    source: str
    start_url: str
    status: str
    urls_found: int
    urls_pending: int
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    incomplete_reasons: tuple[str, ...]
    error: str | None


@dataclass(frozen=True)
class CrawlPage(CrawlLine):
    """`outcomes` counts finished URLs by outcome. `crawl_delay_s` is what the host asks for between two fetches."""

    notes: tuple[str, ...]
    config: Mapping[str, object]
    source_config: Mapping[str, object]
    outcomes: Mapping[str, int]

    @property
    def crawl_delay_s(self) -> float | None:
        value = self.config.get("crawl_delay_s")
        return float(value) if isinstance(value, int | float) else None


@dataclass(frozen=True)
class Reason:
    """Why URLs failed; `urls` are a few of them."""

    detail: str
    count: int
    urls: tuple[str, ...]


@dataclass(frozen=True)
class UrlNode:
    """A URL with what it led to: `children` of them, `failed` and `unfinished` among those, counted to a bound."""

    id: int
    url: str
    url_key: str
    parent_url: str | None
    depth: int
    outcome: str | None
    detail: str | None
    finished_at: datetime | None
    document_id: int | None
    children: int
    failed: int
    unfinished: int


@dataclass(frozen=True)
class UrlLine:
    id: int
    url: str
    url_key: str
    parent_url: str | None
    outcome: str | None
    detail: str | None
    finished_at: datetime | None
    document_id: int | None


def _values(record: asyncpg.Record) -> dict[str, Any]:
    values = dict(record)
    for name in ("config", "source_config", "outcomes"):
        if name in values:
            values[name] = json.loads(values[name] or "{}")
    for name in ("incomplete_reasons", "notes"):
        if name in values:
            values[name] = tuple(values[name])
    return values


async def crawl_list(
    connection: Connection,
    organization_id: int | None,
    *,
    chosen: int | None = None,
    source_id: int | None = None,
    status: str | None = None,
    before_id: int = HIGHEST,
    limit: int = 50,
) -> tuple[list[CrawlLine], int | None]:
    """Crawls of kept sources, newest first, and where the next page begins. `organization_id` None: of every organization,
    in a `fleet()` transaction. `chosen` and `status` narrow it down."""
    arguments = (organization_id, before_id, chosen, source_id, status, LOOKED_AT, limit + 1)
    lines = [CrawlLine(**_values(row)) for row in await connection.fetch(_SQL["crawl_list"], *arguments)]
    if len(lines) > limit:
        return lines[:limit], lines[limit - 1].id
    reach = await connection.fetchval(
        _SQL["crawl_list_reach"], organization_id, before_id, chosen, source_id, LOOKED_AT
    )
    return lines, reach


async def live_crawls(connection: Connection, organization_id: int | None, most: int) -> int:
    """How many crawls have not ended, counted to `most`; None: of every organization, in a `fleet()` transaction."""
    counted: int = await connection.fetchval(_SQL["live_crawls"], organization_id, most)
    return counted


async def crawl_page(connection: Connection, organization_id: int, task_id: int) -> CrawlPage | None:
    """A crawl of a kept source of this organization."""
    row = await connection.fetchrow(_SQL["crawl_page"], organization_id, task_id)
    if row is None:
        return None
    values = _values(row)
    other = sum(values["outcomes"].values())
    values["outcomes"]["stored"] = max(0, values["urls_found"] - values["urls_pending"] - other)
    return CrawlPage(**values)


async def failure_reasons(connection: Connection, organization_id: int, task_id: int) -> list[Reason]:
    """Why the newest GROUPED failed URLs failed, the most frequent reason first."""
    rows = await connection.fetch(_SQL["failure_reasons"], organization_id, task_id, GROUPED)
    return [Reason(row["detail"], row["count"], tuple(row["urls"])) for row in rows]


async def urls_by_outcome(
    connection: Connection, organization_id: int, task_id: int, outcome: str, *, after_id: int = 0, limit: int = 50
) -> tuple[list[UrlLine], int | None]:
    """Finished URLs of an outcome other than `stored`, in the order of their claims, and where the next page begins."""
    rows = await connection.fetch(_SQL["urls_by_outcome"], organization_id, task_id, outcome, after_id, limit + 1)
    lines = [UrlLine(**row) for row in rows]
    return lines[:limit], lines[limit - 1].id if len(lines) > limit else None


async def node(connection: Connection, organization_id: int, task_id: int, url_key: str) -> UrlNode | None:
    found = await _nodes(connection, organization_id, task_id, "id_of_url", url_key)
    return found[0] if found else None


async def way_to(
    connection: Connection, organization_id: int, task_id: int, url_key: str, most: int = 25
) -> list[tuple[str, str]]:
    """(url, url_key) from a seed, or `most` steps away, down to the URL itself."""
    rows = await connection.fetch(_SQL["way_to_url"], organization_id, task_id, url_key, most)
    return [(row["url"], row["url_key"]) for row in rows]


async def seeds(
    connection: Connection, organization_id: int, task_id: int, after_id: int, limit: int
) -> tuple[list[UrlNode], int | None]:
    """What the start of the crawl claimed, the start page first."""
    nodes = await _nodes(connection, organization_id, task_id, "seed_ids", after_id, limit + 1)
    return nodes[:limit], nodes[limit - 1].id if len(nodes) > limit else None


async def children(
    connection: Connection,
    organization_id: int,
    task_id: int,
    parents: Sequence[str],
    after_id: int,
    limit: int,
    counted: int = CHILDREN_COUNTED,
) -> dict[str, list[UrlNode]]:
    """By parent, the first `limit` URLs after `after_id` that it led to."""
    found: dict[str, list[UrlNode]] = {}
    arguments = (list(parents), after_id, limit)
    for one in await _nodes(connection, organization_id, task_id, "child_ids", *arguments, counted=counted):
        found.setdefault(one.parent_url or "", []).append(one)
    return found


async def _nodes(
    connection: Connection,
    organization_id: int,
    task_id: int,
    which: str,
    *arguments: object,
    counted: int = CHILDREN_COUNTED,
) -> list[UrlNode]:
    """Those whose ids the statement `which` answers, in the order of their claims."""
    ids = [row["id"] for row in await connection.fetch(_SQL[which], organization_id, task_id, *arguments)]
    rows = await connection.fetch(_SQL["nodes"], organization_id, task_id, ids, counted + 1) if ids else []
    return [UrlNode(**row) for row in rows]
