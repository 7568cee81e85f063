"""A Zendesk article as a document: one a published locale, under `<article id>:<locale>`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kbsync.providers.contract import (
    PUBLIC,
    Audience,
    AudienceKind,
    Content,
    ListedDocument,
    ListedSection,
    UnreadableItem,
)
from kbsync.providers.fields import moment, text_in
from kbsync.providers.html import to_markdown

MEMBERS = Audience(AudienceKind.MEMBERS)
UNKNOWN = Audience(AudienceKind.UNKNOWN)


@dataclass(frozen=True)
class Brand:
    """`is_restricted`: the help center is for people who are signed in, whatever its articles say."""

    subdomain: str
    name: str
    is_restricted: bool = False


@dataclass(frozen=True)
class Segments:
    """Who the user segments are, by id; None: they can't be read, so that nobody knows who may see what is restricted."""

    audiences: Mapping[str, Audience] | None

    def audience_of(self, article: Mapping[str, Any], brand: Brand) -> Audience:
        ids = article.get("user_segment_ids")
        named = [str(one) for one in ids if one is not None] if isinstance(ids, list) else []
        if article.get("user_segment_id") is not None:
            named.append(str(article["user_segment_id"]))
        if not named:
            return MEMBERS if brand.is_restricted else PUBLIC
        if self.audiences is None or any(one not in self.audiences for one in named):
            return UNKNOWN
        found = [self.audiences[one] for one in named]
        if any(one.kind is AudienceKind.MEMBERS for one in found):
            return MEMBERS
        return Audience(AudienceKind.GROUPS, tuple(dict.fromkeys(group for one in found for group in one.groups)))


def segment_audience(segment: Mapping[str, Any]) -> tuple[str, Audience] | None:
    identifier = segment.get("id")
    if identifier is None:
        return None
    kind, built_in = segment.get("user_type"), segment.get("built_in")
    if built_in and kind == "signed_in_users":
        return str(identifier), MEMBERS
    name = text_in(segment, "name") or ("staff" if kind == "staff" else str(identifier))
    return str(identifier), Audience(AudienceKind.GROUPS, (name,))


@dataclass
class Tree:
    """Categories and sections of one brand: told once each, parents known as far as they were listed."""

    brand: Brand
    parents: dict[str, str | None] = field(default_factory=dict)

    def category(self, entry: Mapping[str, Any]) -> ListedSection | None:
        return self._section("c", entry, None)

    def section(self, entry: Mapping[str, Any]) -> ListedSection | None:
        above, category = entry.get("parent_section_id"), entry.get("category_id")
        parent = (
            self.key("s", above) if above is not None else self.key("c", category) if category is not None else None
        )
        return self._section("s", entry, parent)

    def key(self, kind: str, identifier: object) -> str:
        """Two brands were seen with the same category id: a section is named with its brand."""
        return f"{self.brand.subdomain}/{kind}{identifier}"

    def _section(self, kind: str, entry: Mapping[str, Any], parent: str | None) -> ListedSection | None:
        identifier = entry.get("id")
        if identifier is None or (key := self.key(kind, identifier)) in self.parents:
            return None
        self.parents[key] = None if self._is_below(parent, key) else parent
        position = entry.get("position")
        title = text_in(entry, "name") or str(identifier)
        return ListedSection(key, title, self.parents[key], position if isinstance(position, int) else 0)

    def _is_below(self, parent: str | None, key: str) -> bool:
        """Whether `key` would stand above itself."""
        seen: set[str] = set()
        while parent is not None and parent not in seen:
            if parent == key:
                return True
            seen.add(parent)
            parent = self.parents.get(parent)
        return False


def document_of(
    article: Mapping[str, Any], locale: str, tree: Tree, segments: Segments
) -> ListedDocument | UnreadableItem | None:
    """None for what readers of the help center don't see: drafts."""
    if article.get("draft"):
        return None
    external_id = f"{article['id']}:{locale}"
    title = text_in(article, "title") or text_in(article, "name") or "Untitled"
    url, body = text_in(article, "html_url"), article.get("body")
    if body is not None and not isinstance(body, str):
        return UnreadableItem(external_id, title, "Zendesk sent a body that is no text", url)
    section = tree.key("s", article.get("section_id"))
    changed = text_in(article, "updated_at")
    audience = segments.audience_of(article, tree.brand)
    return ListedDocument(
        external_id,
        title,
        url,
        (section,) if section in tree.parents else (),
        moment(changed),
        changed,
        Content(to_markdown(body or "", base_url=url or "").markdown, title, locale, audience=audience),
        audience,
    )
