"""Chooses a page's content on the parsed tree and makes it plain enough to convert: the pre-pass of `html.to_markdown`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from urllib.parse import quote, urljoin

from selectolax.lexbor import LexborHTMLParser, LexborNode, create_tag

from kbsync.providers.html_code import plain_code

# Never content, whatever is in them.
_DEAD = (
    "script, style, noscript, template, svg, iframe, object, embed, canvas, audio, video, button, input, select, textarea, "
    "dialog, nav, link, meta, [role=navigation], [role=search], [role=dialog], [role=alertdialog], [role=menu], "
    "a.headerlink, a.header-anchor, a.hash-link, a.anchorjs-link, a.heading-anchor, .sr-only, .visually-hidden, "
    ".skip-link, .clipboard-copy, .copybtn"
)
_HIDDEN = "[hidden], [aria-hidden=true], [style*='display:none'], [style*='display: none']"
# Furniture by name. A name is a hint only: what holds most of the page's text is content whatever it is called.
_FURNITURE = (
    "footer, [role=contentinfo], [role=banner], .navheader, .navfooter, .toc, .table-of-contents, #toc, .tableofcontents, "
    ".breadcrumb, .breadcrumbs, .sidebar, .sphinxsidebar, .site-header, .site-footer, .page-nav, .prev-next-area, "
    ".pagination-nav, .pagination, .cookie-banner, #cookie-banner, .edit-this-page, .theme-edit-this-page, .share-buttons, "
    ".social-share, .advertisement, .newsletter-signup, .related, .rst-footer-buttons, .wy-breadcrumbs"
)
_MAIN = (
    "main, [role=main]",
    "article",
    ".markdown-body, .article-body, .article-content, .post-content, .entry-content, .theme-doc-markdown, "
    "#main-content, #content, .content",
)
_MAIN_SHARE = 0.5
_ADMONITION_TITLE = ", ".join(
    f".{kind} > h{level}.title" for kind in ("note", "warning", "caution", "tip", "important") for level in (3, 4)
)
_HEADINGS = "h1, h2, h3, h4, h5, h6"
_ANCHOR_CLIMB = 8
_BREAKS_ANCHOR = re.compile(r"[\s{}]")
_SCHEME = re.compile(r"^([a-zA-Z][a-zA-Z0-9+.-]*):")
_LINKABLE = frozenset({"http", "https", "mailto", "tel", "ftp"})
_CONTROL = re.compile("[\x00-\x1f\x7f]")
_LANGUAGE = re.compile(r"^[a-zA-Z]{2,3}(?:-[a-zA-Z0-9]{2,8})*$")


@dataclass(frozen=True)
class TidyPage:
    html: str
    title: str
    language: str | None


def tidy(tree: LexborHTMLParser, base_url: str) -> TidyPage:
    """The content of `tree` as HTML of plain elements, links absolute, anchors written out. Changes the tree."""
    language = _language(tree)
    stated_title = _stated_title(tree)
    base = _base(tree, base_url)
    body = tree.body
    if body is None:
        return TidyPage("", stated_title, language)
    anchors = _heading_anchors(body)
    _unlink_headings(body)
    _remove_dead(body)
    content = _content(body)
    title = _title(stated_title, content)
    for pre in content.css("pre"):
        plain_code(pre)
    _plain_admonitions(content)
    _absolute_links(content, base)
    _write_anchors(content, anchors)
    html = (content.html or "").replace("\u00ad", "").replace("\u00a0", " ")
    return TidyPage(html, title, language)


# --- what the page says of itself ---------------------------------------------------------------------------------


def _attribute(node: LexborNode | None, name: str) -> str:
    return ((node.attributes.get(name) if node is not None else None) or "").strip()


def _language(tree: LexborHTMLParser) -> str | None:
    stated = _attribute(tree.css_first("html"), "lang") or _attribute(
        tree.css_first("meta[http-equiv='content-language' i]"), "content"
    )
    return stated if _LANGUAGE.match(stated) else None


def _stated_title(tree: LexborHTMLParser) -> str:
    node = tree.css_first("head > title") or tree.css_first("title")
    text = node.text(deep=True).strip() if node is not None else ""
    return text or _attribute(tree.css_first("meta[property='og:title']"), "content")


def _title(stated: str, content: LexborNode) -> str:
    """The page's title without the site's name around it, where its only top heading tells them apart."""
    tops = content.css("h1")
    top = " ".join(tops[0].text(deep=True).split()) if tops else ""
    if not stated:
        return top
    only = len(tops) == 1 and top
    return top if only and top in " ".join(stated.split()) else stated


def _base(tree: LexborHTMLParser, base_url: str) -> str:
    stated = _attribute(tree.css_first("base[href]"), "href")
    return _joined(base_url, stated) or base_url if stated else base_url


# --- what is content ----------------------------------------------------------------------------------------------


def _length(node: LexborNode) -> int:
    return len(node.text(deep=True))


def _remove_dead(body: LexborNode) -> None:
    _remove(body.css(_DEAD))
    for node in body.css(_HIDDEN):
        if _attribute(node, "role") != "tabpanel":
            _remove([node])
            continue
        # A tab that is not in front is content all the same.
        for name in ("hidden", "aria-hidden", "style"):
            if name in node.attributes:
                del node.attrs[name]


def _remove(nodes: list[LexborNode]) -> None:
    for node in nodes:
        if node.tag not in ("html", "body", "main"):
            node.remove()


def _content(body: LexborNode) -> LexborNode:
    total = _length(body)
    if total == 0:
        return body
    for node in body.css(_FURNITURE):
        if node.tag not in ("body", "main", "article") and _length(node) * 2 < total:
            node.remove()
    _remove_outer_furniture(body)
    total = _length(body)
    for selector in _MAIN:
        found = body.css(selector)
        # Several articles are a list of them, and all of it is the page.
        if len(found) == 1 and _length(found[0]) >= total * _MAIN_SHARE:
            return found[0]
    return body


def _remove_outer_furniture(body: LexborNode) -> None:
    inside = {node.mem_id for node in body.css("main header, article header, [role=main] header")}
    only_top = len(body.css("h1")) == 1
    for node in body.css("header"):
        if node.mem_id not in inside and not (only_top and node.css_first("h1") is not None):
            node.remove()
    inside = {node.mem_id for node in body.css("main aside, article aside, [role=main] aside")}
    for node in body.css("aside"):
        links = sum(_length(link) for link in node.css("a"))
        if node.mem_id not in inside or links * 2 > _length(node):
            node.remove()


# --- anchors ------------------------------------------------------------------------------------------------------


def _heading_anchors(body: LexborNode) -> dict[int, str]:
    """The id under which each heading can be linked to, by the heading's memory id: its own, that of a link in it, or
    that of the section it opens."""
    anchors: dict[int, str] = {}
    used: set[str] = set()
    for heading in body.css(_HEADINGS):
        found = _own_anchor(heading) or _section_anchor(heading, used)
        if found:
            used.add(found)
            anchors[heading.mem_id] = found
    return anchors


def _unlink_headings(body: LexborNode) -> None:
    """Headings link to themselves, so that readers can copy the link: by their words, or by a sign that is no word."""
    for link in body.css(", ".join(f"h{level} a[href^='#']" for level in range(1, 7))):
        if any(character.isalnum() for character in link.text(deep=True)):
            link.unwrap()
        else:
            link.remove()


def _own_anchor(heading: LexborNode) -> str:
    if own := _attribute(heading, "id"):
        return own
    words = heading.text(deep=True).strip()
    for link in heading.css("a[id], a[name], span[id], a[href^='#']"):
        if found := _attribute(link, "id") or _attribute(link, "name"):
            return found
        text = link.text(deep=True).strip()
        # A sign to copy the link by, or the heading as its own link; other links lead elsewhere.
        if text == words or not any(character.isalnum() for character in text):
            return _attribute(link, "href").lstrip("#")
    return ""


def _section_anchor(heading: LexborNode, used: set[str]) -> str:
    node = heading.parent
    for _ in range(_ANCHOR_CLIMB):
        if node is None or node.tag in ("body", "main", "html", "td", "li"):
            return ""
        found = _attribute(node, "id") if node.tag in ("div", "section", "article") else ""
        if found:
            return "" if found in used else found
        node = node.parent
    return ""


def _write_anchors(content: LexborNode, anchors: dict[int, str]) -> None:
    for heading in content.css(_HEADINGS):
        if (anchor := anchors.get(heading.mem_id)) and heading.text(deep=True).strip():
            heading.insert_child(f" {{#{_safe_anchor(anchor)}}}")
    for term in content.css("dt"):
        inner = (term.inner_html or "").strip()
        if not inner or not term.text(deep=True).strip():
            continue
        anchor = _attribute(term, "id") or _attribute(term.css_first("[id]"), "id")
        tail = f" {{#{escape(_safe_anchor(anchor))}}}" if anchor else ""
        bold = inner if term.css_first("strong, b, p, div, ul, pre, table") is not None else f"<strong>{inner}</strong>"
        term.inner_html = bold + tail


def _safe_anchor(anchor: str) -> str:
    return _BREAKS_ANCHOR.sub(lambda found: quote(found.group()), anchor)


# --- links and boxes ----------------------------------------------------------------------------------------------


def _plain_admonitions(content: LexborNode) -> None:
    # "Note" above a box is a label, and no section of the document.
    for node in content.css(_ADMONITION_TITLE):
        label = create_tag("strong")
        label.insert_child(node.text(deep=True).strip())
        paragraph = create_tag("p")
        paragraph.insert_child(label)
        node.replace_with(paragraph)


def _absolute_links(content: LexborNode, base: str) -> None:
    for node in content.css("a[href]"):
        target = _joined(base, _attribute(node, "href"))
        if not node.text(deep=True).strip() and node.css_first("img") is None:
            node.remove()
        elif target:
            node.attrs["href"] = target
            if "title" in node.attributes:
                del node.attrs["title"]
        else:
            node.unwrap()
    for node in content.css("img"):
        target = _joined(base, _attribute(node, "src"))
        if target:
            node.attrs["src"] = target
        else:
            node.replace_with(_attribute(node, "alt"))


def _joined(base: str, reference: str) -> str:
    """`reference` against `base`, or "" when it is no address that may be followed."""
    # Browsers ignore control characters in an address, which is how "java\nscript:" gets past a look at its start.
    cleaned = _CONTROL.sub("", reference).strip()
    try:
        joined = urljoin(base, cleaned)
    except ValueError:
        return ""
    scheme = _SCHEME.match(joined)
    if scheme is not None and scheme.group(1).lower() not in _LINKABLE:
        return ""
    return joined
