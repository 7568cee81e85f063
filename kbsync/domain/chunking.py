"""Cuts a document into chunks: passages small enough to find and to read (LS-20).

    blocks (domain.markdown)  ->  pieces no longer than a chunk (domain.cutting)  ->  chunks of whole pieces

Positions are characters of the document. For every chunk `text == prefix + markdown[start:end] + suffix`, and prefix and
suffix are empty unless a fence or a table longer than a chunk was cut: then they open and close the fence again or repeat
the table's header. Between two chunks there is nothing but (long runs of) white space; an overlap makes a chunk start
before its predecessor's end. Pure, deterministic, linear in the text's length.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from kbsync.domain.cutting import line_cuts, overlap_start, prose_cuts
from kbsync.domain.markdown import Block, Kind, blocks

MIN_SIZE = 20
# Below these parts of a chunk's size, a section is packed together with the sections in it, or those next to it.
_SMALL_PARENT = 4
_SMALL_SIBLING = 16
_PROSE = frozenset({Kind.PARAGRAPH, Kind.QUOTE, Kind.HEADING, Kind.TERM})
_WIDE = re.compile(
    "[\u1100-\u11ff\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe4f\uff00-\uff60\U0001f000-\U0003ffff]"
)


@dataclass(frozen=True)
class Chunk:
    """`heading_path` from the outermost heading to the nearest; `anchor` the nearest id a link can name, or None.

    `content_hash` covers what is searched and embedded: text and heading path, not the position. `tokens` is an estimate
    (a quarter of a token a Latin letter, one a CJK character)."""

    position: int
    text: str
    start: int
    end: int
    heading_path: tuple[str, ...]
    anchor: str | None
    content_hash: str
    tokens: int
    prefix: str = ""
    suffix: str = ""


class _Piece(NamedTuple):
    """A stretch of the document that a chunk takes whole. `cut` marks a part of a block that was too long."""

    start: int
    end: int
    section: int
    kind: Kind
    prefix: str = ""
    suffix: str = ""
    cut: bool = False

    @property
    def sticky(self) -> bool:
        """Headings and terms belong to what follows them."""
        return self.kind in (Kind.HEADING, Kind.TERM) and not self.cut

    @property
    def length(self) -> int:
        return len(self.prefix) + self.end - self.start + len(self.suffix)


class _Section(NamedTuple):
    """What is true from a heading (or a term with an anchor) on, up to the next one."""

    path: tuple[str, ...] = ()
    anchor: str | None = None
    level: int = 0


def chunk(markdown: str, *, size: int, overlap: int = 0, max_tokens: int | None = None) -> list[Chunk]:
    """The chunks of `markdown`, each of at most `size` characters, `overlap` of them (at most half) repeated from the end
    of the chunk before where both belong to one section.

    `max_tokens` bounds the estimate too: dense text (CJK, emoji) is cut into so much smaller chunks, down to MIN_SIZE.
    ValueError for a size under MIN_SIZE or a negative overlap. Text of white space alone has no chunks."""
    chunks = _chunked(markdown, size, overlap)
    while (
        max_tokens is not None
        and size > MIN_SIZE
        and (worst := max((c.tokens for c in chunks), default=0)) > max_tokens
    ):
        size = max(MIN_SIZE, min(size - 1, size * max_tokens // worst))
        chunks = _chunked(markdown, size, overlap)
    return chunks


def _chunked(markdown: str, size: int, overlap: int) -> list[Chunk]:
    if size < MIN_SIZE or overlap < 0:
        raise ValueError(f"size is at least {MIN_SIZE} characters and overlap not negative")
    overlap = min(overlap, size // 2)
    sections: list[_Section] = [_Section()]
    groups = _grouped(_pieces(markdown, size, overlap, sections), size, overlap, sections)
    return list(_finished(markdown, groups, sections, size, overlap))


def estimated_tokens(text: str) -> int:
    """About how many tokens a model's tokenizer makes of `text`."""
    latin = len(text.encode("ascii", "ignore"))
    wide = 0 if latin == len(text) else len(_WIDE.findall(text))
    return -(-latin // 4) + wide + -(-(len(text) - latin - wide) // 2)


# --- pieces -------------------------------------------------------------------------------------------------------


def _pieces(markdown: str, size: int, overlap: int, sections: list[_Section]) -> Iterator[_Piece]:
    """The document's blocks, long ones in parts; appends to `sections` as headings come by."""
    found = list(blocks(markdown))
    headings: list[tuple[int, str]] = []
    lead = 0  # characters of headings and terms that want to stay with what comes next
    for number, block in enumerate(found):
        _open_section(block, headings, sections)
        # White space around a block goes with it, so that chunks leave no gap; long runs of it go nowhere.
        start = 0 if number == 0 and block.start <= size // 4 else block.start
        limit = found[number + 1].start if number + 1 < len(found) else len(markdown)
        end = limit if limit - block.end <= size // 4 else block.end
        piece = _Piece(start, end, len(sections) - 1, block.kind, suffix=_missing_end(markdown, block, end))
        if piece.length <= size:
            yield piece
            lead = lead + piece.length if piece.sticky else 0
        else:
            yield from _cut(markdown, block, piece, size, overlap, lead)
            lead = 0


def _open_section(block: Block, headings: list[tuple[int, str]], sections: list[_Section]) -> None:
    if block.kind is Kind.HEADING:
        while headings and headings[-1][0] >= block.level:
            headings.pop()
        if block.title:
            headings.append((block.level, block.title))
        sections.append(_Section(tuple(title for _, title in headings), block.anchor, block.level))
    elif block.kind is Kind.TERM and block.anchor:
        sections.append(sections[-1]._replace(anchor=block.anchor))


def _missing_end(markdown: str, block: Block, end: int) -> str:
    if block.closed:
        return ""
    return block.closing if markdown[end - 1] == "\n" else "\n" + block.closing


def _cut(markdown: str, block: Block, whole: _Piece, size: int, overlap: int, lead: int) -> Iterator[_Piece]:
    """The parts of a block longer than a chunk: at line ends where lines mean something, else in its prose."""
    opening, closing = block.opening, block.closing
    if len(opening) + len(closing) + 1 > size // 2:
        opening = closing = ""  # repeating them would leave no room for what they enclose
    room = size - len(opening) - len(closing) - (1 if closing else 0)
    first_room = room - lead if lead <= room // 2 else room
    if block.kind in _PROSE:
        # What is repeated before a part needs room as well.
        cuts = prose_cuts(markdown, whole.start, whole.end, min(first_room, room - overlap), room - overlap)
    else:
        # A cut right after the opening lines would make a chunk that shows nothing.
        floor = block.start + len(opening) if opening else 0
        cuts = line_cuts(markdown, whole.start, whole.end, first_room, room, floor)
    parts = [(start, end) for start, end in cuts if markdown[start:end].strip()]
    if len(parts) > 1 and closing and markdown[slice(*parts[-1])].strip() == closing.strip():
        # The closing line alone shows nothing either; the room kept for one takes it.
        start, end = parts.pop()
        parts[-1] = (parts[-1][0], start + len(markdown[start:end].rstrip()))
    for number, (start, end) in enumerate(parts):
        last = number == len(parts) - 1
        ending = "" if not closing or (last and block.closed) else ("" if markdown[end - 1] == "\n" else "\n") + closing
        yield whole._replace(start=start, end=end, prefix=opening if number else "", suffix=ending, cut=True)


# --- chunks -------------------------------------------------------------------------------------------------------


def _grouped(pieces: Iterator[_Piece], size: int, overlap: int, sections: list[_Section]) -> Iterator[list[_Piece]]:
    """Pieces packed into chunks: as many as fit, but a section begins a chunk of its own unless what was packed so far is
    small."""
    group: list[_Piece] = []
    for piece in pieces:
        if group and _begins_another(group, piece, size, overlap, sections):
            group, carried = _without_trailing_headings(group, piece, size)
            if group:
                yield group
            group = carried
        group.append(piece)
    if group:
        yield group


def _begins_another(group: list[_Piece], piece: _Piece, size: int, overlap: int, sections: list[_Section]) -> bool:
    room = size if group[0].kind is Kind.HEADING or group[0].prefix else size - overlap
    if piece.prefix or group[-1].suffix or _length(group) + piece.length + piece.start - group[-1].end > room:
        return True
    if piece.kind is not Kind.HEADING:
        return False
    part_of_it = sections[piece.section].level > sections[group[0].section].level
    return _length(group) >= size // (_SMALL_PARENT if part_of_it else _SMALL_SIBLING)


def _length(group: list[_Piece]) -> int:
    return len(group[0].prefix) + group[-1].end - group[0].start + len(group[-1].suffix)


def _without_trailing_headings(group: list[_Piece], piece: _Piece, size: int) -> tuple[list[_Piece], list[_Piece]]:
    kept = len(group)
    while kept and group[kept - 1].sticky:
        kept -= 1
    carried = group[kept:]
    fits = carried and not piece.prefix and piece.end - carried[0].start + len(piece.suffix) <= size
    # A heading of the next section's own level has ended; only what the next piece stands under goes with it.
    belongs = carried and piece.kind is not Kind.HEADING
    return (group[:kept], carried) if fits and belongs else (group, [])


def _finished(
    markdown: str, groups: Iterator[list[_Piece]], sections: list[_Section], size: int, overlap: int
) -> Iterator[Chunk]:
    before: list[_Piece] = []
    for position, group in enumerate(groups):
        start, end = group[0].start, group[-1].end
        if overlap and before:
            start = _overlapped(markdown, before, group, sections, min(overlap, size - _length(group)))
        prefix, suffix = group[0].prefix, group[-1].suffix
        text = prefix + markdown[start:end] + suffix
        # A chunk that begins with headings is about the innermost of them.
        section = sections[next((piece.section for piece in group if not piece.sticky), group[-1].section)]
        yield Chunk(
            position, text, start, end, section.path, section.anchor, _hash(text, section.path), estimated_tokens(text),
            prefix, suffix,
        )  # fmt: skip
        before = group


def _overlapped(
    markdown: str, before: list[_Piece], group: list[_Piece], sections: list[_Section], overlap: int
) -> int:
    """Where `group` starts when it repeats the end of the group before: whole blocks, else the end of its prose."""
    first, last = group[0], before[-1]
    start = first.start
    same_section = sections[first.section].path == sections[last.section].path
    if overlap <= 0 or first.prefix or first.kind is Kind.HEADING or not same_section or last.end != start:
        return start
    for piece in reversed(before[1:]):
        if first.start - piece.start > overlap or piece.cut or piece.suffix or piece.kind is Kind.HEADING:
            break
        start = piece.start
    if start == first.start and (last.kind in _PROSE or last.kind is Kind.LIST) and not last.sticky:
        start = overlap_start(markdown, last.start + 1, start, overlap)
    return start


def _hash(text: str, path: tuple[str, ...]) -> str:
    return hashlib.sha256("\x1f".join((text, *path)).encode("utf-8", "surrogatepass")).hexdigest()
