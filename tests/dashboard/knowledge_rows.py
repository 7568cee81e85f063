"""Two organizations with something of everything that a page of knowledge shows."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import asyncpg

from kbsync.db.pool import Database
from kbsync.domain.chunking import chunk
from kbsync.domain.ids import QueueName, url_digest
from kbsync.domain.text import storable
from kbsync.library import data_sources, organizations, sources
from kbsync.library.chunks import replace_chunks
from ops.serve.workers import scan
from workers.runtime import Runtime

EVIL = "<img src=x onerror=alert(1)> \u202eevil"


@dataclass
class Shelf:
    """An organization. Each call adds one thing and answers its id."""

    database: Database
    organization_id: int

    async def run(self, sql: str, *arguments: object) -> int:
        async with self.database.organization(self.organization_id) as connection:
            answered: int = await connection.fetchval(sql, self.organization_id, *arguments)
            return answered

    async def source(
        self, type: str = "website", name: str = "", config: dict[str, object] | None = None, sealed: str | None = None
    ) -> int:
        async with self.database.organization(self.organization_id) as connection:
            data_source_id = await data_sources.create(
                connection, self.organization_id, provider=type, name=name, sealed_credentials=sealed
            )
            made = await sources.create(
                connection,
                self.organization_id,
                type=type,
                name=name,
                config=config or {"start_url": "https://docs.example.test/"},
                data_source_id=data_source_id,
            )
        assert made is not None
        return made

    async def document(
        self, source_id: int, title: str = "A page", text: str = "Some words.", url: str | None = None
    ) -> int:
        """Synced, with its chunks."""
        document_id = await self.run(
            "insert into knowledge_base_documents (organization_id, source_id, source_type, external_id, title, url, content,"
            " last_synced_at, chunks_synced_at) values ($1, $2, 'website', $3, $4, $5, $6, now(), now()) returning id",
            source_id,
            url or title,
            title,
            url,
            storable(text),
        )
        async with self.database.organization(self.organization_id) as connection:
            await replace_chunks(
                connection,
                self.organization_id,
                document_id,
                chunk(text, size=1_600),
                title=title,
                url=url,
                language="en",
            )
        return document_id

    async def crawl(self, source_id: int, *, found: int = 0, pending: int = 0, status: str = "running") -> int:
        return await self.run(
            "insert into knowledge_base_crawl_tasks (organization_id, source_id, start_url, status, urls_found,"
            " urls_pending, started_at, finished_at) values ($1, $2, 'https://docs.example.test/', $3, $4, $5,"
            " now() - interval '1 minute', case when $3 = 'completed' then now() end) returning id",
            source_id,
            status,
            found,
            pending,
        )

    async def url(
        self,
        task_id: int,
        url: str,
        parent: str | None = None,
        outcome: str | None = "stored",
        detail: str | None = None,
        document_id: int | None = None,
    ) -> int:
        return await self.run(
            "insert into kbsync.crawl_task_urls (organization_id, crawl_task_id, url, url_key, fetch_url, parent_url, depth,"
            " finished_at, outcome, detail, document_id) values ($1, $2, $3, $4, $3, $5, 1,"
            " case when $6::text is not null then now() end, $6, $7, $8) returning id",
            task_id,
            url,
            url_digest(url),
            parent,
            outcome,
            detail,
            document_id,
        )

    async def hold(self, source_id: int, **held: object) -> None:
        stored = {"count": 12, "of": 30, "titles": ["Old price list"], "since": "2026-09-01T10:00:00+00:00", "run": 4}
        stored |= {"why": "12 of 30 documents would go at once"} | held
        await self.run(
            "update knowledge_base_sources set held_removal = $3::jsonb where organization_id = $1 and id = $2 returning id",
            source_id,
            json.dumps(stored),
        )

    async def failed(self, source_id: int, error: str) -> None:
        async with self.database.organization(self.organization_id) as connection:
            await sources.fail(connection, self.organization_id, source_id, error)


async def shelf(database: Database, name: str) -> Shelf:
    async with database.fleet() as connection:
        return Shelf(database, await organizations.create(connection, name))


@asynccontextmanager
async def working(runtime: Runtime) -> AsyncIterator[None]:
    """A worker of each queue runs until the block ends."""
    runner = runtime.unit_runner(scan)
    workers = [runtime.worker(queue, runner) for queue in QueueName]
    tasks = [asyncio.create_task(worker.run()) for worker in workers]
    try:
        yield
    finally:
        for worker in workers:
            worker.request_stop()
            worker.request_stop()
        await asyncio.gather(*tasks)


async def most_rows(database_url: str, *asked: tuple[str, Sequence[object]]) -> list[int]:
    """For each statement with its arguments, the most rows that any step of its plan handled: what a page costs, however
    large the table is."""
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute("analyze")
        answers = [await connection.fetchval(f"explain (analyze, format json) {sql}", *given) for sql, given in asked]
    finally:
        await connection.close()

    def steps(plan: dict[str, Any]) -> Iterator[int]:
        yield round((plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)) * plan["Actual Loops"])
        for below in plan.get("Plans", []):
            yield from steps(below)

    return [max(steps(json.loads(answer)[0]["Plan"])) for answer in answers]
