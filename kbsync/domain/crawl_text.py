"""When two crawled pages are the same text (D09): a trap repeats its words under ever new addresses."""

from __future__ import annotations

import hashlib
import re

# Neither alternative reads past where it could begin again: a text of beginnings would cost the square of its length.
_LINK_TARGET = re.compile(r"\]\([^)\]\n]*\)|<https?:[^<>\n]*>")


def same_text_key(markdown: str) -> str | None:
    """Equal for pages whose words are equal, wherever their links point; None for a page without words."""
    words = " ".join(_LINK_TARGET.sub("]", markdown).split())
    if not words:
        return None
    return hashlib.sha256(words.encode("utf-8", "surrogatepass")).hexdigest()
