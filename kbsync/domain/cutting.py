"""Where text that is longer than a chunk is cut: every function here makes progress, looks a bounded way around, and
answers stretches that follow one another without a gap (E04, E05)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kbsync.domain.text import grapheme_boundary, next_grapheme_boundary

_SENTENCE_END = re.compile(r"[.!?…][\"'”’)\]]*\s+|[。！？；][”’」』）]*\s*|\n\s*")
_SPACE = re.compile(r"\s+")


def prose_cuts(text: str, start: int, end: int, first_room: int, room: int) -> Iterator[tuple[int, int]]:
    """Stretches of at most `room` characters (the first: `first_room`), cut after a sentence, else a word, else between
    two characters."""
    limit = first_room
    while end - start > limit:
        cut = _prose_cut(text, start, limit)
        yield start, cut
        start, limit = cut, room
    if start < end:
        yield start, end


def line_cuts(text: str, start: int, end: int, first_room: int, room: int, floor: int) -> Iterator[tuple[int, int]]:
    """Stretches of whole lines; a line is cut only when it is longer than `room`. The first cut comes after `floor`."""
    limit = first_room
    while end - start > limit:
        cut = text.rfind("\n", max(start, floor), start + limit) + 1
        next_end = text.find("\n", cut, cut + room) if cut else -1
        if not cut or (next_end < 0 and cut + room < end):
            # The next line fits into no chunk, so it may as well begin in this one.
            cut = _prose_cut(text, start, limit)
        yield start, cut
        start, limit, floor = cut, room, 0
    if start < end:
        yield start, end


def overlap_start(text: str, lowest: int, end: int, overlap: int) -> int:
    """Where the last `overlap` characters before `end` begin to make sense; `end` itself when nowhere."""
    begin = max(lowest, end - overlap)
    for pattern in (_SENTENCE_END, _SPACE):
        found = pattern.search(text, begin, end - 1)
        if found is not None and found.end() < end:
            return found.end()
    return next_grapheme_boundary(text, begin, end)


def _prose_cut(text: str, start: int, room: int) -> int:
    """A place after `start`, at most `room` characters on. A word is cut when it alone fills most of the room."""
    end = start + room
    half = start + max(1, room // 2)
    if sentence_ends := [found.end() for found in _SENTENCE_END.finditer(text, half, end)]:
        return sentence_ends[-1]
    for cut in range(end, start + max(1, room // 4), -1):
        if text[cut - 1].isspace():
            return cut
    return grapheme_boundary(text, end, start)
