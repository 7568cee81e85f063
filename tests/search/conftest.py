"""A library with documents to be found: organization, source and documents by one short call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from kbsync.db.pool import Database
from kbsync.domain.chunking import chunk
from kbsync.domain.text import storable
from kbsync.library.chunks import ChunkDiff, replace_chunks


@dataclass
class Shelf:
    """One organization's source; `put` stores a document with its chunks and answers its id."""

    database: Database
    organization_id: int
    source_id: int

    async def put(
        self, title: str, markdown: str, *, url: str | None = None, language: str | None = None, size: int = 1_600
    ) -> int:
        async with self.database.organization(self.organization_id) as connection:
            document_id: int = await connection.fetchval(
                "insert into knowledge_base_documents (organization_id, source_id, external_id, title, url, content,"
                " language) values ($1, $2, $3, $3, $4, $5, $6) returning id",
                self.organization_id,
                self.source_id,
                title,
                url,
                storable(markdown),
                language,
            )
        await self.replace(document_id, title, markdown, url=url, language=language, size=size)
        return document_id

    async def replace(
        self,
        document_id: int,
        title: str,
        markdown: str,
        *,
        url: str | None = None,
        language: str | None = None,
        size: int = 1_600,
    ) -> ChunkDiff:
        async with self.database.organization(self.organization_id) as connection:
            return await replace_chunks(
                connection,
                self.organization_id,
                document_id,
                chunk(markdown, size=size),
                title=title,
                url=url,
                language=language,
            )


NewShelf = Callable[[], Awaitable[Shelf]]


@pytest.fixture
def new_shelf(database: Database) -> NewShelf:
    async def make() -> Shelf:
        async with database.fleet() as connection:
            organization_id = await connection.fetchval("insert into organizations (name) values ('o') returning id")
            source_id = await connection.fetchval(
                "insert into knowledge_base_sources (organization_id, type) values ($1, 'files') returning id",
                organization_id,
            )
        return Shelf(database, organization_id, source_id)

    return make


@pytest.fixture
async def shelf(new_shelf: NewShelf) -> Shelf:
    return await new_shelf()
