"""Notion's rich text as inline Markdown. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from kbsync.providers.fields import text_in
from kbsync.providers.notion.payloads import APP, mapping_in

_SPECIAL = re.compile(r"[\\`*\[\]]|(?<![^\W_])_|_(?![^\W_])|~(?=~)|(?<=~)~|<(?=[a-zA-Z/!?])|&(?=#?\w{1,31};)")
_LINE_START = re.compile(r"^(#{1,6}(?=\s|$)|[-+](?=\s|$)|>|={2,}\s*$|-{2,}\s*$|~{3})", re.MULTILINE)
_NUMBER_START = re.compile(r"^(\d{1,9})([.)])(?=\s|$)", re.MULTILINE)
_LINKABLE = re.compile(r"^(?:https?://|mailto:|tel:)[^\s]", re.IGNORECASE)
_IN_TARGET = {" ": "%20", "(": "%28", ")": "%29", "<": "%3C", ">": "%3E", "\n": "", "\r": "", "\t": "%09"}


@dataclass(frozen=True)
class _Looks:
    bold: bool = False
    italic: bool = False
    strikethrough: bool = False
    code: bool = False
    href: str | None = None
    is_markdown: bool = False  # the text is Markdown already: an equation, a mention that is a link


@dataclass(frozen=True)
class _Run:
    text: str
    looks: _Looks


def inline(runs: Any) -> str:
    """Rich text as Markdown of one or more lines, none of which starts another block."""
    found = [_run_of(run) for run in runs if isinstance(run, Mapping)] if isinstance(runs, list) else []
    shown = "".join(
        _shown("".join(run.text for run in same), looks)
        for looks, same in groupby((run for run in found if run.text), lambda run: run.looks)
    )
    lines = "\n".join(line.strip() for line in shown.replace("\r\n", "\n").strip().split("\n"))
    return _NUMBER_START.sub(r"\1\\\2", _LINE_START.sub(r"\\\1", lines))


def one_line(runs: Any) -> str:
    return " ".join(inline(runs).split())


def in_cell(runs: Any) -> str:
    """For a table's cell: pipes escaped, lines kept apart."""
    return re.sub(r"(?<!\\)\|", r"\\|", inline(runs).replace("\n", "<br>"))


def escaped(text: str) -> str:
    return _SPECIAL.sub(lambda found: "\\" + found[0], text)


def link(label: str, address: str | None) -> str:
    """`label` is Markdown. What is no web, mail or telephone address is no link."""
    if address and address.startswith("/"):
        address = APP + address
    if not address or not _LINKABLE.match(address):
        return label
    return f"[{label or escaped(address)}]({target(address)})"


def target(address: str) -> str:
    return "".join(_IN_TARGET.get(character, character) for character in address)


def _run_of(run: Mapping[str, Any]) -> _Run:
    annotations = mapping_in(run, "annotations")
    looks = _Looks(
        bold=annotations.get("bold") is True,
        italic=annotations.get("italic") is True,
        strikethrough=annotations.get("strikethrough") is True,
        code=annotations.get("code") is True,
    )
    text = run["plain_text"] if isinstance(run.get("plain_text"), str) else None
    href = text_in(run, "href")
    match run.get("type"):
        case "equation":
            expression = text_in(mapping_in(run, "equation"), "expression") or text or ""
            return _Run(f"${expression}$" if expression else "", replace(looks, code=False, is_markdown=True))
        case "mention":
            return _mention(mapping_in(run, "mention"), text or "", href, looks)
    content = mapping_in(run, "text")
    text = text if text is not None else content.get("content")
    href = href or text_in(mapping_in(content, "link"), "url")
    return _Run(text if isinstance(text, str) else "", replace(looks, href=href))


def _mention(mention: Mapping[str, Any], text: str, href: str | None, looks: _Looks) -> _Run:
    kind = text_in(mention, "type") or ""
    about = mapping_in(mention, kind)
    match kind:
        case "user":
            name = text or text_in(about, "name") or ""
            return _Run(name if name.startswith("@") or not name else f"@{name}", looks)
        case "date":
            return _Run(date_range(about) or text, looks)
        case "link_mention":
            address = text_in(about, "href") or href
            return _Run(text_in(about, "title") or text or address or "", replace(looks, href=address))
        case "link_preview":
            address = text_in(about, "url") or href
            return _Run(address or text, replace(looks, href=address))
        case "custom_emoji":
            name = (text_in(about, "name") or text).strip(":")
            return _Run(f":{name}:" if name else "", looks)
    return _Run(text, replace(looks, href=href))


def date_range(date: Mapping[str, Any]) -> str:
    start, end = text_in(date, "start"), text_in(date, "end")
    return f"{start} – {end}" if start and end else start or ""


def _shown(text: str, looks: _Looks) -> str:
    """Markers go line by line and round the words only: beside a space, or over an empty line, they would be text."""
    return "\n".join(_marked(line, looks) for line in text.split("\n"))


def _marked(text: str, looks: _Looks) -> str:
    words = text.strip()
    if not words:
        return text
    before, after = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
    shown = code_span(words) if looks.code else words if looks.is_markdown else escaped(words)
    for on, marker in ((looks.bold, "**"), (looks.italic, "*"), (looks.strikethrough, "~~")):
        shown = f"{marker}{shown}{marker}" if on else shown
    return before + (link(shown, looks.href) if looks.href else shown) + after


def code_span(text: str) -> str:
    ticks = "`" * (1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{space}{text}{space}{ticks}"
