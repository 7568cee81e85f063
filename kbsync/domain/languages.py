"""From a document's language to the text search configuration that Postgres stems it with (LS-21)."""

from __future__ import annotations

SIMPLE = "simple"
ENGLISH = "english"
_ASCII_SHARE = 0.97

_CONFIGURATIONS = {
    "ar": "arabic", "hy": "armenian", "eu": "basque", "ca": "catalan", "da": "danish", "nl": "dutch", "en": ENGLISH,
    "fi": "finnish", "fr": "french", "de": "german", "el": "greek", "hi": "hindi", "hu": "hungarian", "id": "indonesian",
    "ga": "irish", "it": "italian", "lt": "lithuanian", "ne": "nepali", "nb": "norwegian", "nn": "norwegian",
    "no": "norwegian", "pt": "portuguese", "ro": "romanian", "ru": "russian", "sr": "serbian", "es": "spanish",
    "sv": "swedish", "ta": "tamil", "tr": "turkish", "yi": "yiddish",
}  # fmt: skip


def primary_language(tag: str | None) -> str | None:
    """`de` of `de-AT` or `DE_at`; None for no tag or an empty one."""
    return tag.replace("_", "-").split("-")[0].strip().lower() or None if tag else None


def search_configuration(language: str | None, text: str = "") -> str:
    """The configuration for a BCP 47 tag: its language's, `simple` (no stemming) for one that Postgres can't stem.

    Without a tag, text that is nearly all ASCII is taken for English, and any other is left unstemmed: an English stem
    does little harm to what is not English, but much to what is not even Latin."""
    primary = primary_language(language)
    if primary is not None:
        return _CONFIGURATIONS.get(primary, SIMPLE)
    ascii_characters = len(text.encode("ascii", "ignore"))
    return ENGLISH if ascii_characters >= len(text) * _ASCII_SHARE else SIMPLE
