"""`/documents/{id}`: where a document comes from, how it stands, and what search has of it.

Its text and chunks are knowledge: they are for those who may search and whom the document is for (LS-27), whoever may look
at the rest. Pictures and files in it are links, which lead on to where they are now (LS-25)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, assert_never
from urllib.parse import quote

from markupsafe import Markup, escape

from kbsync.dashboard import knowledge_words as words
from kbsync.dashboard.ask import Access, Ask, LeadOut, NotHere, NotNow
from kbsync.dashboard.audience_words import audience_words, why_hidden
from kbsync.dashboard.knowledge import address, organization_of, place_of
from kbsync.dashboard.page import Page
from kbsync.dashboard.words import outside
from kbsync.library import document_pages, owners, sections
from kbsync.providers.contract import ASSET_SCHEME
from kbsync.sync.assets import NAME, AssetAt, AssetGone, AssetLater, NoAsset

TEXT_SHOWN = 20_000
WHOLE_TEXT = 5_000_000
NO_ASSET = "There is no such picture or file, or it is not for you."
_REFERENCE = re.compile(f"{ASSET_SCHEME}({NAME.pattern})")
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
            asker = ask.principal.asker
            text, characters = await document_pages.document_text(connection, organization_id, document_id, most, asker)
            chunks, more = await document_pages.document_chunks(connection, organization_id, document_id, asker, after)
    here = f"/documents/{document_id}"
    return {
        "row": row,
        "standing": words.document_standing(row),
        "source_name": words.source_name(row.source or "", ""),
        "paths": paths[:20],
        "may_read": may_read,
        "hidden": None if ask.principal.asker.may_find(row.audience) else why_hidden(row.audience),
        "audience": audience_words(row.audience),
        "text": with_assets(text, document_id),
        "shown": len(text),
        "characters": characters,
        "chunks": [(chunk, with_assets(chunk.content, document_id)) for chunk in chunks],
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


def with_assets(text: str, document_id: int) -> Markup:
    """As `shown_text`, each reference to an asset a link to it."""
    parts, shown = [], 0
    for found in _REFERENCE.finditer(text):
        parts.append(shown_text(text[shown : found.start()]))
        link = Markup('<a href="{}" rel="noopener noreferrer" target="_blank">{}</a>')
        address_of = f"/documents/{document_id}/assets/{quote(found[1], safe='')}"
        parts.append(link.format(address_of, shown_text(found[0])))
        shown = found.end()
    return Markup("").join([*parts, shown_text(text[shown:])])


async def asset(ask: Ask) -> Mapping[str, Any]:
    """Never a page of ours: on to the picture or file, or why not."""
    document_id = ask.number("id")
    organization_id = await organization_of(ask, owners.owner_of_document, document_id, NO_ASSET)
    answer = await ask.services.assets.address_of(organization_id, document_id, ask.part("asset"), ask.principal.asker)
    match answer:
        case AssetAt(url):
            raise LeadOut(url)
        case NoAsset() | AssetGone():
            raise NotHere(NO_ASSET)
        case AssetLater():
            raise NotNow(f"{words.sentence(answer.why)} Open it again later.", answer.wait_s)
        case _:
            assert_never(answer)


PAGES = (
    Page("/documents/{id}", "document.html", document, Access.KNOWLEDGE),
    Page("/documents/{id}/assets/{asset}", "sorry.html", asset, Access.SEARCH),
)
