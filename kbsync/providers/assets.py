"""Addresses that expire, in Markdown: each becomes a lasting name, and a name leads back to the address of today (LS-25).

The name is a digest of the address without its query, which is what a signature changes. Pure.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable

from kbsync.providers.contract import ASSET_SCHEME

# A link's or picture's target as our converters write it: no blanks, brackets escaped or balanced at most once.
_TARGET = re.compile(r"\]\((<?)(https?://[^\s()<>]*(?:\([^\s()<>]*\)[^\s()<>]*)*)(>?)")


def asset_name(url: str) -> str:
    return hashlib.sha256(url.split("#")[0].split("?")[0].encode("utf-8", "replace")).hexdigest()[:24]


def with_lasting_names(markdown: str, expires: Callable[[str], bool]) -> str:
    """`markdown` with every target that `expires` replaced by its lasting name."""

    def renamed(found: re.Match[str]) -> str:
        url = found[2]
        return f"]({ASSET_SCHEME}{asset_name(url)}" if expires(url) else found[0]

    return _TARGET.sub(renamed, markdown)


def addresses_by_name(markdown: str, expires: Callable[[str], bool]) -> dict[str, str]:
    """The addresses that work now, by their lasting name, of Markdown as the provider gives it today."""
    return {asset_name(url): url for _, url, _ in _TARGET.findall(markdown) if expires(url)}
