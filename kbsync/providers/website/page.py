"""A fetched page, read: its text, its links, and what it asks of robots. Pure; large pages are read in a thread."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace

from kbsync.domain.text import storable
from kbsync.domain.url_identity import Found
from kbsync.domain.url_scope import path_of
from kbsync.http.client import Response
from kbsync.providers.contract import Content
from kbsync.providers.html import document_of, parsed
from kbsync.providers.nesting import flattened, measure
from kbsync.providers.website.charset import decode
from kbsync.providers.website.gateway import media_type
from kbsync.providers.website.links import Markup, header_canonicals, header_directives, markup_of, read_markup

_NO_MARKUP = Markup((), Counter(), (), frozenset(), False)
_NOT_FOUND = re.compile(
    r"\W*(?:error\W*)?404\b|\W*(?:the |this |diese |cette |esta )?(?:page|document|seite|página|pagina)(?: was| wurde)? "
    r"(?:not found|nicht gefunden|non trouvée|introuvable|no encontrada|non trovata)\b",
    re.IGNORECASE,
)
_ERROR_PAGE_MAX = 1_500  # characters; a page about the status 404 is longer than one that is meant by it
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8})*")
_MAX_VALIDATOR = 1_024
# The tree builder holds the interpreter for microseconds a tag: more tags than any author writes would hold up every
# other job of the process.
MAX_TAGS = 150_000


@dataclass(frozen=True)
class PageReading:
    """`content` is None when there is no text, `detail` then says why. `canonicals` are the distinct ones that page and
    header name."""

    content: Content | None
    markup: Markup
    canonicals: tuple[Found, ...]
    noindex: bool
    nofollow: bool
    detail: str | None = None
    note: str | None = None


def read_page(response: Response, robot: str) -> PageReading:
    """Reads an answer that the gateway passed. Never raises for any bytes."""
    kind = media_type(response.headers) or _sniffed(response.body)
    if kind not in ("text/html", "application/xhtml+xml"):
        return _read_text(response, kind, robot)
    html, note = _decoded(response)
    nesting = measure(html)
    flat = flattened(html) if nesting.is_deep else html
    page = parsed(flat) if nesting.is_costly else parsed(html, nesting)
    if page.is_whole and flat is html:  # one tree serves both readers of an ordinary page
        markup = markup_of(page.tree, response.url, robot)
    else:
        markup = read_markup(flat, response.url, robot)
    document = document_of(page, base_url=response.url)
    detail = None
    if not document.markdown.strip():
        detail = "empty until scripts run: needs rendering" if markup.looks_unrendered else "no text"
    elif len(document.markdown) < _ERROR_PAGE_MAX and _NOT_FOUND.match(document.title.strip()[:200]):
        detail = "an error page answered with status 200"
    content = Content(document.markdown, document.title, document.language or _language(response))
    return replace(_reading(response, None if detail else content, markup, robot, detail), note=note)


def _decoded(response: Response) -> tuple[str, str | None]:
    """The text without what Postgres can't store and without what is past all bounds, noted (field case D07, SE-05)."""
    text = decode(response.body, response.headers.get("content-type"))
    kept = storable(text)
    note = "characters that can't be stored were removed" if len(kept) < len(text) else None
    if kept.count("<") > MAX_TAGS:
        return "<".join(kept.split("<", MAX_TAGS)[:MAX_TAGS]), f"only the first {MAX_TAGS} tags were read"
    return kept, note


def _read_text(response: Response, kind: str | None, robot: str) -> PageReading:
    if kind is None:
        return _reading(response, None, _NO_MARKUP, robot, "neither a type nor text")
    text, note = _decoded(response)
    text = text.strip()
    content = Content(text, _text_title(text, response.url), _language(response))
    reading = _reading(response, content if text else None, _NO_MARKUP, robot, None if text else "no text")
    return replace(reading, note=note)


def _reading(
    response: Response, content: Content | None, markup: Markup, robot: str, detail: str | None
) -> PageReading:
    directives = markup.robots | header_directives(response.headers.get("x-robots-tag", ""), robot)
    canonicals = {found.identity: found for found in markup.canonicals}
    for found in header_canonicals(response.headers.get("link", ""), response.url):
        canonicals.setdefault(found.identity, found)
    if content is not None:
        content = Content(
            content.markdown,
            content.title,
            content.language,
            etag=_validator(response.headers.get("etag")),
            last_modified=_validator(response.headers.get("last-modified")),
        )
    return PageReading(
        content,
        markup,
        tuple(canonicals.values()),
        noindex=bool(directives & {"noindex", "none"}),
        nofollow=bool(directives & {"nofollow", "none"}),
        detail=detail,
    )


def _validator(value: str | None) -> str | None:
    return value if value and len(value) <= _MAX_VALIDATOR and value.isascii() and value.isprintable() else None


def _language(response: Response) -> str | None:
    stated = response.headers.get("content-language", "").partition(",")[0].strip()
    return stated if _LANGUAGE.fullmatch(stated) else None


def _sniffed(body: bytes) -> str | None:
    head = body[:1_024]
    if b"\x00" in head and not head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return None
    return (
        "text/html" if re.search(rb"<(?:!doctype|html|head|body|title|p|div|h[1-6]|a)\b", head, re.I) else "text/plain"
    )


def _text_title(text: str, url: str) -> str:
    first = text.partition("\n")[0].strip()
    heading = first.lstrip("#").strip()
    if first.startswith("#") and heading:
        return heading[:300]
    return path_of(url).rstrip("/").rpartition("/")[2] or url
