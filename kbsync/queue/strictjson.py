"""JSON as queues store it: compact, and strict in both directions (no NaN, no lone surrogate survives unescaped)."""

from __future__ import annotations

import json

from pydantic_core import from_json, to_json

_compact = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_escaped = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode


# What both writers spell alike; the fast one is lenient with other types.
_PLAIN = frozenset({str, int, bool, type(None)})
_TEXT = frozenset({str})


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


_decode = json.JSONDecoder(parse_constant=_refuse_constant).decode


def dumps(value: object) -> bytes:
    """Compact UTF-8 JSON. Raises TypeError, ValueError (NaN, cycle) or RecursionError for what is not JSON."""
    if type(value) is dict and _PLAIN.issuperset(map(type, value.values())) and _TEXT.issuperset(map(type, value)):
        try:
            return to_json(value)
        except ValueError:  # a lone surrogate
            return _escaped(value).encode()
    text = _compact(value)
    try:
        return text.encode()
    except UnicodeEncodeError:  # a lone surrogate: JSON can say it, UTF-8 can't
        return _escaped(value).encode()


def loads(data: bytes) -> object:
    """Raises ValueError (also UnicodeDecodeError) or RecursionError for what is not JSON."""
    try:
        value: object = from_json(data, allow_inf_nan=False)
    except ValueError:  # the fast parser also refuses lone surrogates and deep nesting: the standard one decides
        value = _decode(data.decode())
    return value
