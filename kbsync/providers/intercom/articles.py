"""An Intercom article as documents: one a published locale, the default one under the article's own id. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from kbsync.providers.assets import with_lasting_names
from kbsync.providers.contract import PUBLIC, Audience, AudienceKind, Content, ListedDocument, UnreadableItem
from kbsync.providers.fields import text_in
from kbsync.providers.html import to_markdown
from kbsync.providers.intercom.config import IntercomConfig

_EVERYBODY = frozenset({"everyone", "public", "all"})


@dataclass(frozen=True)
class Collections:
    """`parents`: collection -> its parent; `centers`: top collection -> its help center."""

    parents: Mapping[str, str | None]
    centers: Mapping[str, str | None]

    def center_of(self, collection: str) -> str | None:
        seen: set[str] = set()
        while collection not in seen:
            seen.add(collection)
            parent = self.parents.get(collection)
            if parent is None:
                return self.centers.get(collection)
            collection = parent
        return None


def documents_of(
    article: Mapping[str, Any], config: IntercomConfig, collections: Collections
) -> Iterator[ListedDocument | UnreadableItem]:
    """The published locales that the source wants. A default locale that the translations repeat is one document."""
    identifier = text_in(article, "id") or str(article.get("id") or "")
    collection = _collection_of(article)
    if collection is None and not config.include_loose_articles:
        return
    if config.help_center_ids:
        center = collections.center_of(collection) if collection else None
        if center is None or not center.isdecimal() or int(center) not in config.help_center_ids:
            return
    sections = (collection,) if collection and collection in collections.parents else ()
    default = text_in(article, "default_locale")
    for external_id, locale, shown in _locales(article, identifier, default):
        if shown.get("state") != "published" or not _is_wanted(locale, config):
            continue
        yield _document(external_id, locale, shown, sections, _audience(article))


def _locales(
    article: Mapping[str, Any], identifier: str, default: str | None
) -> Iterator[tuple[str, str | None, Mapping[str, Any]]]:
    yield identifier, default, article
    translated = article.get("translated_content")
    if not isinstance(translated, Mapping):
        return
    for locale, shown in translated.items():
        # The key `type` stands among the locales; a locale may be null.
        if isinstance(shown, Mapping) and locale != default:
            yield f"{identifier}:{locale}", str(locale), shown


def _document(
    external_id: str,
    locale: str | None,
    shown: Mapping[str, Any],
    sections: tuple[str, ...],
    audience: Audience,
) -> ListedDocument | UnreadableItem:
    title, url = text_in(shown, "title") or "Untitled", text_in(shown, "url")
    changed = shown.get("updated_at")
    body = shown.get("body")
    if body is not None and not isinstance(body, str):
        return UnreadableItem(external_id, title, "Intercom sent a body that is no text", url)
    markdown = with_lasting_names(raw_markdown(body or ""), expires)
    return ListedDocument(
        external_id,
        title,
        url,
        sections,
        _moment(changed),
        None if changed is None else str(changed),
        Content(markdown, title, locale, audience=audience),
        audience,
    )


def raw_markdown(body: str) -> str:
    return to_markdown(body, base_url="").markdown


def expires(url: str) -> bool:
    """Pictures and files of a workspace have signed addresses; the help center's own pages have not."""
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    return bool(parts.query) and (
        host.endswith((".intercomcdn.com", ".intercomcdn.eu")) or "intercom-attachments" in host
    )


def _is_wanted(locale: str | None, config: IntercomConfig) -> bool:
    return not config.locales or locale is None or locale in config.locales


def _collection_of(article: Mapping[str, Any]) -> str | None:
    """The nearest collection: of `parent_ids` the first, in older versions `parent_id`."""
    parents = article.get("parent_ids")
    if isinstance(parents, list) and parents:
        return str(parents[0])
    parent = article.get("parent_id")
    return str(parent) if parent is not None and article.get("parent_type") in (None, "collection", "section") else None


def _audience(article: Mapping[str, Any]) -> Audience:
    """Newer versions say who may see it; what they say and we don't know is found by nobody."""
    said = article.get("help_center_audience")
    if said is None:
        return PUBLIC
    kind = said.get("type") if isinstance(said, Mapping) else said
    return PUBLIC if str(kind).lower() in _EVERYBODY else Audience(AudienceKind.UNKNOWN)


def _moment(seconds: object) -> datetime | None:
    if not isinstance(seconds, int) or isinstance(seconds, bool) or not 0 < seconds < 32_503_680_000:
        return None
    return datetime.fromtimestamp(seconds, UTC)
