"""Text that Postgres can store (LS-13)."""

from __future__ import annotations

import re

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def has_unstorable_characters(text: str) -> bool:
    """Whether `text` holds NUL or a lone surrogate, which no Postgres text or jsonb takes."""
    return _UNSTORABLE.search(text) is not None


def storable(text: str) -> str:
    """`text` without NUL and lone surrogates; everything else stays as it is."""
    return _UNSTORABLE.sub("", text)
