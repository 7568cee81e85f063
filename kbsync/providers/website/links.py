"""What a page's markup says to a crawler: base, links, robots meta, canonical, language alternates. Pure.

Links resolve against the first `<base href>` wherever it stands, itself resolved against the address that answered
(field cases D01, D02).
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from selectolax.lexbor import LexborHTMLParser, LexborNode

from kbsync.domain.url_identity import Found, NotFollowed, judge_link

MAX_LINKS = 20_000  # of one page; more are a generator's, or an attack
_LINKS = "a[href], area[href], frame[src], link[rel][href]"
_FOLLOWED_RELATIONS = frozenset({"next", "prev", "previous", "alternate"})
_REFRESH = re.compile(r"^\s*[0-9.]*\s*[;,]\s*(?:url\s*=\s*)?[\"']?\s*([^\"'\s][^\"']*)", re.IGNORECASE)
_SHELLS = "#root, #app, #__next, #__nuxt, app-root, [data-reactroot]"


@dataclass(frozen=True)
class Markup:
    """`links` in the page's order, each identity once, the page itself left out; `left_out` counts what can't be
    followed, by reason. `canonicals` are the distinct targets the page names. `robots` are directives in lower case."""

    links: tuple[Found, ...]
    left_out: Counter[str]
    canonicals: tuple[Found, ...]
    robots: frozenset[str]
    looks_unrendered: bool


@dataclass
class _Links:
    base: str
    own: str
    found: dict[str, Found] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)

    def take(self, raw: str) -> None:
        judged = judge_link(raw, self.base)
        if isinstance(judged, Found):
            if judged.identity == self.own or judged.identity in self.found:
                return
            if len(self.found) < MAX_LINKS:
                self.found[judged.identity] = judged
            else:
                self.left_out[f"more than {MAX_LINKS} on one page"] += 1
        elif judged.reason not in _SILENT:
            self.left_out[judged.reason] += 1


_SILENT = frozenset({"empty link", "not http or https"})


def read_markup(html: str, url: str, robot: str) -> Markup:
    """The markup of the page that answered at `url`, flat if it was deep (`nesting`). `robot` is our product token."""
    return markup_of(LexborHTMLParser(html), url, robot)


def markup_of(tree: LexborHTMLParser, url: str, robot: str) -> Markup:
    """As `read_markup`, of a tree, which stays as it is."""
    own = judge_link(url, "")
    links = _Links(_base(tree, url), own.identity if isinstance(own, Found) else url)
    canonicals: dict[str, Found] = {}
    for node in tree.css(_LINKS):
        attributes = node.attributes
        if node.tag == "link":
            _take_link_element(attributes, links, canonicals)
            continue
        if "nofollow" in (attributes.get("rel") or "").lower().split():
            continue
        links.take(attributes.get("src" if node.tag == "frame" else "href") or "")
    directives = _read_metas(tree.css("meta"), links, robot)
    return Markup(
        tuple(links.found.values()),
        links.left_out,
        tuple(canonicals.values()),
        directives,
        tree.css_first(_SHELLS) is not None,
    )


def _take_link_element(attributes: dict[str, str | None], links: _Links, canonicals: dict[str, Found]) -> None:
    relations = set((attributes.get("rel") or "").lower().split())
    href = attributes.get("href") or ""
    if "canonical" in relations:
        judged = judge_link(href, links.base)
        if isinstance(judged, Found):
            canonicals.setdefault(judged.identity, judged)
    elif relations & _FOLLOWED_RELATIONS and not relations & {"stylesheet", "nofollow"}:
        # An alternate without a language is a feed or another format of this page.
        is_page = "alternate" not in relations or bool(attributes.get("hreflang"))
        links.take(href if is_page else "")


def _read_metas(metas: list[LexborNode], links: _Links, robot: str) -> frozenset[str]:
    directives: set[str] = set()
    for meta in metas:
        attributes = meta.attributes
        content = attributes.get("content") or ""
        if (attributes.get("name") or "").strip().lower() in ("robots", robot):
            directives.update(part.strip().lower() for part in content.split(","))
        elif (attributes.get("http-equiv") or "").strip().lower() == "refresh":
            target = _REFRESH.match(content)
            if target:
                links.take(target[1])
    return frozenset(directives - {""})


def _base(tree: LexborHTMLParser, url: str) -> str:
    node = tree.css_first("base[href]")
    stated = (node.attributes.get("href") if node is not None else None) or ""
    if not stated:
        return url
    judged = judge_link(stated, url)
    return judged.fetch_url if isinstance(judged, Found) else url


def header_canonicals(link_header: str, url: str) -> tuple[Found, ...]:
    """The canonical targets of an HTTP `Link` header."""
    found: dict[str, Found] = {}
    for target, parameters in re.findall(r"<([^<>]{1,8192})>([^<]{0,2000})", link_header):
        if re.search(r"rel\s*=\s*\"?[^\";,]*\bcanonical\b", parameters, re.IGNORECASE):
            judged = judge_link(target, url)
            if not isinstance(judged, NotFollowed):
                found.setdefault(judged.identity, judged)
    return tuple(found.values())


_VALUED = ("max-snippet", "max-image-preview", "max-video-preview", "unavailable_after")


def header_directives(x_robots_tag: str, robot: str) -> frozenset[str]:
    """The directives of `X-Robots-Tag` (one header a line) that are meant for us: unprefixed, or under our name."""
    directives: set[str] = set()
    for line in x_robots_tag.lower().splitlines():
        ours = True
        for part in line.split(","):
            name, colon, rest = part.partition(":")
            if colon and name.strip() not in _VALUED:
                ours = name.strip() == robot
                part = rest
            if ours:
                directives.add(part.strip())
    return frozenset(directives - {""})
