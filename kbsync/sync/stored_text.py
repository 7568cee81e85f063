"""A provider's content as the library stores it: storable, capped, hashed (LS-13)."""

from __future__ import annotations

from kbsync.domain.text import cap, content_hash, storable
from kbsync.library.documents import StoredText
from kbsync.providers.contract import Content


def stored_text(content: Content, limit: int) -> StoredText:
    """Content over `limit` characters is cut, and says so."""
    text, truncated = cap(storable(content.markdown), limit)
    return StoredText(text, content_hash(text), truncated, content.language)
