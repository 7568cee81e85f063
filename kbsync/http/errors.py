"""What can be wrong with a fetch besides what `kbsync.domain.errors` names: all permanent for that URL."""

from __future__ import annotations

from kbsync.domain.errors import ItemUnreadable


class ResponseRefused(ItemUnreadable):
    """The response broke a bound: body or headers too large, a decompression bomb, an encoding nobody asked for."""


class RedirectRefused(ItemUnreadable):
    """The redirects loop, are too many, lead to no crawlable URL, or the caller refused a hop."""
