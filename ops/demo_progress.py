"""What the demo shows while it runs, read from the library."""

from __future__ import annotations

from dataclasses import dataclass

from kbsync.db.pool import Database
from kbsync.db.statements import Statements
from kbsync.domain.ids import job_id
from kbsync.domain.requests import SyncSource

_SQL = Statements.beside(__file__)


@dataclass(frozen=True)
class SourceProgress:
    id: int
    name: str
    status: str
    error: str | None
    owed: bool


@dataclass(frozen=True)
class Progress:
    sources: tuple[SourceProgress, ...]
    documents: int
    documents_fetched: int
    documents_chunked: int
    chunks: int
    urls_found: int
    urls_finished: int
    a_title: str

    @property
    def failed(self) -> bool:
        return any(source.status == "failed" and not source.owed for source in self.sources)

    @property
    def ended(self) -> bool:
        """Every source ended, every document that was asked for was fetched, and what has content has its chunks."""
        settled = all(source.status in ("synced", "failed") and not source.owed for source in self.sources)
        return settled and self.documents_fetched == self.documents == self.documents_chunked

    def line(self) -> str:
        stands = ", ".join(f"{source.name}: {source.status}" for source in self.sources)
        crawl = f"pages {self.urls_finished}/{self.urls_found}   " if self.urls_found else ""
        return f"{crawl}documents {self.documents_fetched}/{self.documents}   chunks {self.chunks}   [{stands}]"

    def problems(self) -> list[str]:
        return [
            f"source {s.id} is {s.status}: {s.error or 'not finished in time'}"
            for s in self.sources
            if s.status != "synced"
        ]


async def read_progress(database: Database, organization_id: int, source_ids: list[int]) -> Progress:
    jobs = [job_id(SyncSource(organization_id=organization_id, source_id=source_id)) for source_id in source_ids]
    async with database.organization(organization_id) as connection:
        sources = await connection.fetch(_SQL["sources_progress"], organization_id, source_ids, jobs)
        counts = await connection.fetchrow(_SQL["documents_progress"], organization_id, source_ids)
    assert counts is not None
    return Progress(tuple(SourceProgress(**row) for row in sources), **counts)
