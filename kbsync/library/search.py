"""Full text search over an organization's chunks (LS-21). Ranking is in `migrations/routines/search_chunks.sql`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape

import asyncpg

from kbsync.db.pool import Connection
from kbsync.db.statements import Statements
from kbsync.domain.audience import ANYBODY, Asker
from kbsync.domain.errors import KbsyncError
from kbsync.domain.languages import primary_language, search_configuration
from kbsync.domain.markdown import plain_text
from kbsync.domain.text import searchable_query, searchable_text, unspaced

_SQL = Statements.beside(__file__)
MAX_QUERY = 500
MAX_LIMIT = 100
MAX_OFFSET = 10_000
CANDIDATES = 2_000
# Marks from the private use area: they are taken out of texts first, so that only Postgres can have set them.
_OPEN, _CLOSE = "\ue000", "\ue001"
_MARKS = re.compile(f"[{_OPEN}{_CLOSE}]")
_HEADLINE = (
    f"StartSel={_OPEN}, StopSel={_CLOSE}, MaxFragments=2, MaxWords=30, MinWords=12, ShortWord=2, "
    'FragmentDelimiter=" … "'
)  # fmt: skip
_MARKUP = re.compile(r"^[ \t]*(?:#{1,6}|>+|[-*+](?=\s))[ \t]*|\*\*|`+|^[ \t]*\|[ \t:|-]*\|[ \t]*$", re.MULTILINE)


class SearchRefused(KbsyncError):
    """The query can't be answered as asked; the message says why to the person who typed it."""


@dataclass(frozen=True)
class Hit:
    """A document that was found, by its best chunk. `snippet` is plain text, `highlights` the stretches of it (start, end)
    that match; `snippet_html` is the same, escaped, with `<mark>`. `link` leads to the chunk's place in the document."""

    document_id: int
    source_id: int | None
    title: str
    url: str | None
    anchor: str | None
    heading_path: tuple[str, ...]
    snippet: str
    highlights: tuple[tuple[int, int], ...]
    score: float

    @property
    def link(self) -> str | None:
        return f"{self.url.split('#')[0]}#{self.anchor}" if self.url and self.anchor else self.url

    @property
    def snippet_html(self) -> str:
        parts, copied = [], 0
        for start, end in self.highlights:
            parts += [escape(self.snippet[copied:start]), f"<mark>{escape(self.snippet[start:end])}</mark>"]
            copied = end
        return "".join(parts) + escape(self.snippet[copied:])


async def search(
    connection: Connection,
    organization_id: int,
    query: str,
    *,
    limit: int = 10,
    offset: int = 0,
    source_id: int | None = None,
    language: str | None = None,
    asker: Asker = ANYBODY,
) -> list[Hit]:
    """The documents that match and that `asker` may find (LS-27), best first, each once; without an asker public ones alone.
    Before: a transaction in `database.organization(organization_id)`.

    `query` is as people type it: words, "phrases", or, -without. Any text is safe; SearchRefused for one that is empty, too
    long or names nothing to look for, and for a page out of bounds. `language` keeps documents of that language."""
    words = _checked(query, limit, offset)
    rows = await connection.fetch(
        _SQL["search"],
        organization_id,
        words,
        source_id,
        primary_language(language),
        search_configuration(language) if language else None,
        CANDIDATES,
        limit,
        offset,
        asker.is_member,
        list(asker.groups),
    )
    if not rows:
        return []
    headlines = await connection.fetch(
        _SQL["headlines"],
        [row["configuration"] for row in rows],
        [_quotable(row["content"]) for row in rows],
        [row["query"] for row in rows],
        _HEADLINE,
    )
    return [_hit(row, headline["headline"]) for row, headline in zip(rows, headlines, strict=True)]


def _hit(row: asyncpg.Record, headline: str) -> Hit:
    snippet, highlights = _unmarked(headline)
    return Hit(
        row["document_id"],
        row["source_id"],
        row["title"],
        row["url"],
        row["anchor"],
        tuple(row["heading_path"]),
        snippet,
        highlights,
        float(row["score"]),
    )


def _checked(query: str, limit: int, offset: int) -> str:
    if not 1 <= limit <= MAX_LIMIT or not 0 <= offset <= MAX_OFFSET:
        raise SearchRefused(f"a page has 1 to {MAX_LIMIT} results and starts at 0 to {MAX_OFFSET}")
    if len(query) > MAX_QUERY:
        raise SearchRefused(f"the query is longer than {MAX_QUERY} characters")
    words = _MARKS.sub(" ", searchable_query(query)).strip()
    if not any(character.isalnum() for character in words):
        raise SearchRefused("type at least one word to search for")
    if all(word.startswith("-") for word in words.split()) and '"' not in words:
        raise SearchRefused("name at least one word to find besides those to leave out")
    return words


def _quotable(content: str) -> str:
    text = _MARKUP.sub("", plain_text(_MARKS.sub("", content)))
    return searchable_text(text)[0]


def _unmarked(headline: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    text = " ".join(unspaced(headline).split())
    plain: list[str] = []
    highlights: list[tuple[int, int]] = []
    length = opened = 0
    for part in re.split(f"([{_OPEN}{_CLOSE}])", text):
        if part == _OPEN:
            opened = length
        elif part == _CLOSE:
            highlights.append((opened, length))
        else:
            plain.append(part)
            length += len(part)
    return "".join(plain), tuple(highlights)
