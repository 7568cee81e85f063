"""The PostgreSQL manual as a library: the pages a reader means come first, and fast."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import pytest

from kbsync.domain.chunking import chunk
from kbsync.library.chunks import replace_chunks
from kbsync.library.search import search
from kbsync.providers.html import to_markdown
from tests.conftest import POSTGRES_MANUAL
from tests.search.conftest import Shelf

# What a reader of the manual means by a query, and by which place at the latest it must come.
MEANT = [
    ("vacuum freeze", "sql-vacuum", 3),
    ("vacuum freeze", "routine-vacuuming", 3),
    ("create index concurrently", "sql-createindex", 1),
    ("jsonb operators", "functions-json", 3),
    ("listen", "sql-listen", 3),
    ("pg_dump", "app-pgdump", 1),
    ("autovacuum", "routine-vacuuming", 3),
    ("row level security", "ddl-rowsecurity", 3),
    ("window functions", "tutorial-window", 3),
    ("window functions", "functions-window", 3),
    ("transaction isolation", "transaction-iso", 1),
    ("explain analyze", "using-explain", 3),
    ("foreign key", "ddl-constraints", 5),
    ("point in time recovery", "continuous-archiving", 3),
    ("insert on conflict", "sql-insert", 1),
    ("generate_series", "functions-srf", 3),
]


async def store_manual(shelf: Shelf) -> int:
    pages = sorted(POSTGRES_MANUAL.glob("*.html"))
    for begin in range(0, len(pages), 100):
        async with shelf.database.organization(shelf.organization_id) as connection:
            for page in pages[begin : begin + 100]:
                await _store(shelf, connection, page)
    return len(pages)


async def _store(shelf: Shelf, connection, page: Path) -> None:  # type: ignore[no-untyped-def]
    url = f"https://manual.example/{page.name}"
    document = to_markdown(page.read_text(encoding="utf-8"), base_url=url)
    document_id = await connection.fetchval(
        "insert into knowledge_base_documents (organization_id, source_id, external_id, title, url)"
        " values ($1, $2, $3, $4, $3) returning id",
        shelf.organization_id,
        shelf.source_id,
        url,
        document.title,
    )
    chunks = chunk(document.markdown, size=1_600, overlap=160)
    await replace_chunks(
        connection,
        shelf.organization_id,
        document_id,
        chunks,
        title=document.title,
        url=url,
        language=document.language,
    )


@pytest.mark.spec("LS-21")
@pytest.mark.needs("postgresql-doc-15")
async def test_the_manual_s_pages_are_found_as_its_readers_mean_them(shelf: Shelf) -> None:
    assert await store_manual(shelf) > 1_000
    late, times = [], []
    for query, page, place in MEANT:
        async with shelf.database.organization(shelf.organization_id) as connection:
            started = time.perf_counter()
            hits = await search(connection, shelf.organization_id, query)
            times.append(time.perf_counter() - started)
        names = [(hit.url or "").rsplit("/", 1)[1].removesuffix(".html") for hit in hits]
        if page not in names[:place]:
            late.append((query, page, names))
    assert not late
    # A bound for a shared machine: some 10 ms each, a sequential scan takes ten times that.
    assert statistics.median(times) < 0.1
