"""The blocks of a Markdown document by position, as far as cutting it well takes (LS-20, E03).

Not a renderer: it tells headings from what only looks like one (in fences, indented code, HTML, front matter) and knows
which lines belong together. Linear in the text's length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    HEADING = "heading"
    TERM = "term"  # a line that is bold as a whole: it opens what follows, without a level of its own
    PARAGRAPH = "paragraph"
    LIST = "list"  # items that follow each other without a blank line
    QUOTE = "quote"
    FENCE = "fence"
    CODE = "code"  # indented
    TABLE = "table"
    HTML = "html"
    FRONT_MATTER = "front matter"


class Block(NamedTuple):
    """`start` to `end` in characters: whole lines, without the blank lines around them.

    `title`, `anchor` and `level` are a heading's (a term has the first two). `opening` and `closing` are the lines that
    open and close a fence again, or the header rows of a table, for a block that must be cut. A fence that the document
    never closes is not `closed`."""

    kind: Kind
    start: int
    end: int
    level: int = 0
    title: str = ""
    anchor: str | None = None
    opening: str = ""
    closing: str = ""
    closed: bool = True


_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_FENCE = re.compile(r"^((?:[ \t]*>)*[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*)(`{3,}(?=[^`]*$)|~{3,})([^\n]*)$")
_ATX = re.compile(r"^ {0,3}(#{1,6})(?=[ \t]|$)")
_SETEXT = re.compile(r"^ {0,3}(=+|-+)[ \t]*$")
_ANCHOR = re.compile(r"(?:^|\s)\{#([^\s{}]+)\}\s*$")
_TERM = re.compile(r"^\*\*(?=\S)(.{1,300})\*\*(?:\s\{#[^\s{}]+\})?$")
_LIST = re.compile(r"^([ \t]*)(?:[-*+]|\d{1,9}[.)])([ \t]+|$)")
_QUOTE = re.compile(r"^ {0,3}>")
_DELIMITER_CELL = re.compile(r"^:?-+:?$")
_HTML_RAW = re.compile(r"^ {0,3}<(pre|script|style|textarea)(?=[\s>]|$)", re.IGNORECASE)
_HTML_BLOCK = re.compile(
    r"^ {0,3}</?(?:address|article|aside|blockquote|body|center|dd|details|dialog|dir|div|dl|dt|fieldset|figcaption|figure|"
    r"footer|form|frame|frameset|h[1-6]|head|header|hr|html|iframe|legend|li|link|main|menu|nav|ol|option|p|section|"
    r"summary|table|tbody|td|tfoot|th|thead|title|tr|ul)(?=[\s/>]|$)",
    re.IGNORECASE,
)
_MARKER_CHARACTERS = re.compile(r"[-*+\d.)]")
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()\s]*(?:\s+\"[^\"]*\")?\)")
_EMPHASIS = re.compile(r"\*{1,3}|`+|(?<!\w)_{1,3}(?=\S)|(?<=\S)_{1,3}(?!\w)")
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
_MARKUP = re.compile(r"[\[{*`_\\]")
MAX_TITLE = 300


def blocks(markdown: str) -> Iterator[Block]:
    """The blocks of `markdown` in order; between two of them and around all there is white space only."""
    return _Reader(markdown).read()


def plain_title(markdown: str) -> str:
    """A heading's words without their markup and anchor, on one line, cut at MAX_TITLE."""
    text = markdown
    if _MARKUP.search(text):
        text = _LINK.sub(r"\1", _ANCHOR.sub("", text))
        text = _ESCAPE.sub(r"\1", _EMPHASIS.sub("", text))
    return " ".join(text.split())[:MAX_TITLE]


def without_anchors(markdown: str) -> str:
    """`markdown` as a reader wants it: the written-out anchors of headings and terms are gone."""
    return _ANCHORS_AT_LINE_ENDS.sub("", markdown) if "{#" in markdown else markdown


def plain_text(markdown: str) -> str:
    """What a reader sees of `markdown`, near enough to index and to quote: link targets and anchors are gone, words stay."""
    text = without_anchors(markdown)
    return _WHOLE_LINK.sub(r"\1", text) if "](" in text else text


_WHOLE_LINK = re.compile(r"!?\[([^\[\]]*)\]\((?:<[^<>\n]*>|[^()\s]*(?:\([^()\s]*\)[^()\s]*)?)(?:\s\"[^\"\n]*\")?\)")
_ANCHORS_AT_LINE_ENDS = re.compile(r"[ \t]\{#[^\s{}]+\}(?=[ \t]*$)", re.MULTILINE)


class _Reader:
    def __init__(self, text: str) -> None:
        spans = [match.span() for match in _LINE.finditer(text)]
        self.starts = [start for start, _ in spans]
        self.ends = [end for _, end in spans]
        self.lines = [text[start:end].rstrip("\r\n") for start, end in spans]
        self.at = 0
        self.list_indent = 0  # where the text of the list item we are in begins; 0 outside of lists
        self.after_blank = True

    def read(self) -> Iterator[Block]:
        if self.lines and self._front_matter_end():
            yield self._block(Kind.FRONT_MATTER, self._front_matter_end())
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if not line.strip():
                self.at += 1
                self.after_blank = True
                continue
            if self.list_indent and self.after_blank and _indent(line) == 0 and not _LIST.match(line):
                self.list_indent = 0
            yield self._next(line)
            self.after_blank = False

    def _next(self, line: str) -> Block:
        indent = _indent(line)
        shallow = indent - self.list_indent < 4
        fence = _FENCE.match(line) if shallow else None
        if fence is not None:
            return self._fence(fence)
        if indent >= 4 and not self.list_indent and self.after_blank:
            return self._block(Kind.CODE, self._indented_code_end())
        if line.lstrip().startswith("<") and (html_end := self._html_end(line)):
            return self._block(Kind.HTML, html_end)
        if heading := _ATX.match(line):
            return self._heading(len(heading.group(1)), _without_closing_marks(line[heading.end() :]), self.at + 1)
        if self._table_at(self.at):
            header = "".join(f"{row}\n" for row in self.lines[self.at : self.at + 2])
            return self._block(Kind.TABLE, self._until(self.at + 2), opening=header)
        if item := _LIST.match(line):
            return self._block(Kind.LIST, self._list_end(item))
        if _QUOTE.match(line):
            return self._block(Kind.QUOTE, self._quote_end())
        return self._paragraph()

    def _block(self, kind: Kind, after: int, *, opening: str = "", closing: str = "", closed: bool = True) -> Block:
        start, end = self.starts[self.at], self.ends[after - 1]
        self.at = after
        return Block(kind, start, end, opening=opening, closing=closing, closed=closed)

    def _heading(self, level: int, source: str, after: int) -> Block:
        anchor = _ANCHOR.search(source)
        start, end = self.starts[self.at], self.ends[after - 1]
        self.at = after
        self.list_indent = 0
        return Block(Kind.HEADING, start, end, level, plain_title(source), anchor.group(1) if anchor else None)

    def _fence(self, fence: re.Match[str]) -> Block:
        container, marker, info = fence.groups()
        # The list marker of "- ```" is written once; the lines below it are indented instead.
        inside = _MARKER_CHARACTERS.sub(" ", container)
        quoted = ">" in container
        end_of_fence = re.compile(rf"^(?:[ \t]*>)*[ \t]*{re.escape(marker[0])}{{{len(marker)},}}[ \t]*$")
        after = self.at + 1
        closed = False
        while after < len(self.lines) and not closed:
            line = self.lines[after]
            if quoted and not _QUOTE.match(line):
                break
            after += 1
            closed = end_of_fence.match(line) is not None
        language = info.strip().split(" ")[0][:40]
        opening, closing = f"{inside}{marker}{language}\n", f"{inside}{marker}\n"
        return self._block(Kind.FENCE, after, opening=opening, closing=closing, closed=closed)

    def _paragraph(self) -> Block:
        after = self.at + 1
        while after < len(self.lines) and self.lines[after].strip():
            if underline := _SETEXT.match(self.lines[after]):
                source = " ".join(self.lines[self.at : after])
                return self._heading(1 if underline.group(1)[0] == "=" else 2, source, after + 1)
            if self._opens_something(after):
                break
            after += 1
        if after == self.at + 1 and (term := _TERM.match(self.lines[self.at].strip())):
            return self._term(term)
        return self._block(Kind.PARAGRAPH, after)

    def _term(self, term: re.Match[str]) -> Block:
        anchor = _ANCHOR.search(term.group(0))
        start, end = self.starts[self.at], self.ends[self.at]
        self.at += 1
        return Block(Kind.TERM, start, end, 0, plain_title(term.group(1)), anchor.group(1) if anchor else None)

    # --- where a block ends (the number of the line after it) ---

    def _until(self, after: int) -> int:
        while after < len(self.lines) and self.lines[after].strip() and not self._opens_something(after):
            after += 1
        return after

    def _list_end(self, item: re.Match[str] | None) -> int:
        after = self.at
        while item is not None:
            self.list_indent = max(1, len(item.group(0).expandtabs(4)))
            after = self._until(after + 1)
            item = None
            if after < len(self.lines) and not _FENCE.match(self.lines[after]):
                item = _LIST.match(self.lines[after])
        return after

    def _opens_something(self, number: int) -> bool:
        line = self.lines[number]
        head = line.lstrip()[:1]
        if head not in "#`~<>-*+|0123456789" and "|" not in line:
            return False
        return bool(
            _FENCE.match(line)
            or _ATX.match(line)
            or _LIST.match(line)
            or _QUOTE.match(line)
            or _HTML_RAW.match(line)
            or self._table_at(number)
        )

    def _table_at(self, number: int) -> bool:
        if "|" not in self.lines[number] or number + 1 >= len(self.lines):
            return False
        below = self.lines[number + 1]
        if "-" not in below or "|" not in below:
            return False
        cells = below.strip().removeprefix("|").removesuffix("|").split("|")
        return all(_DELIMITER_CELL.match(cell.strip()) for cell in cells)

    def _quote_end(self) -> int:
        after = self.at + 1
        while after < len(self.lines) and _QUOTE.match(self.lines[after]) and not _FENCE.match(self.lines[after]):
            after += 1
        return after

    def _indented_code_end(self) -> int:
        after = last = self.at + 1
        while after < len(self.lines):
            line = self.lines[after]
            after += 1
            if line.strip():
                if _indent(line) < 4:
                    break
                last = after
        return last

    def _html_end(self, line: str) -> int:
        raw = _HTML_RAW.match(line)
        if raw is not None:
            return self._through(f"</{raw.group(1).lower()}>")
        if line.lstrip().startswith("<!--"):
            return self._through("-->")
        if _HTML_BLOCK.match(line):
            after = self.at + 1
            while after < len(self.lines) and self.lines[after].strip():
                after += 1
            return after
        return 0

    def _through(self, mark: str) -> int:
        for number in range(self.at, len(self.lines)):
            if mark in self.lines[number].lower():
                return number + 1
        return len(self.lines)

    def _front_matter_end(self) -> int:
        if self.at or self.lines[0].lstrip("\ufeff") not in ("---", "+++"):
            return 0
        mark = self.lines[0].lstrip("\ufeff")
        for number in range(1, len(self.lines)):
            if self.lines[number].rstrip() == mark:
                return number + 1 if any(":" in line or "=" in line for line in self.lines[1:number]) else 0
        return 0


def _without_closing_marks(title: str) -> str:
    """`Title ##` is `Title`, `C#` stays."""
    title = title.strip()
    bare = title.rstrip("#")
    return bare.rstrip() if not bare or bare[-1] in " \t" else title


def _indent(line: str) -> int:
    width = 0
    for character in line:
        if character == " ":
            width += 1
        elif character == "\t":
            width += 4 - width % 4
        else:
            break
    return width
