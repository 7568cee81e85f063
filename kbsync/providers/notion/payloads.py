"""What Notion's objects say, read with doubt and alike for every API version. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kbsync.providers.contract import PUBLIC, Audience, AudienceKind
from kbsync.providers.fields import text_in

APP = "https://www.notion.so"
UNTITLED = "Untitled"
_HEX = re.compile(r"^[0-9a-f]{32}$")
# A page is its workspace's matter until it is published; which of the members may open it, the API does not tell.
_MEMBERS = Audience(AudienceKind.MEMBERS)


@dataclass(frozen=True)
class Parent:
    """Where an object stands. A row names its data source, its database, or both, as the API version has it."""

    page: str | None = None
    database: str | None = None
    data_source: str | None = None
    block: str | None = None


def dashed(identifier: str) -> str:
    """An id as Notion's answers spell it; what is no UUID stays as it is."""
    plain = identifier.strip().lower().replace("-", "")
    if not _HEX.match(plain):
        return identifier
    return f"{plain[:8]}-{plain[8:12]}-{plain[12:16]}-{plain[16:20]}-{plain[20:]}"


def id_in(value: Any, name: str = "id") -> str | None:
    found = text_in(value, name)
    return dashed(found) if found else None


def mapping_in(value: Any, name: str) -> Mapping[str, Any]:
    found = value.get(name) if isinstance(value, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def mappings_in(value: Any, name: str) -> list[Mapping[str, Any]]:
    found = value.get(name) if isinstance(value, Mapping) else None
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def plain_text(runs: Any) -> str:
    """The text of rich text without its looks."""
    found = runs if isinstance(runs, list) else []
    return "".join(str(text) for run in found if isinstance(text := _text_of(run), str))


def _text_of(run: Any) -> Any:
    if not isinstance(run, Mapping):
        return None
    return run["plain_text"] if isinstance(run.get("plain_text"), str) else mapping_in(run, "text").get("content")


def title_of(value: Any) -> str:
    """A page's title is its property of type title, whatever that is called; a database's stands beside its id."""
    runs: Any = value.get("title") if isinstance(value, Mapping) else None
    for prop in mapping_in(value, "properties").values():
        # A database's properties are its columns, and the one of type title has none.
        if isinstance(prop, Mapping) and prop.get("type") == "title" and isinstance(prop.get("title"), list):
            runs = prop["title"]
    return " ".join(plain_text(runs).split()) or text_in(value, "name") or UNTITLED


def named(value: Any, identifier: str) -> str:
    """The title for a person: what has none is told apart by its id."""
    title = title_of(value)
    return f"{UNTITLED} ({identifier})" if title == UNTITLED else title


def is_trashed(value: Any) -> bool:
    """`archived` became `in_trash`; `is_archived` is a later, separate flag. Each says that nobody is to find it."""
    return isinstance(value, Mapping) and any(
        value.get(name) is True for name in ("in_trash", "archived", "is_archived")
    )


def is_partial(value: Mapping[str, Any]) -> bool:
    """Only its id is shown: the token lacks the capability to read."""
    return not any(name in value for name in ("properties", "parent", "last_edited_time", "title"))


def parent_of(value: Any) -> Parent:
    parent = mapping_in(value, "parent")
    return Parent(
        id_in(parent, "page_id"),
        id_in(parent, "database_id"),
        id_in(parent, "data_source_id"),
        id_in(parent, "block_id"),
    )


def audience_of(value: Any) -> Audience:
    return PUBLIC if text_in(value, "public_url") else _MEMBERS


def address_of(identifier: str) -> str:
    return f"{APP}/{identifier.replace('-', '')}"
