"""What Confluence lists, read field by field: null, missing and odd ones have stated defaults (C07). Pure.

A title falls back to the id; without a version's number its time alone says that something changed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

from kbsync.providers.fields import moment, text_in

BLOG_POST = "blogpost"
PAGE = "page"
_BLOG_PREFIX = "blogpost:"

# Who may read: the names of groups and people (`user:<id>`). Empty: nobody said so, the space decides; None: it can't be
# read, or has not been asked for yet.
Readers = frozenset[str] | None


@dataclass(frozen=True)
class Space:
    id: str
    key: str
    name: str
    is_personal: bool
    home_id: str | None

    @property
    def section(self) -> str:
        return f"space-{self.key}"


@dataclass(frozen=True, slots=True)
class Entry:
    """A page, a blog post, or (in `Place` only) what pages can stand under: folder, whiteboard, database, embed.
    `parent` and `parent_kind`: what it stands under. `readers`: its own restriction, where the list tells it."""

    id: str
    kind: str
    title: str
    parent: str | None
    parent_kind: str
    position: int
    url: str | None = None
    version: str | None = None
    changed_at: datetime | None = None
    readers: Readers = None

    @property
    def external_id(self) -> str:
        return _BLOG_PREFIX + self.id if self.kind == BLOG_POST else self.id


def kind_and_id(external_id: str) -> tuple[str, str]:
    if external_id.startswith(_BLOG_PREFIX):
        return BLOG_POST, external_id.removeprefix(_BLOG_PREFIX)
    return PAGE, external_id


def identifier_in(value: Any, name: str = "id") -> str | None:
    found = value.get(name) if isinstance(value, Mapping) else None
    if isinstance(found, bool) or not isinstance(found, str | int):
        return None
    return str(found).strip() or None


def within(value: Any, *names: str) -> Any:
    """The value below `names`, or None where a step has no such name."""
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def mappings(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def space_of(entry: Any) -> Space | None:
    """None without an id or a key. Personal spaces have a type of their own, and keys that begin with a tilde."""
    identifier, key = identifier_in(entry), text_in(entry, "key")
    if identifier is None or key is None:
        return None
    home = identifier_in(entry, "homepageId") or identifier_in(entry.get("homepage"))
    personal = entry.get("type") == "personal" or key.startswith("~")
    return Space(identifier, key, text_in(entry, "name") or key, personal, home)


def entry_of(value: Any, kind: str, base: str) -> Entry | None:
    """A listed page or post of either API; None for what is not current (or has no id). `base`: see `address_of`."""
    identifier = identifier_in(value)
    if identifier is None or value.get("status") not in (None, "current"):
        return None
    ancestors = mappings(value.get("ancestors"))
    above = ancestors[-1] if ancestors else None
    version = value.get("version")
    number = identifier_in(version, "number")
    changed = text_in(version, "createdAt") or text_in(version, "when")
    position = value.get("position")
    if position is None:
        position = within(value, "extensions", "position")
    return Entry(
        identifier,
        kind,
        text_in(value, "title") or identifier,
        identifier_in(value, "parentId") or identifier_in(above),
        text_in(value, "parentType") or text_in(above, "type") or PAGE,
        position if isinstance(position, int) else 0,
        address_of(value, base),
        number or changed,
        moment(changed),
        readers_in(within(value, "restrictions", "read", "restrictions")),
    )


def address_of(value: Any, base: str) -> str | None:
    """The address that people see. `base` is where the answer says that links begin, or the configured site."""
    shown = within(value, "_links", "webui")
    start = links_begin_at(value, base)
    return start.rstrip("/") + shown if isinstance(shown, str) and shown.startswith("/") else None


def links_begin_at(value: Any, otherwise: str) -> str:
    """Where an answer says that its links begin."""
    own = within(value, "_links", "base")
    return own if isinstance(own, str) and own.startswith(("http://", "https://")) else otherwise


def space_key_in(url: str | None) -> str | None:
    """The key of the space that an address of a page names."""
    parts = urlsplit(url or "").path.split("/")
    for mark in ("spaces", "display"):
        if mark in parts[:-1]:
            return parts[parts.index(mark) + 1].replace("%7E", "~") or None
    return None


def site_in(url: str | None) -> str | None:
    """The site, with its context path, to which an address of a page belongs."""
    found = re.match(r"https?://[^?#]*?(?=/(?:spaces|display)/)", url or "")
    return found[0] if found else None


def readers_in(restrictions: Any) -> Readers:
    """The people and groups of one read restriction; None for a shape that does not tell."""
    groups, users = within(restrictions, "group", "results"), within(restrictions, "user", "results")
    if not isinstance(groups, list) or not isinstance(users, list):
        return None
    names = [text_in(one, "name") or identifier_in(one) for one in groups]
    for one in users:
        person = text_in(one, "accountId") or text_in(one, "username") or text_in(one, "userKey")
        names.append(f"user:{person}" if person else None)
    # One that can't be named would make a restriction look like none.
    return None if None in names else frozenset(name for name in names if name)


def value_in(link: object, name: str) -> str | None:
    """One value of a link's query, decoded."""
    values = parse_qs(urlsplit(link).query).get(name, []) if isinstance(link, str) else []
    return values[-1] if values else None
