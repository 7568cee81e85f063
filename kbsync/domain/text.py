"""Text that Postgres can store and index (LS-13)."""

from __future__ import annotations

import hashlib
import re
import unicodedata

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")

# to_tsvector refuses a vector over 1 MB (54000) and leaves out, with a notice, words of 2,047 bytes and more. What a
# vector takes is its distinct words with their positions, so input this long stays below whatever it is made of:
# at worst 1 character words with spaces between, each some 6 bytes for 2 of input.
SEARCHABLE_BYTES = 160_000
WORD_BYTES = 2_046
_UNSPACED_CHARACTERS = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
_UNSPACED = re.compile(f"[{_UNSPACED_CHARACTERS}]+")
# The marks of a highlight may stand between two characters.
_SPACES_BETWEEN = re.compile(f" +(?=[\ue000\ue001]?[{_UNSPACED_CHARACTERS}])|(?<=[{_UNSPACED_CHARACTERS}]) +")
_LONG = 512
_LONG_RUN = re.compile(rf"[^\s]{{{_LONG},}}")


def has_unstorable_characters(text: str) -> bool:
    """Whether `text` holds NUL or a lone surrogate, which no Postgres text or jsonb takes."""
    if "\x00" in text:
        return True
    if text.isascii():
        return False
    try:
        text.encode()  # refuses surrogates, many times faster than a look at each character here
    except UnicodeEncodeError:
        return True
    return False


def storable(text: str) -> str:
    """`text` without NUL and lone surrogates; everything else stays as it is."""
    return _UNSTORABLE.sub("", text) if has_unstorable_characters(text) else text


def cap(text: str, limit: int) -> tuple[str, bool]:
    """`text` cut to at most `limit` characters, and whether anything was cut.

    Cuts after the last line end in the last tenth, else between two characters as a reader sees them (E04)."""
    if limit < 1:
        raise ValueError("limit is at least 1 character")
    if len(text) <= limit:
        return text, False
    line_end = text.rfind("\n", limit - limit // 10, limit)
    cut = line_end + 1 if line_end > 0 else grapheme_boundary(text, limit, 0)
    return text[:cut], True


def content_hash(markdown: str) -> str:
    """sha256 of the stored Markdown in hex: equal content, equal hash (LS-10)."""
    return hashlib.sha256(storable(markdown).encode()).hexdigest()


def searchable_text(text: str) -> tuple[str, bool]:
    """What of `text` goes into a tsvector, and whether that is less than all of it (E01).

    Chinese and Japanese are written without spaces, which Postgres would take for one long word: each of their
    characters becomes a word, and a query looks for them as a phrase (`searchable_query`).
    Runs without a space are broken below Postgres's word limit, so that their parts are indexed instead of nothing;
    text over SEARCHABLE_BYTES is cut. The result never raises 54000."""
    partly = False
    # Every character is a byte at least: what is far behind the bound need not be looked at.
    text = _spaced(text[: SEARCHABLE_BYTES + WORD_BYTES])
    if len(text) * 4 > WORD_BYTES and any(len(word) >= _LONG for word in text.split()):
        broken = _LONG_RUN.sub(lambda run: _broken(run.group()), text)
        partly = broken != text
        text = broken
    encoded = text.encode("utf-8", "ignore")
    if len(encoded) <= SEARCHABLE_BYTES:
        return text, partly
    return encoded[:SEARCHABLE_BYTES].decode("utf-8", "ignore"), True


def searchable_query(query: str) -> str:
    """A web search query in the words of `searchable_text`: unspaced scripts become quoted phrases of characters."""
    parts = storable(query).split('"')
    for number, part in enumerate(parts):
        quoted = number % 2 == 1 and number < len(parts) - 1
        parts[number] = _UNSPACED.sub(lambda run, q=quoted: _phrase(run.group(), q), part)  # type: ignore[misc]
    return '"'.join(parts)


def unspaced(text: str) -> str:
    """Undoes for the eye what `searchable_text` did to unspaced scripts."""
    return _SPACES_BETWEEN.sub("", text)


def _spaced(text: str) -> str:
    if text.isascii():
        return text
    return _UNSPACED.sub(lambda run: f" {' '.join(run.group())} ", text)


def _phrase(run: str, quoted: bool) -> str:
    words = " ".join(run)
    return f" {words} " if quoted else f'"{words}" '


def _broken(run: str) -> str:
    if len(run.encode("utf-8", "ignore")) <= WORD_BYTES:
        return run
    # 500 characters are at most 2,000 bytes. A word that a cut goes through is found by neither of its halves.
    return " ".join(run[start : start + 500] for start in range(0, len(run), 500))


# --- characters as a reader sees them -----------------------------------------------------------------------------

_LOOK_BACK = 64  # code points; no emoji or accented letter in use is longer
_JOINER = "\u200d"
# Combining marks of the alphabets with many of them are found by category; these are the rest that continue a character.
_EXTENDERS = re.compile("[\u200c\u200d\ufe00-\ufe0f\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f\U000e0100-\U000e01ef]")
_VOWEL_OR_TAIL_JAMO = re.compile("[\u1160-\u11ff\ud7b0-\ud7ff]")


def grapheme_boundary(text: str, position: int, lowest: int) -> int:
    """The last place at or before `position` and after `lowest` that cuts no character in two, else `position`."""
    for candidate in range(position, max(lowest, position - _LOOK_BACK), -1):
        if _is_boundary(text, candidate):
            return candidate
    return position


def next_grapheme_boundary(text: str, position: int, highest: int) -> int:
    """The first place at or after `position` that cuts no character in two; `highest` when there is none near."""
    for candidate in range(position, min(highest, position + _LOOK_BACK)):
        if _is_boundary(text, candidate):
            return candidate
    return highest


def _is_boundary(text: str, position: int) -> bool:
    if position <= 0 or position >= len(text):
        return True
    before, after = text[position - 1], text[position]
    if after < "\u0300":  # the common case, quickly
        return not (before == "\r" and after == "\n")
    if before == _JOINER or _EXTENDERS.match(after) or _VOWEL_OR_TAIL_JAMO.match(after):
        return False
    if unicodedata.category(after) in ("Mn", "Mc", "Me"):
        return False
    if _is_flag_letter(after) and _is_flag_letter(before):
        start = position
        while start > 0 and position - start < _LOOK_BACK and _is_flag_letter(text[start - 1]):
            start -= 1
        return (position - start) % 2 == 0
    return True


def _is_flag_letter(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"
