"""HTML to Markdown, the one way for every provider: what a reader of the page would call its content, and nothing else.

Three steps: make the text harmless for the parser (`_shallow`), choose and tidy the content on the tree
(`html_tidy.tidy`), convert. Pure computing, no I/O;
large pages belong into `asyncio.to_thread` (the converter releases the GIL).

Anchors. Content is stored as Markdown alone, so ids travel in it: a heading (or a definition term, which becomes a bold
line) that can be linked to ends in ` {#id}`, as in `## Parameters {#params}`. `domain.markdown` reads this back.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from html_to_markdown import ConversionError, ConversionOptions, convert
from selectolax.lexbor import LexborHTMLParser

from kbsync.domain.text import storable
from kbsync.providers.html_tidy import tidy
from kbsync.providers.nesting import Nesting, measure

MAX_HTML = 12_000_000  # characters that are parsed; what comes after is cut
MAX_DEPTH = 200  # nested elements; deeper tags are dropped, their text stays
MAX_INDENTING_DEPTH = 20  # nested lists, quotes and tables: each level indents every line below it

_VOID = "area|base|br|col|embed|hr|img|input|link|meta|param|source|track|wbr"
_CLOSED_BY_SIBLINGS = "p|li|dt|dd|tr|td|th|tbody|thead|tfoot|colgroup|option|optgroup|rt|rp"
_UNCOUNTED = frozenset(f"{_VOID}|{_CLOSED_BY_SIBLINGS}|html|head|body".split("|"))
_INDENTING = frozenset({"ul", "ol", "dl", "blockquote", "table", "menu", "dir"})
_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9:-]{0,40})|<!--")
_NAME = re.compile(r"<(/?)([a-zA-Z][^\s/>]{0,40})")
_BLANK_LINES = re.compile(r"\n(?:[ \t]*\n){2,}")


@dataclass(frozen=True)
class HtmlDocument:
    """`markdown` is storable and ends without blank lines; it is empty when the page shows no text. `language` is the
    page's own statement as a BCP 47 tag, else None. `truncated`: the HTML was longer than MAX_HTML."""

    markdown: str
    title: str
    language: str | None
    truncated: bool = False


@dataclass(frozen=True)
class ParsedHtml:
    """A page parsed once, for whoever wants to look before `document_of` changes the tree. `is_whole`: nothing was left
    out of it to keep it shallow and within MAX_HTML."""

    tree: LexborHTMLParser
    is_whole: bool
    truncated: bool


def to_markdown(html: str, *, base_url: str) -> HtmlDocument:
    """The content of a page (or of a fragment) as Markdown.

    Links and images become absolute against `<base>` and `base_url` (an empty one leaves them relative); links that a
    browser would run (javascript:, data: ...) lose their target and keep their text. Never raises for any input."""
    return document_of(parsed(html), base_url=base_url)


def parsed(html: str, nesting: Nesting | None = None) -> ParsedHtml:
    """`nesting`: what `measure(html)` said, where it is known."""
    truncated = len(html) > MAX_HTML
    text = storable(html[:MAX_HTML])
    shallow = _shallow(text, nesting if nesting is not None and text is html else None)
    return ParsedHtml(LexborHTMLParser(shallow), shallow is text and not truncated, truncated)


def document_of(page: ParsedHtml, *, base_url: str) -> HtmlDocument:
    """As `to_markdown`, of a parsed page, whose tree is worn out afterwards."""
    plain = tidy(page.tree, base_url)
    markdown = _converted(plain.html) if plain.html else ""
    return HtmlDocument(_neat(markdown), _one_line(plain.title), plain.language, page.truncated)


def _converted(html: str) -> str:
    try:
        return (
            convert(html, ConversionOptions(bullets="-", extract_metadata=False, max_depth=4 * MAX_DEPTH)).content or ""
        )
    except ConversionError:
        # What the converter can't shape is still text worth finding.
        return LexborHTMLParser(html).text(separator="\n", strip=True)


def _neat(markdown: str) -> str:
    return _BLANK_LINES.sub("\n\n", storable(markdown)).strip("\n")


def _one_line(text: str) -> str:
    return " ".join(storable(text).split())


def _shallow(html: str, nesting: Nesting | None = None) -> str:
    """`html` without the tags that nest deeper than MAX_DEPTH; the parser's time grows with the square of the depth.

    Counts tags as written, which errs only on the deep side, but for end tags of another name: those are what the second
    measure is for. Pages below the limits come back as they are."""
    if _looks_shallow(html) and not (nesting or measure(html)).is_deep:
        return html
    kept: list[str] = []
    copied_to = 0
    for start, end in _too_deep(html):
        kept.append(html[copied_to:start])
        copied_to = end
    if not kept:
        return html
    return "".join(kept) + html[copied_to:]


def _looks_shallow(html: str) -> bool:
    """Whether an upper bound of the depths is within the limits: most pages need no closer look."""
    running = lowest = deepest = 0
    indenting = lowest_indenting = deepest_indenting = 0
    for closing, written in _NAME.findall(html):
        name = written.lower()
        if name in _UNCOUNTED:
            continue
        if closing:
            running -= 1
            if running < lowest:
                lowest = running
        else:
            running += 1
            if running - lowest > deepest:
                deepest = running - lowest
        if name in _INDENTING:
            indenting += -1 if closing else 1
            lowest_indenting = min(lowest_indenting, indenting)
            deepest_indenting = max(deepest_indenting, indenting - lowest_indenting)
    return deepest <= MAX_DEPTH and deepest_indenting <= MAX_INDENTING_DEPTH


def _too_deep(html: str) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    open_tags: list[str] = []
    indenting = 0
    dropped: dict[str, int] = {}
    position = 0
    while (match := _TAG.search(html, position)) is not None:
        position = match.end()
        if match.group(2) is None:
            position = _after(html, "-->", position)
            continue
        closing, tag = match.group(1) == "/", match.group(2).lower()
        if tag in ("script", "style", "textarea", "title") and not closing:
            position = _after_end_tag(html, tag, position)
            continue
        if tag in _UNCOUNTED:
            continue
        if closing:
            if dropped.get(tag, 0):
                dropped[tag] -= 1
                position = _after(html, ">", position)
                spans.append((match.start(), position))
            elif tag in open_tags[-MAX_DEPTH:]:
                while open_tags:
                    ended = open_tags.pop()
                    indenting -= ended in _INDENTING
                    if ended == tag:
                        break
            continue
        too_deep = len(open_tags) >= MAX_DEPTH or (tag in _INDENTING and indenting >= MAX_INDENTING_DEPTH)
        if too_deep:
            dropped[tag] = dropped.get(tag, 0) + 1
            position = _after(html, ">", position)
            spans.append((match.start(), position))
            continue
        open_tags.append(tag)
        indenting += tag in _INDENTING
    return spans


def _after(html: str, mark: str, start: int) -> int:
    found = html.find(mark, start)
    return len(html) if found < 0 else found + len(mark)


def _after_end_tag(html: str, tag: str, start: int) -> int:
    match = re.compile(f"</{tag}", re.IGNORECASE).search(html, start)
    return len(html) if match is None else match.start()
