"""A provider's content as the library stores it: storable, capped, hashed (LS-13)."""

from __future__ import annotations

import hashlib

from kbsync.domain.text import storable
from kbsync.library.documents import StoredText
from kbsync.providers.contract import Content


def stored_text(content: Content, cap: int) -> StoredText:
    """Content over `cap` characters is cut, and says so."""
    text = storable(content.markdown)
    truncated = len(text) > cap
    text = text[:cap]
    return StoredText(text, hashlib.sha256(text.encode()).hexdigest(), truncated, content.language)
