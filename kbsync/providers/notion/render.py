"""A tree of Notion's blocks as Markdown. Pure.

Files of Notion's own have addresses signed for an hour: they stand as lasting assets, named after their block (LS-25).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from posixpath import basename
from typing import Any
from urllib.parse import unquote, urlsplit

from kbsync.providers.contract import ASSET_SCHEME
from kbsync.providers.fields import text_in
from kbsync.providers.notion.payloads import address_of, id_in, mapping_in, plain_text
from kbsync.providers.notion.rich_text import escaped, in_cell, inline, link, one_line, target
from kbsync.providers.notion.tree import Block

MAX_HEADING = 6
NOT_SHOWN = "*(This part stands in a page that is not shared with the connection.)*"
_HEADING = re.compile(r"^heading_([1-9])$")
_LISTED = {"bulleted_list_item": "bullet", "toggle": "bullet", "numbered_list_item": "number", "to_do": "to_do"}
_FILES = frozenset({"image", "video", "audio", "file", "pdf"})


def render(blocks: Sequence[Block]) -> str:
    """The blocks in order. Entries of one list stand line by line, everything else apart; numbers begin again after any
    other block."""
    text, before, number = "", "", 0
    for block in blocks:
        family = _LISTED.get(block.kind, "")
        number = _number(block, number) if family == "number" else 0
        shown = _listed(block, family, number) if family else _shown(block)
        if not shown:
            before = ""
            continue
        gap = "\n" if family and family == before else "\n\n"
        text, before = (f"{text}{gap}{shown}" if text else shown), family
    return text


def file_asset(block: Block) -> str:
    return f"{block.id}-{block.kind}"


def address_in(data: Mapping[str, Any]) -> str | None:
    """A file's address, of Notion's own or from elsewhere."""
    for kind in ("file", "external", "file_upload"):
        address = text_in(mapping_in(data, kind), "url")
        if address and address.startswith(("http://", "https://")):
            return address
    return None


def is_hosted(data: Mapping[str, Any]) -> bool:
    """Whether the address is signed anew at every read."""
    return data.get("type") != "external" and not mapping_in(data, "external")


def name_in(address: str) -> str:
    return unquote(basename(urlsplit(address).path))


def _number(block: Block, before: int) -> int:
    start = block.data.get("list_start_index")
    if before == 0 and isinstance(start, int) and not isinstance(start, bool) and 0 <= start < 1_000_000_000:
        return start
    return before + 1


def _listed(block: Block, family: str, number: int) -> str:
    mark = f"{number}." if family == "number" else "-"
    box = ("[x] " if block.data.get("checked") is True else "[ ] ") if family == "to_do" else ""
    indent = " " * (len(mark) + 1)
    text = f"{mark} {box}{inline(block.data.get('rich_text'))}".rstrip().replace("\n", f"\n{indent}")
    below = render(block.children)
    if not below:
        return text
    gap = "\n" if block.children[0].kind in _LISTED else "\n\n"
    return text + gap + _indented(below, indent)


def _indented(text: str, indent: str) -> str:
    return "\n".join(f"{indent}{line}" if line else line for line in text.split("\n"))


def _shown(block: Block) -> str:
    data, kind = block.data, block.kind
    if heading := _HEADING.match(kind):
        title = one_line(data.get("rich_text"))
        return _over("#" * min(int(heading[1]), MAX_HEADING) + f" {title}" if title else "", block)
    if kind in _FILES:
        return _file(block)
    how = _RENDERINGS.get(kind)
    return how(block) if how is not None else _unknown(block)


def _over(text: str, block: Block) -> str:
    """Children stand below and not indented: four spaces would make code of them."""
    return "\n\n".join(filter(None, (text, render(block.children))))


def _paragraph(block: Block) -> str:
    return _over(inline(block.data.get("rich_text")), block)


def _quote(block: Block) -> str:
    text = inline(block.data.get("rich_text"))
    icon = mapping_in(block.data, "icon")
    sign = text_in(icon, "emoji") or ""
    if not sign and (name := text_in(mapping_in(icon, "custom_emoji"), "name")):
        sign = f":{name}:"
    whole = _over(f"{sign} {text}".strip() if block.kind == "callout" else text, block)
    return "\n".join(f"> {line}".rstrip() for line in whole.split("\n")) if whole else ""


def _code(block: Block) -> str:
    code = plain_text(block.data.get("rich_text")).replace("\r\n", "\n")
    language = text_in(block.data, "language") or ""
    language = "" if language == "plain text" else re.sub(r"[\s`]+", "-", language)
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", code)), default=0))
    caption = inline(block.data.get("caption"))
    return f"{fence}{language}\n{code}\n{fence}" + (f"\n\n{caption}" if caption else "")


def _equation(block: Block) -> str:
    expression = text_in(block.data, "expression")
    return f"$${expression}$$" if expression else ""


def _table(block: Block) -> str:
    rows = [cells for row in block.children if isinstance(cells := row.data.get("cells"), list)]
    if not rows:
        return ""
    stated = block.data.get("table_width")
    widest = max(len(row) for row in rows)
    width = max(widest, stated if isinstance(stated, int) and stated <= 1_000 else 0, 1)
    lines = [_row(row, width) for row in rows]
    head = lines.pop(0) if block.data.get("has_column_header") is True else _row([], width)
    return "\n".join([head, "|" + " --- |" * width, *lines])


def _row(cells: list[Any], width: int) -> str:
    shown = [in_cell(cell) for cell in cells] + [""] * (width - len(cells))
    return "| " + " | ".join(shown) + " |"


def _children_only(block: Block) -> str:
    return render(block.children)


def _synced(block: Block) -> str:
    return NOT_SHOWN if block.data.get("is_hidden") is True else render(block.children)


def _subpage(block: Block) -> str:
    return link(escaped(text_in(block.data, "title") or "Untitled"), address_of(block.id)) if block.id else ""


def _link_to_page(block: Block) -> str:
    page = id_in(block.data, "page_id") or id_in(block.data, "database_id")
    return link("", address_of(page)) if page else ""


def _web(block: Block) -> str:
    return link(one_line(block.data.get("caption")), text_in(block.data, "url"))


def _file(block: Block) -> str:
    address = address_in(block.data)
    caption = plain_text(block.data.get("caption"))
    if address is None:
        return escaped(caption)
    where = f"{ASSET_SCHEME}{file_asset(block)}" if is_hosted(block.data) else target(address)
    if block.kind == "image":
        return f"![{escaped(' '.join(caption.split()))}]({where})"
    name = text_in(block.data, "name") or caption or name_in(address) or block.kind
    return f"[{escaped(' '.join(name.split()))}]({where})"


def _meeting(block: Block) -> str:
    title = one_line(block.data.get("title"))
    return _over(f"**{title}**" if title else "", block)


def _nothing(block: Block) -> str:
    return ""


def _unknown(block: Block) -> str:
    """A type from next year: what it holds in the usual places, and what is below it."""
    words = next(
        (text for name in ("rich_text", "title", "caption") if (text := inline(block.data.get(name)))),
        escaped(text_in(block.data, "title") or ""),
    )
    return _over(words, block)


_RENDERINGS: Mapping[str, Callable[[Block], str]] = {
    "paragraph": _paragraph,
    "quote": _quote,
    "callout": _quote,
    "code": _code,
    "equation": _equation,
    "divider": lambda block: "---",
    "table": _table,
    "table_row": lambda block: "",
    "column_list": _children_only,
    "column": _children_only,
    "tab": _unknown,
    "synced_block": _synced,
    "child_page": _subpage,
    "child_database": _subpage,
    "link_to_page": _link_to_page,
    "bookmark": _web,
    "embed": _web,
    "link_preview": _web,
    "meeting_notes": _meeting,
    "transcription": _meeting,
    "table_of_contents": _nothing,
    "breadcrumb": _nothing,
    "template": _nothing,
    "unsupported": _nothing,
}
