"""What a hostile or broken author could send: strategies of markup, and documents that grow in one dimension."""

from __future__ import annotations

from hypothesis import strategies as st

_WORDS = """
a b base blockquote body br code dd div dl dt em footer h1 h2 h6 head header html iframe img input li link main meta nav
noscript ol p pre script section select span strong style svg table tbody td textarea template th title tr ul plaintext
frameset math aside article
"""
NAMES = st.sampled_from(_WORDS.split())
VALUES = st.sampled_from(
    ["", "#x", "x y", "../../..", "//h", "http://[", "javascript:alert(1)", "\x00", "é\u202e", "a" * 300, "?a=1&a=1", "{#x}",
     "http://h:99999/", "http://1.1.1.1.1/", "%", "%zz", "&#0;", "noindex,nofollow", "0;url=/x", "canonical", "nav"]
)  # fmt: skip
ATTRIBUTES = st.sampled_from(
    ["href", "src", "id", "name", "class", "rel", "content", "http-equiv", "lang", "hidden", "role", "style", "charset"]
)
TEXT = st.text(alphabet=st.characters(), max_size=30) | st.sampled_from(
    ["\ud800", "\x00", "<!--", "-->", "<![CDATA[", "]]>", "&", "&#xD800;", "&unknown;", "```", "| a | b |", "<", "</", "<!",
     "<?"]
)  # fmt: skip


def _tag(name: str, attributes: list[tuple[str, str]], closed: str) -> str:
    written = "".join(f' {key}="{value}"' for key, value in attributes)
    return f"{closed[0]}{name}{written}{closed[1]}"


TAGS = st.builds(
    _tag,
    NAMES,
    st.lists(st.tuples(ATTRIBUTES, VALUES), max_size=3),
    st.sampled_from([("<", ">"), ("</", ">"), ("<", "/>"), ("<", "")]),
)
MARKUP = st.lists(TAGS | TEXT, max_size=40).map("".join)
"""Soup: tags opened, closed and cut off in any order, with text between them."""
