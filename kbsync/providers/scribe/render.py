"""A Scribe document as Markdown: step guides as numbered steps, Knowledge Pages (Editor.js) block by block. Pure.

Screenshots have addresses that may be signed: they stand as lasting assets, named after their step or block (LS-25).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kbsync.domain.errors import ItemUnreadable
from kbsync.providers.contract import ASSET_SCHEME
from kbsync.providers.html import to_markdown

LINK_BASE = "https://scribehow.com/"
MAX_LIST_DEPTH = 20
_MARKUP = re.compile(r"<[a-zA-Z/!]|&[a-zA-Z#]")


@dataclass
class Rendered:
    """`unknown` counts the block types that are not known: their text is kept as far as it can be seen."""

    markdown: str
    unknown: dict[str, int] = field(default_factory=dict)


def render(document: Mapping[str, Any]) -> Rendered:
    """The document under its description. Raises ItemUnreadable when there is neither steps nor content to read."""
    parts = [text] if (text := _inline(document.get("description"))) else []
    actions, content = document.get("actions"), document.get("content")
    unknown: dict[str, int] = {}
    if isinstance(actions, list) and actions:
        parts.append(_steps(actions))
    if isinstance(content, Mapping):
        parts.extend(_blocks(content.get("blocks"), unknown))
    elif document.get("type") == "page":
        raise ItemUnreadable("Scribe sent a page without content")
    return Rendered("\n\n".join(part for part in parts if part), unknown)


def assets_of(document: Mapping[str, Any]) -> dict[str, str]:
    """The addresses that work now, by lasting name: of steps by the step's id, of image blocks by the block's."""
    found: dict[str, str] = {}
    for action in _mappings(document.get("actions")):
        if action.get("id") and isinstance(action.get("screenshot_url"), str):
            found[f"action-{action['id']}"] = action["screenshot_url"]
    content = document.get("content")
    for number, block in enumerate(_mappings(content.get("blocks") if isinstance(content, Mapping) else None)):
        address = _image_address(block)
        if address:
            found[_block_asset(block, number)] = address
    return found


def _steps(actions: list[Any]) -> str:
    lines: list[str] = []
    for number, action in enumerate(_mappings(actions), 1):
        text = _inline(action.get("description")) or "(no description)"
        indent = " " * (len(str(number)) + 2)
        lines.append(f"{number}. " + text.replace("\n", f"\n{indent}"))
        if action.get("screenshot_url") and action.get("id"):
            lines.append(f"{indent}![Step {number}]({ASSET_SCHEME}action-{action['id']})")
    return "\n".join(lines)


def _blocks(blocks: Any, unknown: dict[str, int]) -> Iterator[str]:
    for number, block in enumerate(_mappings(blocks)):
        data = block.get("data")
        yield _block(str(block.get("type") or ""), data if isinstance(data, Mapping) else {}, block, number, unknown)


def _block(kind: str, data: Mapping[str, Any], block: Mapping[str, Any], number: int, unknown: dict[str, int]) -> str:
    match kind.lower():
        case "header":
            level = data.get("level")
            depth = level if isinstance(level, int) and 1 <= level <= 6 else 2
            return f"{'#' * depth} {_one_line(data.get('text'))}"
        case "paragraph":
            return _inline(data.get("text"))
        case "list" | "nestedlist" | "checklist":
            ordered = data.get("style") == "ordered"
            return "\n".join(_items(data.get("items"), ordered, kind.lower() == "checklist", 0))
        case "quote":
            caption = _one_line(data.get("caption"))
            text = _inline(data.get("text")) + (f"\n\n{caption}" if caption else "")
            return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))
        case "warning" | "alert":
            title = _one_line(data.get("title") or data.get("type"))
            text = f"**{title}**\n" * bool(title) + _inline(data.get("message"))
            return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))
        case "code":
            code = str(data.get("code") or "").replace("\r\n", "\n")
            fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", code)), default=0))
            return f"{fence}{_one_line(data.get('language'))}\n{code}\n{fence}"
        case "table":
            return _table(data)
        case "image" | "simpleimage":
            name = _block_asset(block, number)
            return f"![{_one_line(data.get('caption'))}]({ASSET_SCHEME}{name})" if _image_address(block) else ""
        case "embed" | "linktool":
            meta = data.get("meta")
            title = _one_line(meta.get("title") if isinstance(meta, Mapping) else data.get("caption"))
            address = str(data.get("link") or data.get("source") or data.get("embed") or "")
            return f"[{title or address}]({address})" if address.startswith(("http://", "https://")) else title
        case "delimiter":
            return "---"
        case "raw":
            return _inline(data.get("html"))
        case _:
            unknown[kind or "(no type)"] = unknown.get(kind or "(no type)", 0) + 1
            return "\n".join(filter(None, (_inline(text) for text in _texts_in(data, 0))))


def _items(items: Any, ordered: bool, checked: bool, depth: int) -> Iterator[str]:
    """Items are strings, or {content, items} nested, or {text, checked}."""
    if not isinstance(items, list) or depth > MAX_LIST_DEPTH:
        return
    for number, item in enumerate(items, 1):
        nested: Any = None
        mark = f"{number}." if ordered else "-"
        if isinstance(item, Mapping):
            text = item.get("content") if "content" in item else item.get("text")
            nested = item.get("items")
            meta = item.get("meta")
            is_checked = item.get("checked", meta.get("checked") if isinstance(meta, Mapping) else None)
            if checked or isinstance(is_checked, bool):
                mark += " [x]" if is_checked else " [ ]"
        else:
            text = item
        indent = "    " * depth
        yield f"{indent}{mark} " + _inline(text).replace("\n", f"\n{indent}    ")
        yield from _items(nested, ordered, checked, depth + 1)


def _table(data: Mapping[str, Any]) -> str:
    content = data.get("content")
    rows = [row for row in content if isinstance(row, list)] if isinstance(content, list) else []
    if not rows:
        return ""
    width = max(len(row) for row in rows)
    lines = [_row(row, width) for row in rows]
    head = lines.pop(0) if data.get("withHeadings") else _row([], width)
    return "\n".join([head, "|" + " --- |" * width, *lines])


def _row(cells: list[Any], width: int) -> str:
    shown = [_one_line(cell).replace("|", "\\|") for cell in cells] + [""] * (width - len(cells))
    return "| " + " | ".join(shown) + " |"


def _image_address(block: Mapping[str, Any]) -> str | None:
    data = block.get("data")
    if str(block.get("type") or "").lower() not in ("image", "simpleimage") or not isinstance(data, Mapping):
        return None
    file = data.get("file")
    address = file.get("url") if isinstance(file, Mapping) else data.get("url")
    return address if isinstance(address, str) and address.startswith(("http://", "https://")) else None


def _block_asset(block: Mapping[str, Any], number: int) -> str:
    return f"block-{block.get('id') or number}"


def _inline(value: Any) -> str:
    """Text that may hold inline HTML, as Markdown; text without any stays as it is, its Markdown included."""
    if not isinstance(value, str):
        return ""
    text = value.replace("\r\n", "\n").strip()
    return to_markdown(text, base_url=LINK_BASE).markdown.strip() if _MARKUP.search(text) else text


def _one_line(value: Any) -> str:
    return " ".join(_inline(value).split())


def _texts_in(value: Any, depth: int) -> Iterator[str]:
    """Every text inside a block that is not known, in order."""
    if depth > MAX_LIST_DEPTH:
        return
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts_in(inner, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts_in(inner, depth + 1)


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []
