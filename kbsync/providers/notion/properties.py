"""A row's properties as a list above its content. Pure.

They are in order of their names, as Notion's own order is none, and without what tells of the edit only: the text is to
change when a value does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from kbsync.providers.contract import ASSET_SCHEME
from kbsync.providers.fields import text_in
from kbsync.providers.notion.payloads import address_of, id_in, mapping_in, mappings_in
from kbsync.providers.notion.render import address_in, is_hosted, name_in
from kbsync.providers.notion.rich_text import date_range, escaped, inline, link, one_line, target

# A page shows this many references of a property; the rest is asked for.
SHOWN = 25
_PAGED = frozenset({"relation", "people", "rich_text"})
_FORMULAS = frozenset({"string", "number", "boolean", "date"})
_OF_THE_EDIT = frozenset({"title", "last_edited_time", "last_edited_by", "button"})


def render_properties(page: Mapping[str, Any]) -> str:
    lines: list[str] = []
    for name, prop in sorted(mapping_in(page, "properties").items()):
        if isinstance(prop, Mapping) and prop.get("type") not in _OF_THE_EDIT:
            value = _value(prop, id_in(page) or "")
            if value:
                lines.append(f"- **{escaped(' '.join(str(name).split()))}:** " + value.replace("\n", "\n  "))
    return "\n".join(lines)


def cut_properties(page: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Name and id of each property of which the page shows a part only."""
    found: list[tuple[str, str]] = []
    for name, prop in mapping_in(page, "properties").items():
        kind = text_in(prop, "type")
        if kind in _PAGED and (identifier := text_in(prop, "id")) is not None:
            values = prop.get(kind)
            is_full = isinstance(values, list) and len(values) >= SHOWN
            if is_full or prop.get("has_more") is True:
                found.append((str(name), identifier))
    return found


def with_items(prop: Mapping[str, Any], items: list[Any]) -> Mapping[str, Any]:
    """The property with all of its references, as its own list of items has them."""
    kind = text_in(prop, "type") or ""
    values = [item[kind] for item in items if isinstance(item, Mapping) and isinstance(item.get(kind), Mapping)]
    return {**prop, kind: values, "has_more": False}


def file_addresses(page: Mapping[str, Any]) -> dict[str, str]:
    """The addresses that work now of the files in the page's properties, by lasting name."""
    found: dict[str, str] = {}
    for prop in mapping_in(page, "properties").values():
        for number, file in enumerate(mappings_in(prop, "files")):
            if (address := address_in(file)) is not None:
                found[_asset(id_in(page) or "", prop, number)] = address
    return found


def _asset(page: str, prop: Mapping[str, Any], number: int) -> str:
    # Property ids are any signs; the name is to fit into an address.
    short = hashlib.sha256(str(prop.get("id")).encode("utf-8", "replace")).hexdigest()[:12]
    return f"{page}-property-{short}-{number}"


def _value(prop: Mapping[str, Any], page: str) -> str:
    kind = text_in(prop, "type") or ""
    value = prop.get(kind)
    match kind:
        case "rich_text":
            return inline(value)
        case "select" | "status":
            return escaped(text_in(value, "name") or "")
        case "multi_select":
            return ", ".join(_names(mappings_in(prop, kind)))
        case "people":
            return ", ".join(_names(mappings_in(prop, kind)))
        case "created_by":
            return ", ".join(_names([mapping_in(prop, kind)]))
        case "date":
            return date_range(mapping_in(prop, kind))
        case "files":
            return ", ".join(_files(prop, page))
        case "relation":
            ids = [found for one in mappings_in(prop, kind) if (found := id_in(one)) is not None]
            return ", ".join(link("", address_of(one)) for one in ids)
        case "url":
            return link("", address) if (address := text_in(prop, kind)) else ""
        case "formula":
            inner = mapping_in(prop, kind)
            return _value(inner, page) if inner.get("type") in _FORMULAS else ""
        case "rollup":
            return _rollup(mapping_in(prop, kind), page)
        case "unique_id":
            number, prefix = mapping_in(prop, kind).get("number"), text_in(mapping_in(prop, kind), "prefix")
            return (f"{prefix}-" if prefix else "") + _plain(number) if number is not None else ""
        case "verification":
            return escaped(text_in(mapping_in(prop, kind), "state") or "")
    return _plain(value)


def _rollup(rollup: Mapping[str, Any], page: str) -> str:
    if rollup.get("type") != "array":
        return _value(rollup, page) if rollup.get("type") in ("number", "date") else ""
    shown: list[str] = []
    for one in mappings_in(rollup, "array"):
        if one.get("type") == "title":
            shown.append(one_line(one.get("title")))
        elif one.get("type") != "rollup":
            shown.append(_value(one, page))
    return ", ".join(text for text in shown if text)


def _names(values: list[Mapping[str, Any]]) -> Iterator[str]:
    for value in values:
        if name := text_in(value, "name"):
            yield escaped(" ".join(name.split()))


def _files(prop: Mapping[str, Any], page: str) -> Iterator[str]:
    for number, file in enumerate(mappings_in(prop, "files")):
        if (address := address_in(file)) is None:
            continue
        name = text_in(file, "name") or name_in(address) or "file"
        where = f"{ASSET_SCHEME}{_asset(page, prop, number)}" if is_hosted(file) else target(address)
        yield f"[{escaped(' '.join(name.split()))}]({where})"


def _plain(value: Any) -> str:
    match value:
        case bool():
            return "Yes" if value else "No"
        case int():
            return str(value)
        case float():
            return str(int(value)) if value.is_integer() else repr(value)
        case str():
            return escaped(" ".join(value.split()))
    return ""
