"""PF-15: full text search over a hundred thousand chunks of real text, shared by many tenants of unlike size.

The text is the PostgreSQL manual where it is installed, else the descriptions of the installed Python packages; one tenant is
stored as a sync would, the others are copies. Queries have one to three words, common, middling and rare.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import quantiles

from kbsync.db.pool import Connection, Database
from kbsync.db.statements import Statements
from kbsync.domain.chunking import Chunk, chunk
from kbsync.domain.text import content_hash
from kbsync.library import organizations, sources
from kbsync.library.chunks import replace_chunks
from kbsync.library.documents import NewDocument, StoredText, external_key, upsert_listed
from kbsync.library.search import search
from kbsync.providers.html import HtmlDocument, to_markdown
from ops.bench.crawl import MANUAL
from ops.bench.figures import Bar, Figure, Row, limit, sample
from ops.bench.processes import postgres_up
from ops.bench.table import Options
from ops.sample_site import installed_packages, render_package

CHUNKS = 100_000
SMALL_TENANTS = 40  # besides the large ones, each with a handful of documents
QUERIES = 600
WORD = re.compile(r"[a-z]{3,}")

_SQL = Statements.beside(__file__)


@dataclass(frozen=True)
class Text:
    name: str
    page: HtmlDocument
    chunks: Sequence[Chunk]


def measure(options: Options) -> list[Figure]:
    with postgres_up(options.folder) as database_url:
        return asyncio.run(_measure(options, database_url))


async def _measure(options: Options, database_url: str) -> list[Figure]:
    texts = list(real_texts(options.count(100_000, 40)))
    database = await Database.open(database_url, max_size=2)
    try:
        tenants, chunks = await fill(database, texts, options.count(CHUNKS, 2_000))
        options.say(f"{chunks:,} chunks of {len(tenants)} tenants")
        rare_first = random.Random(1)
        words = _by_frequency(texts)
        took: list[float] = []
        for number in range(options.count(QUERIES, 60)):
            query = _query(words, rare_first, number)
            begun = time.perf_counter()
            tenant = rare_first.choice(tenants)
            async with database.organization(tenant) as connection:
                await search(connection, tenant, query)
            took.append((time.perf_counter() - begun) * 1e3)
    finally:
        await database.close()
    cuts = quantiles(took, n=100)
    p95 = sample([cuts[94]], "ms")
    rows = (Row("p50", sample([cuts[49]], "ms")), Row("p95", p95), Row("p99", sample([cuts[98]], "ms")))
    notes = (
        f"{chunks:,} chunks of {len(tenants)} tenants, {len(took)} queries of one to three words, ten results each",
    )
    return [Figure("PF-15", "search", (limit("ms p95", p95, 50, Bar.BELOW),), rows, notes)]


def real_texts(most: int) -> Iterator[Text]:
    """Pages of the manual, or of the installed packages, as a crawl would store them."""
    for name, html in _pages(most):
        page = to_markdown(html, base_url=f"https://docs.example/{name}")
        if page.markdown:
            yield Text(name, page, chunk(page.markdown, size=1_600, overlap=160))


def _pages(most: int) -> Iterator[tuple[str, str]]:
    if MANUAL.is_dir():
        for path in sorted(MANUAL.glob("*.html"))[:most]:
            yield path.name, path.read_text(encoding="utf-8", errors="replace")
        return
    packages = installed_packages()
    for name in list(packages)[:most]:
        yield name, render_package(name, packages)


async def fill(database: Database, texts: Sequence[Text], chunks: int) -> tuple[list[int], int]:
    """Tenants until there are so many chunks: large ones with all texts, and small ones. Their ids, and the chunks."""
    first = await _tenant(database)
    for start in range(0, len(texts), 100):
        async with database.organization(first[0]) as connection:
            await _store(connection, *first, texts[start : start + 100])
    tenants = [first[0]]
    stored = whole = sum(len(text.chunks) for text in texts)
    for number in range(SMALL_TENANTS):
        tenants.append((await _copy(database, first[0], 1 + number % 10))[0])
    while stored < chunks:
        tenants.append((await _copy(database, first[0], len(texts)))[0])
        stored += whole
    async with database.fleet() as connection:
        stored = await connection.fetchval(_SQL["chunk_count"])
    async with database.direct() as connection:
        await connection.execute(_SQL["look_at_chunks"])
    return tenants, stored


async def _tenant(database: Database) -> tuple[int, int]:
    async with database.fleet() as connection:
        organization_id = await organizations.create(connection, "Bench")
    async with database.organization(organization_id) as connection:
        source_id = await sources.create(connection, organization_id, type="website", config={})
    assert source_id is not None
    return organization_id, source_id


async def _copy(database: Database, of: int, documents: int) -> tuple[int, int]:
    made = await _tenant(database)
    async with database.fleet() as connection:
        await connection.execute(_SQL["copy_tenant"], of, *made, documents)
    return made


async def _store(connection: Connection, organization_id: int, source_id: int, texts: Sequence[Text]) -> None:
    listed = await upsert_listed(
        connection,
        organization_id,
        source_id,
        "website",
        1,
        [
            NewDocument(
                text.name,
                text.page.title,
                f"https://docs.example/{text.name}",
                text=StoredText(text.page.markdown, content_hash(text.page.markdown), False, text.page.language),
            )
            for text in texts
        ],
    )
    ids = {row.external_key: row.id for row in listed}
    for text in texts:
        await replace_chunks(
            connection,
            organization_id,
            ids[external_key(text.name)],
            text.chunks,
            title=text.page.title,
            url=f"https://docs.example/{text.name}",
            language=text.page.language,
        )


def _by_frequency(texts: Sequence[Text]) -> list[str]:
    found: Counter[str] = Counter()
    for text in texts:
        found.update(set(WORD.findall(text.page.markdown.lower())))
    return [word for word, _ in found.most_common()]


def _query(words: Sequence[str], choice: random.Random, number: int) -> str:
    bands = (words[:100], words[100:1_000] or words, words[1_000:] or words)
    return " ".join(choice.choice(choice.choice(bands)) for _ in range(1 + number % 3))
