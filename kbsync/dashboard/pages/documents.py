"""`/documents/{id}`: where a document comes from, how it stands, and what search has of it.

Its text and chunks are knowledge: they are for those who may search, whoever may look at the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup, escape

from kbsync.dashboard import knowledge_words as words
from kbsync.dashboard.ask import Access, Ask, NotHere
from kbsync.dashboard.knowledge import address, organization_of, place_of
from kbsync.dashboard.page import Page
from kbsync.dashboard.words import outside
from kbsync.library import document_pages, owners, sections

TEXT_SHOWN = 20_000
WHOLE_TEXT = 5_000_000
MISSING = "There is no such document, or it is another organization’s."


async def document(ask: Ask) -> Mapping[str, Any]:
    document_id = ask.number("id")
    organization_id = await organization_of(ask, owners.owner_of_document, document_id, MISSING)
    may_read = ask.may(Access.SEARCH)
    most = WHOLE_TEXT if ask.query("text") == "all" else TEXT_SHOWN
    after = (place_of(ask.query("chunks"), 1) or (-1,))[0]
    text, characters = "", 0
    chunks: list[document_pages.ChunkLine] = []
    more: int | None = None
    async with ask.services.database.organization(organization_id) as connection:
        row = await document_pages.document_page(connection, organization_id, document_id)
        if row is None:
            raise NotHere(MISSING)
        paths = await sections.paths_of_document(connection, organization_id, document_id)
        if may_read:
            text, characters = await document_pages.document_text(connection, organization_id, document_id, most)
            chunks, more = await document_pages.document_chunks(connection, organization_id, document_id, after)
    here = f"/documents/{document_id}"
    return {
        "row": row,
        "standing": words.document_standing(row),
        "source_name": words.source_name(row.source or "", ""),
        "paths": paths[:20],
        "may_read": may_read,
        "text": shown_text(text),
        "shown": len(text),
        "characters": characters,
        "chunks": [(chunk, shown_text(chunk.content)) for chunk in chunks],
        "more": address(here, chunks=more) + "#chunks" if more is not None else None,
        "first": f"{here}#chunks" if after >= 0 else None,
        "words": words,
    }


def shown_text(text: str) -> Markup:
    """A text for <pre>: escaped, and what can't be shown or turns the text around as its code. Lines without any of it,
    nearly all, are taken as they are: a text may have five million characters."""
    return Markup("\n").join(
        escape(line) if line.replace("\t", "").isprintable() else outside(line) for line in text.split("\n")
    )


PAGES = (Page("/documents/{id}", "document.html", document, Access.KNOWLEDGE),)
