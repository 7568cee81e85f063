"""Bytes of a file to Markdown. Pure: no file is opened here."""

from __future__ import annotations

import codecs
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from posixpath import basename, splitext
from urllib.parse import quote, urljoin

import yaml

from kbsync.domain.markdown import Block, Kind, blocks, plain_title
from kbsync.domain.text import storable
from kbsync.providers.contract import Content
from kbsync.providers.html import to_markdown

MARKDOWN = frozenset({".md", ".markdown", ".mdown", ".mkd", ".mdx"})
HTML = frozenset({".html", ".htm", ".xhtml"})
TEXT = frozenset({".txt", ".text", ".rst", ".adoc", ".asciidoc", ".org"})
PLAIN_NAMES = frozenset(
    {"readme", "license", "licence", "copying", "notice", "changelog", "changes", "authors", "contributing", "install"}
)
MAX_FRONT_MATTER = 16_384  # characters; longer ones are dropped unread
MAX_BRACKETS = 500  # the YAML reader's time grows with the square of their depth
MAX_TITLE = 1_000

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_META_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_INLINE_LINK = re.compile(r"(\]\(\s*<?)([^()<>\s]+)")
_DEFINITION = re.compile(r"^( {0,3}\[[^\]\n]+\]:[ \t]*<?)([^\s<>]+)", re.MULTILINE)
_ABSOLUTE = re.compile(r"^(?:[a-zA-Z][a-zA-Z0-9+.-]*:|//|#|\?)")
_LOOKS_LIKE_MARKUP = re.compile(r"^([ ]{0,3})(?=#{1,6}(?:\s|$)|`{3}|~{3})", re.MULTILINE)


def is_document(relative: str, *, named: bool) -> bool:
    """Whether a file is read at all, by its name. `named`: the source's patterns ask for it."""
    stem, extension = splitext(basename(relative).lower())
    if extension in MARKDOWN or extension in HTML or extension in TEXT:
        return True
    return extension == "" and (named or stem in PLAIN_NAMES)


def read_document(relative: str, data: bytes, base_url: str | None) -> Content:
    """The file as Markdown. ValueError, with an editor's sentence, when it is no text."""
    extension = splitext(relative.lower())[1]
    known = extension in HTML or extension in MARKDOWN or extension in TEXT
    # A NUL or two in a page is a blemish (D07); in a file that does not even say that it is text it is a sign.
    if not known and b"\x00" in data[:8_192] and not data.startswith(tuple(mark for mark, _ in _BOMS)):
        raise ValueError("It is not a text file.")
    text = storable(decoded(data, html=extension in HTML))
    if extension in HTML:
        page = to_markdown(text, base_url=document_url(relative, base_url) or relative)
        return Content(page.markdown, page.title or _name(relative), page.language)
    if extension in MARKDOWN:
        return _markdown(relative, text, base_url)
    return Content(_LOOKS_LIKE_MARKUP.sub(r"\1\\", text).strip("\n"), _name(relative))


def document_url(relative: str, base_url: str | None) -> str | None:
    """Where the file is published; None when the source does not say."""
    return urljoin(base_url if base_url.endswith("/") else base_url + "/", quote(relative)) if base_url else None


def decoded(data: bytes, *, html: bool = False) -> str:
    """By byte order mark, else what an HTML page says of itself, else UTF-8, else windows-1252. Never raises."""
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        pass
    if html and (stated := _META_CHARSET.search(data[:4_096])):
        try:
            return data.decode(stated.group(1).decode("ascii"), "replace")
        except (LookupError, ValueError):
            pass
    # Python's windows-1252 leaves five bytes undefined; latin-1 gives them the control characters that browsers do.
    return (
        data.decode("cp1252", "replace") if not re.search(rb"[\x81\x8d\x8f\x90\x9d]", data) else data.decode("latin-1")
    )


# --- Markdown -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FrontMatter:
    title: str | None = None
    language: str | None = None


def _markdown(relative: str, text: str, base_url: str | None) -> Content:
    front_matter, body = split_front_matter(text)
    found = list(blocks(body))
    title = front_matter.title or next(
        (block.title for block in found if block.kind is Kind.HEADING and block.title), ""
    )
    resolved = _with_resolved_links(body, found, document_url(relative, base_url) or relative)
    return Content(resolved.strip("\n"), title or _name(relative), front_matter.language)


def split_front_matter(text: str) -> tuple[FrontMatter, str]:
    """The front matter (YAML between `---`, TOML between `+++`) and the text below it. What can't be read counts as
    empty: a broken header is no reason to lose the document."""
    first = next(blocks(text), None)
    if first is None or first.kind is not Kind.FRONT_MATTER:
        return FrontMatter(), text
    lines = text[first.start : first.end].strip().lstrip("\ufeff").splitlines()
    source = "\n".join(lines[1:-1])
    values = _toml(source) if lines[0].startswith("+++") else _yaml(source)
    title, language = values.get("title"), values.get("lang", values.get("language"))
    return (
        FrontMatter(
            " ".join(str(title).split())[:MAX_TITLE] if isinstance(title, str | int | float) else None,
            language[:40] if isinstance(language, str) else None,
        ),
        text[first.end :],
    )


class _NoAliasLoader(yaml.SafeLoader):
    """Aliases make a small file expand without bound, and no front matter needs them (SE-05)."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not read")
        return super().compose_node(parent, index)


def _yaml(source: str) -> Mapping[str, object]:
    if len(source) > MAX_FRONT_MATTER or source.count("[") + source.count("{") > MAX_BRACKETS:
        return {}
    try:
        values = yaml.load(source, Loader=_NoAliasLoader)  # a SafeLoader
    except (yaml.YAMLError, RecursionError, ValueError, OverflowError):
        return {}
    return {str(key): value for key, value in values.items()} if isinstance(values, dict) else {}


def _toml(source: str) -> Mapping[str, object]:
    if len(source) > MAX_FRONT_MATTER:
        return {}
    try:
        return tomllib.loads(source)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError):
        return {}


def _with_resolved_links(body: str, found: list[Block], base: str) -> str:
    """Relative links as addresses below the base URL, or as paths from the source's folder; code stays as it is."""
    parts: list[str] = []
    copied = 0
    for block in found:
        if block.kind in (Kind.FENCE, Kind.CODE, Kind.FRONT_MATTER):
            continue
        parts.append(body[copied : block.start])
        text = _INLINE_LINK.sub(
            lambda link: link.group(1) + _resolved(link.group(2), base), body[block.start : block.end]
        )
        parts.append(_DEFINITION.sub(lambda link: link.group(1) + _resolved(link.group(2), base), text))
        copied = block.end
    return "".join(parts) + body[copied:]


def _resolved(target: str, base: str) -> str:
    if _ABSOLUTE.match(target):
        return target
    try:
        joined = urljoin(base, target)
    except ValueError:
        return target
    return re.sub(r"^(?:\.\./)+", "", joined)


def _name(relative: str) -> str:
    stem = splitext(basename(relative))[0] or basename(relative)
    return plain_title(stem.replace("_", " ").replace("-", " ")) or relative
