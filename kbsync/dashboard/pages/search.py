"""`/search`: what a product that asks kbsync would be answered, and where each passage comes from (LS-21)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

from kbsync.dashboard import knowledge_words as words
from kbsync.dashboard.ask import Access, Ask
from kbsync.dashboard.knowledge import address, id_or_none, place_of
from kbsync.dashboard.page import Page
from kbsync.dashboard.words import plain
from kbsync.library import document_pages, organizations, owners, source_pages
from kbsync.library.document_pages import Origin
from kbsync.library.organizations import OrganizationRow
from kbsync.library.search import MAX_OFFSET, Hit, SearchRefused
from kbsync.library.search import search as find_passages

HITS = 10
CHOICES = 200


@dataclass(frozen=True)
class Shown:
    hit: Hit
    snippet: Markup
    origin: Origin | None


async def search(ask: Ask) -> Mapping[str, Any]:
    query, language = ask.query("q", 2_000), ask.query("language", 35)
    asked, source_id = id_or_none(ask.query("organization")), id_or_none(ask.query("source"))
    offset = min((place_of(ask.query("from"), 1) or (0,))[0], MAX_OFFSET)
    known, choices = await _organization(ask, asked)
    foreign = ask.organization_id is not None and asked not in (None, ask.organization_id)
    refusal, took_ms = "", 0.0
    shown: list[Shown] = []
    sources: list[tuple[int, str]] = []
    is_more = False
    if known is not None and not foreign:
        async with ask.services.database.organization(known.id) as connection:
            sources = [
                (row_id, words.source_name(name, f"source {row_id}") + f" ({words.provider_name(kind)})")
                for row_id, kind, name in await source_pages.source_names(connection, known.id)
            ]
            if query:
                began = time.perf_counter()
                try:
                    hits = await find_passages(
                        connection,
                        known.id,
                        query,
                        limit=HITS + 1,
                        offset=offset,
                        source_id=source_id,
                        language=language or None,
                        asker=ask.principal.asker,
                    )
                except SearchRefused as error:
                    refusal, hits = str(error), []
                took_ms = 1_000 * (time.perf_counter() - began)
                is_more = len(hits) > HITS and offset + HITS <= MAX_OFFSET
                hits = hits[:HITS]
                origins = await document_pages.origins(connection, known.id, [hit.document_id for hit in hits])
                shown = [Shown(hit, marked(hit), origins.get(hit.document_id)) for hit in hits]
    elif foreign:
        refusal = "You are bound to one organization, and can search that one only."
    elif query:
        refusal = (
            "There is no such organization: choose another one."
            if asked is not None
            else "Choose an organization to search in."
        )
    parts = {
        "q": query,
        "organization": known.id if known and ask.organization_id is None else "",
        "source": source_id,
        "language": language,
    }
    return {
        "query": query,
        "organization": known,
        "choices": choices,
        "sources": sources,
        "source_id": source_id,
        "language": language,
        "shown": shown,
        "refusal": words.sentence(refusal),
        "took_ms": took_ms,
        "offset": offset,
        "more": address("/search", **parts, **{"from": offset + HITS}) if is_more else None,
        "first": address("/search", **parts) if offset else None,
        "may_open": ask.may(Access.KNOWLEDGE),
        "words": words,
    }


def marked(hit: Hit) -> Markup:
    """The passage with its matches marked, escaped, and with what turns text around as its code."""
    parts, copied = [], 0
    for start, end in hit.highlights:
        parts.append(escape(plain(hit.snippet[copied:start])))
        parts.append(Markup("<mark>{}</mark>").format(plain(hit.snippet[start:end])))
        copied = end
    return Markup("").join([*parts, escape(plain(hit.snippet[copied:]))])


async def _organization(ask: Ask, asked: int | None) -> tuple[OrganizationRow | None, list[OrganizationRow] | None]:
    """The organization to search in, and those to choose from; None: there are too many, so an id is typed."""
    own = ask.organization_id
    if own is not None:
        async with ask.services.database.organization(own) as connection:
            return await organizations.get(connection, own), []
    async with ask.services.database.fleet() as connection:
        choices = await owners.organizations_by_name(connection, CHOICES + 1)
        found = await organizations.get(connection, asked) if asked is not None else None
    if found is None and asked is None and len(choices) == 1:
        found = choices[0]
    return found, choices if len(choices) <= CHOICES else None


PAGES = (Page("/search", "search.html", search, Access.SEARCH),)
