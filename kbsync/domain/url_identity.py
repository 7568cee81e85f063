"""One page, one name: how a link becomes the identity that ledgers know and the spelling that is fetched (LS-16).

Both come from the link as it stands on the page, resolved against the page's base by the WHATWG rules that matter
(trimming, backslashes, dot segments, IDNA hosts). They then part ways:

- the *fetch spelling* is the page's own: order of parameters, trailing slash and percent-encoding stay, characters that
  may not travel in a URL are encoded, the fragment and an empty query are dropped;
- the *identity* is safe to compare: unreserved characters decoded, hex in upper case, tracking parameters and session
  ids dropped, the rest of the query sorted by name (parameters of one name keep their order).

A trailing slash, `index.html`, `www.` and http/https are never merged by rule: only a redirect or a canonical link can.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import unquote

from yarl import URL

from kbsync.domain.requests import MAX_URL_LENGTH

DEFAULT_PORTS = {"http": 80, "https": 443}

_TRIMMED = "".join(map(chr, range(0x21)))
_PARTS = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.\-]*):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?", re.DOTALL)
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_~/-]+(?:\.[A-Za-z0-9_~-]+)?")
_TEMPLATED = re.compile(r"\{\{|\}\}|\$\{|[<{]%(?![0-9A-Fa-f]{2})")  # {%7F is a brace before an escaped character
_ILLEGAL_IN_PATH = re.compile(r"[^\x21\x24-\x3b=\x40-\x5d_a-z|~]")
_ILLEGAL_IN_QUERY = re.compile(r"[^\x21\x24-\x26\x28-\x3b=\x3f-\x7e]")
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})?")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_HOST = re.compile(r"[a-z0-9_](?:[a-z0-9_.-]{0,251}[a-z0-9_])?")
_NUMERIC_LABEL = re.compile(r"[0-9]+|0x[0-9a-f]*")

_TRACKING = frozenset(
    {
        *("gclid", "dclid", "gbraid", "wbraid", "gclsrc", "fbclid", "msclkid", "mc_cid", "mc_eid", "igshid", "yclid"),
        *("ref_src", "twclid", "ttclid", "_ga", "_gl", "_hsenc", "_hsmi", "mkt_tok", "vero_id"),
    }
)
_SESSION = frozenset(["phpsessid", "jsessionid", "cfid", "cftoken", "aspsessionid"])
# `sid` also names sections and shops: only a value that looks like a token is a session.
_SESSION_IF_TOKEN = frozenset(["sid", "sessionid", "session_id", "sessid"])
_TOKEN = re.compile(r"[A-Za-z0-9_-]{16,}")
_SESSION_IN_PATH = re.compile(r";(?:jsessionid|phpsessid|sid)=[^/;?]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Found:
    """A link that can be crawled: ASCII, absolute, http(s), without fragment and credentials, each at most 8,192 long."""

    identity: str
    fetch_url: str


@dataclass(frozen=True, slots=True)
class NotFollowed:
    """A link that can't be crawled, and why."""

    reason: str


TOO_LONG = NotFollowed(f"URL longer than {MAX_URL_LENGTH} characters")
_EMPTY = NotFollowed("empty link")
_TEMPLATE = NotFollowed("template that was never filled in")
_NOT_HTTP = NotFollowed("not http or https")
_CREDENTIALS = NotFollowed("credentials in the URL")
_BAD_HOST = NotFollowed("not a valid host")
_BAD_ADDRESS = NotFollowed("address in an unusual spelling")
_BAD_PORT = NotFollowed("not a valid port")


@dataclass(frozen=True, slots=True)
class _Base:
    scheme: str
    authority: str
    path: str
    query: str | None

    @property
    def folder(self) -> str:
        return self.path[: self.path.rfind("/") + 1] or "/"


def found_url(raw_href: str, base_url: str) -> Found | None:
    """The crawlable target of a link found on the page whose base is `base_url` (absolute http(s)), else None."""
    judged = judge_link(raw_href, base_url)
    return judged if isinstance(judged, Found) else None


def judge_link(raw_href: str, base_url: str) -> Found | NotFollowed:
    """As `found_url`, with the reason when the link can't be followed. A bare fragment or an empty link is not one."""
    reference = raw_href.partition("#")[0].strip(_TRIMMED)
    if not reference:
        return _EMPTY
    if len(reference) + len(base_url) >= 512:  # bounds what the cache can hold
        return _judge(reference, base_url)
    return _judge_cached(reference, _shared_base(reference, base_url))


def is_http_url(url: str) -> bool:
    """Whether `url` is absolute and can be fetched by the rules of this module."""
    return url[:7].lower() == "http://" or url[:8].lower() == "https://"


def _shared_base(reference: str, url: str) -> str:
    """The shortest base under which `reference` resolves the same, so that sibling pages share cache entries."""
    if is_http_url(reference):
        return ""
    if reference[0] == "?" or reference[:4].lower() == "http":
        return url
    end = url.find("?")
    slash = url.rfind("/", 0, end if end >= 0 else None)
    return url[: slash + 1] if slash > 7 else url


@lru_cache(maxsize=16_384)
def _judge_cached(reference: str, base_url: str) -> Found | NotFollowed:
    return _judge(reference, base_url)


def _judge(reference: str, base_url: str) -> Found | NotFollowed:
    base = _base_of(base_url) if base_url else None
    if base is not None and _PLAIN_PATH.fullmatch(reference) and "//" not in reference:
        path = reference if reference[0] == "/" else base.folder + reference
        return _within_length(url := f"{base.scheme}://{base.authority}{path}", url)
    if _TEMPLATED.search(reference):
        return _TEMPLATE
    return _resolve(_cleaned(reference), base)


def _cleaned(reference: str) -> str:
    """Tabs and line ends gone, backslashes before the query turned, as browsers do."""
    reference = reference.replace("\t", "").replace("\n", "").replace("\r", "")
    before, mark, query = reference.partition("?")
    return before.replace("\\", "/") + mark + query


def _resolve(reference: str, base: _Base | None) -> Found | NotFollowed:
    match = _PARTS.match(reference)
    assert match is not None  # every string has a (perhaps empty) path
    scheme, authority, path, query = match[1], match[2], match[3], match[4]
    if scheme is not None:
        scheme = scheme.lower()
        if scheme not in DEFAULT_PORTS:
            return _NOT_HTTP
        if authority is None and (base is None or base.scheme != scheme or path.startswith("/")):
            authority, _, path = path.lstrip("/").partition("/")
            path = "/" + path
    if authority is None:
        return _NOT_HTTP if base is None else _relative_to(base, path, query)
    if not authority:  # "///host": browsers skip the extra slashes
        authority, _, path = path.lstrip("/").partition("/")
        path = "/" + path
    where = _authority(authority, scheme or (base.scheme if base else "http"))
    if isinstance(where, NotFollowed):
        return where
    return _spellings(scheme or (base.scheme if base else "http"), where, path, query)


def _relative_to(base: _Base, path: str, query: str | None) -> Found | NotFollowed:
    if not path:
        return _spellings(base.scheme, base.authority, base.path, query if query is not None else base.query)
    if not path.startswith("/"):
        path = base.folder + path
    return _spellings(base.scheme, base.authority, path, query)


def _spellings(scheme: str, authority: str, path: str, query: str | None) -> Found | NotFollowed:
    if len(path) + len(query or "") > 4 * MAX_URL_LENGTH:
        return TOO_LONG
    path = _encoded(_without_dot_segments(path), _ILLEGAL_IN_PATH)
    fetch = f"{scheme}://{authority}{path}"
    identity = f"{scheme}://{authority}{_comparable(_SESSION_IN_PATH.sub('', path)) or '/'}"
    if query:
        query = _encoded(query, _ILLEGAL_IN_QUERY)
        fetch += f"?{query}"
        kept = _query_identity(query)
        identity += f"?{kept}" if kept else ""
    return _within_length(identity, fetch)


def _within_length(identity: str, fetch_url: str) -> Found | NotFollowed:
    if len(identity) > MAX_URL_LENGTH or len(fetch_url) > MAX_URL_LENGTH:
        return TOO_LONG
    return Found(identity, fetch_url)


def _without_dot_segments(path: str) -> str:
    if "." not in path and "%2" not in path:
        return path or "/"
    kept: list[str] = []
    segments = path.split("/")[1:]
    for position, segment in enumerate(segments):
        plain = segment.replace("%2e", ".").replace("%2E", ".") if "%" in segment else segment
        if plain in (".", ".."):
            if plain == ".." and kept:
                kept.pop()
            if position == len(segments) - 1:
                kept.append("")
        else:
            kept.append(segment)
    return "/" + "/".join(kept)


def _encoded(text: str, illegal: re.Pattern[str]) -> str:
    return illegal.sub(lambda match: _percent(match[0]), text)


def _percent(character: str) -> str:
    # Header values arrive with their raw bytes as lone surrogates; any other surrogate has no UTF-8 form of its own.
    handler = "surrogateescape" if "\udc80" <= character <= "\udcff" else "surrogatepass"
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", handler))


def _comparable(text: str) -> str:
    return _ESCAPE.sub(_escape_identity, text) if "%" in text else text


def _escape_identity(match: re.Match[str]) -> str:
    if match[1] is None:
        return "%25"
    character = chr(int(match[1], 16))
    return character if character in _UNRESERVED else f"%{match[1].upper()}"


def _query_identity(query: str) -> str:
    pairs = [_comparable(pair) for pair in query.split("&") if pair]
    kept = [pair for pair in pairs if not _is_noise(pair)]
    return "&".join(sorted(kept, key=_parameter_name))


def _parameter_name(pair: str) -> str:
    return pair.partition("=")[0]


def _is_noise(pair: str) -> bool:
    name, _, value = pair.partition("=")
    name = name.lower()
    if name.startswith(("utm_", "aspsessionid")) or name in _TRACKING or name in _SESSION:
        return True
    return name in _SESSION_IF_TOKEN and _TOKEN.fullmatch(value) is not None


def _authority(authority: str, scheme: str) -> str | NotFollowed:
    if "@" in authority:
        return _CREDENTIALS
    if authority.startswith("["):
        inner, closed, port_part = authority[1:].partition("]")
        host = _ipv6(inner) if closed else _BAD_ADDRESS
    else:
        name, colon, port = authority.partition(":")
        port_part = colon + port
        host = _host(name)
    if isinstance(host, NotFollowed):
        return host
    if not port_part or port_part == ":":
        return host
    digits = port_part[1:]
    if port_part[0] != ":" or not (digits.isascii() and digits.isdigit() and len(digits) <= 8):
        return _BAD_PORT
    number = int(digits)
    if not 0 < number < 65_536:
        return _BAD_PORT
    return host if number == DEFAULT_PORTS[scheme] else f"{host}:{number}"


def _ipv6(inner: str) -> str | NotFollowed:
    try:
        address = ipaddress.IPv6Address(inner)
    except ValueError:
        return _BAD_ADDRESS
    return _BAD_ADDRESS if address.scope_id else f"[{address.compressed}]"


@lru_cache(maxsize=1_024)
def _host(name: str) -> str | NotFollowed:
    if len(name) > 1_024:
        return _BAD_HOST
    if "%" in name:
        name = unquote(name)
    if not name.isascii():
        try:
            name = URL.build(scheme="http", host=name).raw_host or ""
        except ValueError:
            return _BAD_HOST
    name = name.lower().removesuffix(".")
    if not _HOST.fullmatch(name) or ".." in name or any(len(label) > 63 for label in name.split(".")):
        return _BAD_HOST
    if _NUMERIC_LABEL.fullmatch(name.rpartition(".")[2]):
        return _ipv4(name)
    return name


def _ipv4(name: str) -> str | NotFollowed:
    """Only the dotted form of four decimals: 2130706433, 127.1, 0x7f.1 and 0177.0.0.1 are spellings meant to mislead."""
    try:
        return str(ipaddress.IPv4Address(name))
    except ValueError:
        return _BAD_ADDRESS


@lru_cache(maxsize=4_096)
def _base_of(url: str) -> _Base | None:
    """The parts of an absolute http(s) URL. A URL that can't be one resolves nothing but absolute links."""
    judged = _resolve(_cleaned(url.partition("#")[0].strip(_TRIMMED)), None)
    if isinstance(judged, NotFollowed):
        return None
    scheme, _, rest = judged.fetch_url.partition("://")
    before, mark, query = rest.partition("?")
    authority, _, path = before.partition("/")
    return _Base(scheme, authority, "/" + path, query if mark else None)
