"""Documents as a listing and their own sync write them, and as the chunk unit reads them. Crawled pages: crawl_pages.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from kbsync.db.pool import Connection
from kbsync.db.statements import Statements
from kbsync.domain.audience import PUBLIC, Audience
from kbsync.domain.ids import url_digest
from kbsync.domain.text import storable

_SQL = Statements.beside(__file__)

MAX_REASON_LENGTH = 1_000


@dataclass(frozen=True)
class StoredText:
    """Content that Postgres takes, under the cap, with the hash that decides whether it changed (LS-13)."""

    markdown: str
    hash: str
    truncated: bool
    language: str | None = None


@dataclass(frozen=True)
class NewDocument:
    """A document as a listing names it. `text` where the listing brings content."""

    external_id: str
    title: str
    url: str | None = None
    changed_at: datetime | None = None
    version: str | None = None
    text: StoredText | None = None
    audience: Audience = PUBLIC


@dataclass(frozen=True)
class NewUnreadable:
    external_id: str
    title: str
    reason: str
    url: str | None = None


@dataclass(frozen=True)
class Listed:
    """A written document: `due` for its own sync, `chunks_due` when it has content and no chunks."""

    id: int
    external_key: str
    due: bool
    chunks_due: bool


@dataclass(frozen=True)
class DocumentRow:
    id: int
    organization_id: int
    source_id: int | None
    source_type: str
    external_id: str
    title: str
    url: str | None
    content_hash: str | None
    has_content: bool
    last_synced_at: datetime | None
    chunks_synced_at: datetime | None
    unreadable_reason: str | None
    etag: str | None
    last_modified: str | None
    source_changed_at: datetime | None
    source_version: str | None
    language: str | None
    listed_audience: str | None


@dataclass(frozen=True)
class ContentRow:
    id: int
    title: str
    url: str | None
    language: str | None
    content: str | None
    content_hash: str | None
    content_md5: str | None
    in_sections: bool

    @property
    def fingerprint(self) -> tuple[str | None, str | None]:
        """Equal exactly while the text is the same."""
        return self.content_hash, self.content_md5


@dataclass(frozen=True)
class RemovalCounts:
    """`missing` of the `kept` documents were not seen in the run; `missing_twice` not in the held run either."""

    kept: int
    missing: int
    missing_twice: int
    unreadable: int


def audience_text(audience: Audience) -> str:
    """An audience as one text, because arrays of arrays must be rectangles: kind and groups, joined by U+001F."""
    return "\x1f".join((audience.kind, *(storable(group).replace("\x1f", " ") for group in audience.groups)))


def external_key(external_id: str) -> str:
    """The unique key over a provider's id or a canonical URL, however long it is (E02). NUL is dropped, as when stored."""
    return url_digest(storable(external_id))


async def upsert_listed(
    connection: Connection,
    organization_id: int,
    source_id: int,
    source_type: str,
    run: int,
    documents: Sequence[NewDocument],
) -> list[Listed]:
    """Writes a batch and stamps it with the run. The last one of an id wins; the answer is in no order."""
    by_key = {external_key(document.external_id): document for document in documents}
    keys = sorted(by_key)
    rows = [by_key[key] for key in keys]
    records = await connection.fetch(
        _SQL["upsert_listed_documents"],
        organization_id,
        source_id,
        source_type,
        run,
        [storable(row.external_id) for row in rows],
        keys,
        [storable(row.title) for row in rows],
        [storable(row.url) if row.url is not None else None for row in rows],
        [row.changed_at for row in rows],
        [storable(row.version) if row.version is not None else None for row in rows],
        [row.text.markdown if row.text else None for row in rows],
        [row.text.hash if row.text else None for row in rows],
        [row.text.truncated if row.text else False for row in rows],
        [row.text.language if row.text else None for row in rows],
        [audience_text(row.audience) for row in rows],
    )
    return [Listed(**record) for record in records]


async def upsert_unreadable(
    connection: Connection,
    organization_id: int,
    source_id: int,
    source_type: str,
    run: int,
    items: Sequence[NewUnreadable],
) -> None:
    """Writes a batch of items that are listed and can't be read; what was stored of them stays."""
    by_key = {external_key(item.external_id): item for item in items}
    keys = sorted(by_key)
    rows = [by_key[key] for key in keys]
    await connection.execute(
        _SQL["upsert_unreadable_documents"],
        organization_id,
        source_id,
        source_type,
        run,
        [storable(row.external_id) for row in rows],
        keys,
        [storable(row.title) for row in rows],
        [storable(row.url) if row.url is not None else None for row in rows],
        [storable(row.reason)[:MAX_REASON_LENGTH] for row in rows],
    )


async def due_after(
    connection: Connection, organization_id: int, source_id: int, run: int, after_id: int, limit: int
) -> list[int]:
    """Ids of kept documents whose own sync is due (LS-08), after `after_id`, in order."""
    rows = await connection.fetch(_SQL["due_after"], organization_id, source_id, after_id, run, limit)
    return [row["id"] for row in rows]


async def without_chunks_after(
    connection: Connection, organization_id: int, source_id: int, after_id: int, limit: int
) -> list[int]:
    """Ids of kept documents with content and no chunks, after `after_id`, in order."""
    rows = await connection.fetch(_SQL["without_chunks_after"], organization_id, source_id, after_id, limit)
    return [row["id"] for row in rows]


async def chunks_outdated_after(
    connection: Connection, organization_id: int, source_id: int, after_id: int, limit: int
) -> list[int]:
    """Documents that were read and have no chunks for where they stand now, and for which no sync of their own is due."""
    rows = await connection.fetch(_SQL["chunks_outdated_after"], organization_id, source_id, after_id, limit)
    return [row["id"] for row in rows]


async def unlisted_due_after(
    connection: Connection,
    organization_id: int,
    source_id: int,
    run: int,
    after_id: int,
    limit: int,
    *,
    brings_content: bool,
) -> list[int]:
    """Ids of kept documents that the run did not list and that are due all the same, after `after_id`, in order."""
    arguments = (organization_id, source_id, after_id, run, brings_content, limit)
    return [row["id"] for row in await connection.fetch(_SQL["unlisted_due_after"], *arguments)]


async def removal_counts(
    connection: Connection,
    organization_id: int,
    source_id: int,
    run: int,
    *,
    held_run: int | None = None,
    held_since: datetime | None = None,
) -> RemovalCounts:
    """`held_run` and `held_since`: the complete run whose removal is held back, if one is."""
    arguments = (organization_id, source_id, run, held_run, held_since)
    row = await connection.fetchrow(_SQL["removal_counts"], *arguments)
    assert row is not None
    return RemovalCounts(**row)


async def missing_titles(
    connection: Connection, organization_id: int, source_id: int, run: int, limit: int
) -> list[str]:
    rows = await connection.fetch(_SQL["missing_titles"], organization_id, source_id, run, limit)
    return [row["title"] for row in rows]


async def discard_missing(
    connection: Connection,
    organization_id: int,
    source_id: int,
    run: int,
    *,
    held_run: int | None,
    held_since: datetime | None,
) -> int:
    """Discards what the run did not see, and answers how many; with `held_run` only what that run missed as well."""
    arguments = (organization_id, source_id, run, held_run, held_since)
    count: int = await connection.fetchval(_SQL["discard_missing"], *arguments)
    return count


async def ask_for_missing(
    connection: Connection,
    organization_id: int,
    source_id: int,
    run: int,
    *,
    held_run: int | None,
    held_since: datetime | None,
) -> int:
    """Makes due, each for its own sync, what `discard_missing` would discard, and answers how many."""
    arguments = (organization_id, source_id, run, held_run, held_since)
    tag = await connection.execute(_SQL["ask_for_missing"], *arguments)
    return int(tag.split()[-1])


async def discard(connection: Connection, organization_id: int, document_id: int) -> bool:
    """Soft. Its chunks and search row go; the row keeps its id for the day it comes back."""
    return await connection.fetchval(_SQL["discard_document"], organization_id, document_id) is not None


async def get(connection: Connection, organization_id: int, document_id: int) -> DocumentRow | None:
    """A kept document of a kept source or of none; of this organization."""
    row = await connection.fetchrow(_SQL["document_by_id"], organization_id, document_id)
    return DocumentRow(**row) if row else None


async def content(connection: Connection, organization_id: int, document_id: int) -> ContentRow | None:
    """As `get`, with the text."""
    row = await connection.fetchrow(_SQL["content_for_chunks"], organization_id, document_id)
    return ContentRow(**row) if row else None


async def lock_fingerprint(
    connection: Connection, organization_id: int, document_id: int
) -> tuple[str | None, str | None] | None:
    """Holds a kept document's row and answers the fingerprint of its text; None when it is gone."""
    row = await connection.fetchrow(_SQL["hash_for_update"], organization_id, document_id)
    return (row["content_hash"], row["content_md5"]) if row else None


async def settle_chunks(
    connection: Connection, organization_id: int, document_id: int, *, unit: str, started_at: datetime
) -> None:
    """Before: the row is locked and its chunks are those of its text. After: it says so, and `unit` (a job id), whose run
    began at the database's `started_at`, has ended as done."""
    await connection.execute(_SQL["settle_chunks"], organization_id, document_id, unit, started_at)


@dataclass(frozen=True)
class ListedState:
    """What the listing said before a fetch: version, time, and the audience as `audience_text` spells it."""

    version: str | None
    changed_at: datetime | None
    audience: str | None = None


async def store_content(
    connection: Connection,
    organization_id: int,
    document_id: int,
    *,
    title: str,
    text: StoredText,
    etag: str | None,
    last_modified: str | None,
    listed: ListedState,
    audience: Audience | None = None,
) -> None:
    """Changed text leaves the document without chunks; equal text moves `last_synced_at` alone (LS-10). `audience` None: as
    listed."""
    await connection.execute(
        _SQL["store_content"],
        organization_id,
        document_id,
        storable(title),
        text.markdown,
        text.hash,
        text.truncated,
        text.language,
        storable(etag) if etag is not None else None,
        storable(last_modified) if last_modified is not None else None,
        listed.version,
        listed.changed_at,
        audience_text(audience) if audience is not None else None,
        listed.audience,
    )


async def confirm_unchanged(
    connection: Connection, organization_id: int, document_id: int, listed: ListedState
) -> None:
    """As `store_content`, for a provider that says `unchanged`."""
    arguments = (organization_id, document_id, listed.version, listed.changed_at)
    await connection.execute(_SQL["confirm_unchanged"], *arguments)


async def mark_unreadable(connection: Connection, organization_id: int, document_id: int, reason: str) -> None:
    """Keeps the document with what it had, and says why it can't be read (LS-07)."""
    text = storable(reason)[:MAX_REASON_LENGTH]
    await connection.execute(_SQL["mark_unreadable"], organization_id, document_id, text)


async def chunks_are_due(connection: Connection, organization_id: int, document_id: int) -> bool:
    """Whether the document is kept, has content and has no chunks."""
    return bool(await connection.fetchval(_SQL["chunks_are_due"], organization_id, document_id))
