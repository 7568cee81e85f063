"""Confluence's storage format, read as it comes: XHTML with `ac:` and `ri:` elements that no schema declares. Pure.

No XML parser: pages are fragments with undeclared prefixes and HTML entities, may be broken, and must expand nothing. One
pass over the text with a stack of bounded height; what is nested deeper loses its element and keeps its text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape, unescape

MAX_FRAMES = 60

# Plain elements that a page may keep, with the attributes that mean something; the others lose their tags.
_PLAIN = frozenset({
    "p", "div", "span", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "dl", "dt", "dd", "a", "img", "br",
    "hr", "strong", "b", "em", "i", "u", "s", "del", "ins", "sub", "sup", "code", "pre", "blockquote", "q", "cite",
    "small", "big", "tt", "kbd", "samp", "var", "abbr", "center", "figure", "figcaption", "mark", "caption",
})  # fmt: skip
_VOID = frozenset({"br", "hr", "img", "col", "wbr"})
_ATTRIBUTES = ("href", "src", "alt", "start")
# Elements that are looked at as a whole when they end, like everything with a prefix.
FRAMED = frozenset({"table", "tr", "td", "th", "pre"})
_WITHOUT_TEXT = frozenset({"script", "style", "colgroup", "title", "template"})

_TOKEN = re.compile(
    r"<!\[CDATA\[|<!--|<(/?)([A-Za-z][A-Za-z0-9:_.-]*+)((?:[^<>\"']++|\"[^\"]*+\"|'[^']*+')*+)>|<[?!][^<>]*+>"
)
_ATTRIBUTE = re.compile(r"([A-Za-z][A-Za-z0-9:_.-]*+)\s*+=\s*+(?:\"([^\"]*+)\"|'([^']*+)')")
_TAG = re.compile(r"<[^<>]*+>")
_SPACE = re.compile(r"\s+")


@dataclass(frozen=True)
class Resource:
    """What a `ri:` element points to: `kind` is its name without the prefix. `inner`: where it is, if somewhere else."""

    kind: str
    attributes: dict[str, str]
    inner: tuple[Resource, ...] = ()

    def get(self, name: str) -> str:
        return self.attributes.get(f"ri:{name}", "").strip()


@dataclass
class Frame:
    """An element that is open. `out` is what stands in it so far, as HTML of plain elements. `notes`: what its children left
    for it, by their names (parameters by theirs). `rows` and `cells` are a table's."""

    name: str
    attributes: dict[str, str]
    out: list[str] = field(default_factory=list)
    parameters: dict[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    resources: list[Resource] = field(default_factory=list)
    rows: list[object] = field(default_factory=list)

    @property
    def html(self) -> str:
        return "".join(self.out)

    @property
    def raw(self) -> str:
        """The text as an author typed it, entities decoded once: of bodies that are no markup."""
        return unescape(self.html)

    def parameter(self, name: str) -> str:
        return text_of(self.parameters.get(name, ""))


def text_of(html: str) -> str:
    """One line of text, entities decoded."""
    return _SPACE.sub(" ", unescape(_TAG.sub("", html))).strip()


# Called with an element that ended and the one around it: writes into the latter what the former means.
Ending = Callable[[Frame, Frame], None]


def plain_html(storage: str, end: Ending) -> str:
    """`storage` as HTML of plain elements, every prefixed one replaced by what `end` made of it. Raises nothing."""
    frames = [Frame("", {})]
    too_deep: Counter[str] = Counter()
    position = 0
    last_comment_end = storage.rfind("-->")
    while (token := _TOKEN.search(storage, position)) is not None:
        top = frames[-1]
        _text(top, storage[position : token.start()])
        position = token.end()
        if token[2] is not None:
            _tag(frames, too_deep, token, end)
        elif token[0] == "<![CDATA[":
            stop = storage.find("]]>", position)
            body = storage[position:] if stop < 0 else storage[position:stop]
            position = len(storage) if stop < 0 else stop + 3
            top.out.append(escape(body, quote=False))
        elif token[0] == "<!--" and position <= last_comment_end:
            # One that never ends is not taken for the rest of the page.
            position = storage.find("-->", position) + 3
    _text(frames[-1], storage[position:])
    while len(frames) > 1:
        _end_top(frames, end)
    return frames[0].html


def _text(top: Frame, text: str) -> None:
    if text:
        top.out.append(text.replace("<", "&lt;").replace(">", "&gt;"))


def _tag(frames: list[Frame], too_deep: Counter[str], token: re.Match[str], end: Ending) -> None:
    closing, name, rest = token[1] == "/", token[2], token[3]
    is_prefixed = ":" in name
    if not is_prefixed:
        name = name.lower()
    if is_prefixed or name in FRAMED or name in _WITHOUT_TEXT:
        if closing:
            _close(frames, too_deep, name, end)
        elif rest.rstrip().endswith("/"):
            if len(frames) <= MAX_FRAMES:
                frames.append(Frame(name, _attributes(rest)))
                _end_top(frames, end)
        elif len(frames) <= MAX_FRAMES:
            frames.append(Frame(name, _attributes(rest)))
        else:
            too_deep[name] += 1
    elif name == "time":
        if not closing:
            frames[-1].out.append(escape(_attributes(rest).get("datetime", "")))
    elif name in _PLAIN:
        _plain(frames[-1], name, rest, closing=closing)


def _close(frames: list[Frame], too_deep: Counter[str], name: str, end: Ending) -> None:
    if too_deep[name]:
        too_deep[name] -= 1
    elif any(frame.name == name for frame in frames[1:]):
        while _end_top(frames, end) != name:
            pass


def _end_top(frames: list[Frame], end: Ending) -> str:
    ended = frames.pop()
    if ended.name not in _WITHOUT_TEXT:
        end(ended, frames[-1])
    return ended.name


def _plain(top: Frame, name: str, rest: str, *, closing: bool) -> None:
    if closing:
        if name not in _VOID:
            top.out.append(f"</{name}>")
        return
    attributes = _attributes(rest) if "=" in rest else {}
    kept = "".join(f' {key}="{escape(attributes[key])}"' for key in _ATTRIBUTES if key in attributes)
    # XHTML may end an element where it begins; HTML would leave it open.
    ends = f"</{name}>" if rest.rstrip().endswith("/") and name not in _VOID else ""
    top.out.append(f"<{name}{kept}>{ends}")


def _attributes(text: str) -> dict[str, str]:
    return {name: unescape(one if one is not None else other) for name, one, other in _values(text)}


def _values(text: str) -> list[tuple[str, str | None, str]]:
    return [(found[1], found[2], found[3] or "") for found in _ATTRIBUTE.finditer(text)]
