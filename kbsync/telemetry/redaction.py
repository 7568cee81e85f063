"""What must not leave a process in a log line or an error report: credentials, tokens, what an address asks for. Pure.

Callers log ids, not credentials or bodies; this is the net below them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

HIDDEN = "[hidden]"
LONGEST = 10_000
DEEPEST = 6

_NAMES = (
    r"pass(?:word|wd|phrase)?|secret|token|authorization|cookie|api[_-]?key|credentials?|private[_-]?key|dsn|signature"
)
_SECRET_NAME = re.compile(rf"(?:^|[_\-.])(?:[a-z]*(?:{_NAMES}))(?:s|[_-]keys?|[_-]value)?$", re.IGNORECASE)
# Names that end like a secret's and are none.
_HARMLESS_NAMES = frozenset({"token_id", "has_credentials", "credentials_kind"})

_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    # An address keeps its host and path: who logs in there and what is asked is nobody's business.
    (re.compile(r"\b([a-z][a-z0-9+.\-]{1,20}://)[^\s/@'\"<>]*@", re.IGNORECASE), rf"\1{HIDDEN}@"),
    (re.compile(r"\b([a-z][a-z0-9+.\-]{1,20}://[^\s?#'\"<>]*)[?#][^\s'\"<>)\]]*", re.IGNORECASE), rf"\1?{HIDDEN}"),
    (re.compile(r"\b(bearer|basic)\s+[A-Za-z0-9._~+/\-]{8,}=*", re.IGNORECASE), rf"\1 {HIDDEN}"),
    (re.compile(r"\beyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]+(?:\.[A-Za-z0-9_\-]*)?"), HIDDEN),
    (re.compile(r"\b(?:kbs|ntn|secret|gh[opsu]|xox[abeprs]|sk|pk|rk)[_-][A-Za-z0-9_\-]{10,}"), HIDDEN),
    (
        re.compile(rf"\b([a-z_\-]*(?:{_NAMES})[\"']?\s*[=:]\s*)(\"[^\"]*\"|'[^']*'|[^\s,;&)}}\]]+)", re.IGNORECASE),
        rf"\1{HIDDEN}",
    ),
)
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|“[^”]*”|`[^`]*`|\binput_value=.*?(?=, input_type=|\]|$)", re.DOTALL)


def is_secret_name(name: str) -> bool:
    return name not in _HARMLESS_NAMES and _SECRET_NAME.search(name) is not None


def clean_text(text: str, longest: int = LONGEST) -> str:
    """`text` without what looks like a credential, and of an address its scheme, host and path only."""
    text = text[:longest] + "…" if len(text) > longest else text
    for pattern, instead in _PATTERNS:
        text = pattern.sub(instead, text)
    return text


def without_quotations(text: str) -> str:
    """`text` without what it quotes: an error's words of another library repeat what they could not read."""
    return _QUOTED.sub("[…]", text)


def clean(value: object, name: str = "", depth: int = 0) -> object:
    """A log value: hidden when its name says that it is a secret, its texts clean."""
    if name and value is not None and is_secret_name(name):
        return HIDDEN
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, bool | int | float | type(None)):
        return value
    if depth >= DEEPEST:
        return clean_text(str(value), 200)
    if isinstance(value, Mapping):
        return {str(key): clean(one, str(key), depth + 1) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [clean(one, "", depth + 1) for one in value]
    return clean_text(str(value))
