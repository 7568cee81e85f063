"""What stands in the made-up Notion workspace, as the fake keeps it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

VERSIONS = ("2022-06-28", "2025-09-03", "2026-03-11")
EARLY, LATE = "2026-01-05T09:00:00.000Z", "2026-02-01T10:15:00.000Z"
MOST = 100


def uuid(number: int, kind: int = 0xA) -> str:
    return str(UUID(int=(kind << 120) | (4 << 76) | (8 << 60) | number))


def run(text: str, href: str | None = None, **annotations: bool) -> dict[str, Any]:
    looks = dict.fromkeys(("bold", "italic", "strikethrough", "underline", "code"), False)
    link = {"url": href} if href else None
    return {"type": "text", "text": {"content": text, "link": link}, "plain_text": text, "href": href,
            "annotations": {**looks, "color": "default", **annotations}}  # fmt: skip


def texts(text: str) -> list[dict[str, Any]]:
    return [run(text)] if text else []


@dataclass
class Page:
    """`parent` as the newest version spells it. `properties` besides the title; `raw` overwrites what is answered."""

    id: str
    title: str
    parent: dict[str, Any]
    edited: str = EARLY
    created: str = EARLY
    properties: dict[str, Any] = field(default_factory=dict)
    public_url: str | None = None
    trashed: bool = False
    raw: dict[str, Any] = field(default_factory=dict)


@dataclass
class Database:
    """`sources` are names by id; a linked view has none of its own and is not shown by its id."""

    id: str
    title: str
    sources: dict[str, str]
    parent: dict[str, Any] = field(default_factory=lambda: {"type": "workspace", "workspace": True})
    description: str = ""
    trashed: bool = False
    is_linked: bool = False
