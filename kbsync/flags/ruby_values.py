"""How Ruby reads the values that Flipper keeps as text: to_i, to_f, to_s, and what counts as true. Pure."""

from __future__ import annotations

import re
import zlib

_INTEGER = re.compile(r"\s*([+-]?\d+(?:_\d+)*)", re.ASCII)
_FLOAT = re.compile(r"\s*([+-]?(?:\d+(?:_\d+)*)?(?:\.\d+(?:_\d+)*)?(?:[eE][+-]?\d+)?)", re.ASCII)
_SCALE = 1_000  # percentages have up to three decimals


def to_boolean(value: object) -> bool:
    """Only true, 1 and their spellings."""
    return value is True or (value == 1 and not isinstance(value, bool) and isinstance(value, int)) or value in _TRUE


_TRUE = ("true", "1")


def to_number(text: str | None) -> int | float:
    """The number that a text begins with, 0 when it begins with none; a dot anywhere makes it a float."""
    if text is None:
        return 0
    if "." not in text:
        match = _INTEGER.match(text)
        return int(match.group(1).replace("_", "")) if match else 0
    match = _FLOAT.match(text)
    try:
        return float(match.group(1).replace("_", "")) if match and match.group(1) else 0.0
    except ValueError:
        return 0.0


def falls_within(text: str, percentage: float) -> bool:
    """Whether `text` is among the first `percentage` of 100,000 buckets: the same ones in every process and language."""
    return zlib.crc32(text.encode("utf-8", "surrogatepass")) % (100 * _SCALE) < percentage * _SCALE
