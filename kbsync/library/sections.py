"""Sections: a provider's grouping of documents, and the links between the two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kbsync.db.pool import Connection
from kbsync.db.statements import Statements
from kbsync.domain.text import storable
from kbsync.library.documents import external_key

_SQL = Statements.beside(__file__)


@dataclass(frozen=True)
class NewSection:
    """A section as a listing names it; ids are the provider's."""

    external_id: str
    title: str
    parent_external_id: str | None = None
    position: int = 0


async def upsert_listed(
    connection: Connection, organization_id: int, source_id: int, run: int, sections: Sequence[NewSection]
) -> None:
    """Writes a batch and stamps it with the run. The last one of an id wins."""
    by_key = {external_key(section.external_id): section for section in sections}
    keys = sorted(by_key)
    rows = [by_key[key] for key in keys]
    await connection.execute(
        _SQL["upsert_listed_sections"],
        organization_id,
        source_id,
        run,
        [storable(row.external_id) for row in rows],
        keys,
        [storable(row.title) for row in rows],
        [row.position for row in rows],
        [external_key(row.parent_external_id) if row.parent_external_id is not None else None for row in rows],
    )


async def link_parents(connection: Connection, organization_id: int, source_id: int, run: int) -> None:
    """Before: every section of the run is written. After: each knows its parent's row."""
    await connection.execute(_SQL["link_parents"], organization_id, source_id, run)


async def replace_links(
    connection: Connection, organization_id: int, source_id: int, links: Sequence[tuple[int, tuple[str, ...]]]
) -> None:
    """Each document's sections are exactly those given (by the provider's ids); none means none."""
    documents: list[int] = []
    ids: list[str | None] = []
    keys: list[str | None] = []
    for document_id, section_ids in sorted(links):
        for section_id in section_ids or (None,):
            documents.append(document_id)
            ids.append(storable(section_id) if section_id is not None else None)
            keys.append(external_key(section_id) if section_id is not None else None)
    await connection.execute(_SQL["replace_document_sections"], organization_id, source_id, documents, ids, keys)


async def discard_unseen(
    connection: Connection, organization_id: int, source_id: int, run: int, *, only_empty: bool = False
) -> None:
    """Before: the run's listing is complete and its removal was decided (LS-09). `only_empty`: a section stays while it
    holds a document."""
    await connection.execute(_SQL["discard_unseen_sections"], organization_id, source_id, run, only_empty)


async def paths_of_document(connection: Connection, organization_id: int, document_id: int) -> list[tuple[str, ...]]:
    """The way from the outermost section to the document, once for each section that holds it."""
    rows = await connection.fetch(_SQL["section_paths_of_document"], organization_id, document_id)
    return [tuple(title for title in row["titles"] if title) for row in rows]
