"""How deeply a page's elements nest, and a page made flat (SE-05). Pure.

A tree builder's time grows with the square of the depth: it walks the open elements for many tags, most of all for end
tags that close nothing. Depth is counted by element name, so that an end tag of another name can't hide it; the count
errs on the deep side.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

DEEP = 1_000
_MEASURED_FROM = 40_000  # characters; below it even the worst page is parsed in a fraction of a second
_COSTLY_WALK = 200_000_000  # open elements walked past by end tags that close nothing
_TAG = re.compile(r"<(/?)([a-zA-Z][^\s/>]{0,40})")
# Void elements, and those that the next one of their kind closes.
_NOT_NESTING = frozenset(
    {
        *(
            "area",
            "base",
            "br",
            "col",
            "embed",
            "hr",
            "img",
            "input",
            "link",
            "meta",
            "param",
            "source",
            "track",
            "wbr",
        ),
        *("p", "li", "dt", "dd", "tr", "td", "th", "tbody", "thead", "tfoot", "colgroup", "option", "optgroup"),
        *("rt", "rp", "html", "head", "body"),
    }
)
_KEPT_TAGS = (
    "a|area|base|link|meta|html|head|body|script|style|noscript|textarea|title|frame|iframe|xmp|noembed|noframes"
)
_OTHER_TAG = re.compile(rf"<(/?)(?!(?:{_KEPT_TAGS})[\s/>])[a-z][^\s/>]*", re.IGNORECASE)


@dataclass(frozen=True)
class Nesting:
    """`depth` is an upper bound; `walked` counts the open elements that end tags without a start tag walk past."""

    depth: int = 0
    walked: int = 0

    @property
    def is_deep(self) -> bool:
        return self.depth >= DEEP

    @property
    def is_costly(self) -> bool:
        """Whether the tree can't be built in reasonable time from the page as it is."""
        return self.walked >= _COSTLY_WALK


def measure(html: str) -> Nesting:
    """The nesting of a page; a short one counts as flat without a look."""
    if len(html) < _MEASURED_FROM:
        return Nesting()
    opened: Counter[str] = Counter()
    depth = deepest = walked = 0
    for closing, name in _TAG.findall(html):
        name = name.lower()
        if name in _NOT_NESTING:
            continue
        if not closing:
            opened[name] += 1
            depth += 1
            deepest = max(deepest, depth)
        elif opened[name]:
            opened[name] -= 1
            depth -= 1
        else:
            walked += depth
    return Nesting(deepest, walked)


def flattened(html: str) -> str:
    """The page with all elements but links and what is read as text renamed to one that no rule of the tree builder
    knows. The links stay; the structure is lost."""
    return _OTHER_TAG.sub(r"<\1x-block", html)
