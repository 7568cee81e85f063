"""Code blocks of HTML: plain text in `<pre><code class="language-x">`, whatever the highlighter made of them."""

from __future__ import annotations

import re
from html import escape

from selectolax.lexbor import LexborNode

_GUTTERS = ".linenos, .lineno, .linenodiv, .gutter, .line-numbers-rows, .ln"
_LANGUAGE_CLASS = re.compile(
    r"(?:^|\s)(?:highlight-source-|language-|lang-|highlight-|brush:\s*|src-|sourceCode\s+)([A-Za-z0-9_+#.-]+)"
)
# Class names that follow one of the prefixes above and name no language.
_NO_LANGUAGE = frozenset(
    {"none", "text", "plaintext", "plain", "default", "notranslate", "source", "highlighter", "rouge"}
)
_CLIMB = 6


def plain_code(pre: LexborNode) -> None:
    """Replaces what is in `pre` by one `<code>` with its text; the language comes from it, its code or its wrappers."""
    for gutter in pre.css(_GUTTERS):
        gutter.remove()
    for line_break in pre.css("br"):
        line_break.replace_with("\n")
    language = _language(pre)
    text = pre.text(deep=True).strip("\n").replace("\r", "")
    marker = f' class="language-{escape(language)}"' if language else ""
    pre.inner_html = f"<code{marker}>{escape(text)}</code>"
    _drop_gutter_table(pre)


def _language(pre: LexborNode) -> str:
    candidates: list[LexborNode | None] = [pre.css_first("code"), pre]
    node = pre.parent
    for _ in range(_CLIMB):
        if node is None or node.tag not in ("div", "figure", "span", "td", "tr", "tbody", "table"):
            break
        candidates.append(node)
        node = node.parent
    for candidate in candidates:
        if candidate is not None and (found := _stated(candidate)):
            return found
    return ""


def _stated(node: LexborNode) -> str:
    attributes = node.attributes
    for name in ("data-lang", "data-language", "lang"):
        if value := (attributes.get(name) or "").strip():
            return value if re.fullmatch(r"[A-Za-z0-9_+#.-]{1,30}", value) else ""
    for match in _LANGUAGE_CLASS.finditer(attributes.get("class") or ""):
        if match.group(1).lower() not in _NO_LANGUAGE:
            return match.group(1)
    return ""


def _drop_gutter_table(pre: LexborNode) -> None:
    """Highlighters put line numbers and code into the two cells of a table: the code takes the table's place."""
    cell = pre.parent
    while cell is not None and cell.tag == "div":
        cell = cell.parent
    if cell is None or cell.tag != "td" or "code" not in (cell.attributes.get("class") or ""):
        return
    table = cell.parent
    while table is not None and table.tag != "table":
        table = table.parent
    if table is not None:
        table.insert_before(pre)  # a copy of it
        table.remove()
