"""Which URLs belong to a crawl, and which are a trap (LS-16). Everything here looks at identities (`url_identity`)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from kbsync.domain.url_identity import Found, NotFollowed, found_url, judge_link

__all__ = ["Found", "NotFollowed", "Scope", "TrapGuard", "found_url", "judge_link", "path_of", "pattern_of"]

_DIGITS = re.compile(r"[0-9]+")
_SLASHES = re.compile(r"/{2,}")
_OPAQUE = re.compile(r"(?=[^/]*[0-9])[0-9A-Fa-f-]{12,}")
_DATE = re.compile(r"(?<![0-9])(?:19|20|21)[0-9]{2}[-/](?:0?[1-9]|1[0-2])(?![0-9])")
_CALENDAR_PARAMETERS = frozenset(["month", "year", "date", "day", "week", "cal", "calendar", "ical", "tribe-bar-date"])


def host_and_port(url: str) -> str:
    """The authority of an identity: `host`, or `host:port` where the port is not the scheme's own."""
    return url.partition("://")[2].partition("/")[0].partition("?")[0]


def path_of(url: str) -> str:
    """The path of an identity, without its query."""
    return "/" + url.partition("://")[2].partition("?")[0].partition("/")[2]


@dataclass(frozen=True)
class Scope:
    """Listed hosts and path prefixes. A host is matched whole (`example.com.evil.test` and subdomains are outside; http
    and https are both inside), a prefix on a segment boundary (`/fr` holds `/fr` and `/fr/x`, not `/france`).
    Excludes win over includes; no include means every path."""

    hosts: frozenset[str]
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    @classmethod
    def of(cls, hosts: Iterable[str], include: Iterable[str] = (), exclude: Iterable[str] = ()) -> Scope:
        """`hosts` as `host` or `host:port`, prefixes with or without slashes. Raises ValueError for what is no host."""
        return cls(
            frozenset(_as_authority(host) for host in hosts),
            tuple(_as_prefix(prefix) for prefix in include),
            tuple(_as_prefix(prefix) for prefix in exclude),
        )

    def contains(self, url: str) -> bool:
        return self.holds_host(url) and self.holds_path(url)

    def holds_host(self, url: str) -> bool:
        return host_and_port(url) in self.hosts

    def holds_path(self, url: str) -> bool:
        if not self.include and not self.exclude:
            return True
        # Servers commonly read `//` as `/`; a doubled slash must not slip past an excluded prefix.
        path = _SLASHES.sub("/", path_of(url))
        if any(_is_below(path, prefix) for prefix in self.exclude):
            return False
        return not self.include or any(_is_below(path, prefix) for prefix in self.include)


def _is_below(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(prefix if prefix == "/" else prefix + "/")


def _as_authority(host: str) -> str:
    text = host if "://" in host else f"http://{host}"
    found = found_url(text, "")
    if found is None:
        raise ValueError(f"not a host: {host!r}")
    return host_and_port(found.identity)


def _as_prefix(prefix: str) -> str:
    found = found_url("/" + prefix.strip().strip("/"), "http://host/")
    if found is None:
        raise ValueError(f"not a path prefix: {prefix!r}")
    return path_of(found.identity).rstrip("/") or "/"


@dataclass(frozen=True)
class TrapGuard:
    """Signs, in a URL alone, of a space without end (field case D09). State across pages is the ledger's: it bounds how
    many URLs share a `pattern_of`."""

    max_segments: int = 40
    max_repeats: int = 3
    max_cycle: int = 4
    max_parameters: int = 12

    def reason(self, url: str) -> str | None:
        """Why `url` (an identity) is taken for a trap, or None."""
        segments = [segment for segment in path_of(url).split("/") if segment]
        if len(segments) > self.max_segments:
            return f"path deeper than {self.max_segments} segments"
        if self._repeats(segments):
            return f"path repeats itself {self.max_repeats} times"
        query = url.partition("?")[2]
        return self._query_reason(query.split("&")) if query else None

    def _repeats(self, segments: list[str]) -> bool:
        if len(segments) - len(set(segments)) < self.max_repeats - 1:
            return False
        for size in range(1, self.max_cycle + 1):
            span = size * self.max_repeats
            for start in range(len(segments) - span + 1):
                if segments[start : start + span] == segments[start : start + size] * self.max_repeats:
                    return True
        return False

    def _query_reason(self, pairs: list[str]) -> str | None:
        if len(pairs) > self.max_parameters:
            return f"more than {self.max_parameters} query parameters"
        if len(pairs) >= self.max_repeats and max(Counter(pairs).values()) >= self.max_repeats:
            return f"a query parameter repeats {self.max_repeats} times"
        return None


def pattern_of(url: str) -> str:
    """The shape that URLs of one generator share: digits become N, long hex ids become H, of the query only the names
    stay. `/cal/2024-05?m=3` and `/cal/1999-12?m=4` are both `/cal/N-N?m`, on their host."""
    path = "/".join("H" if _OPAQUE.fullmatch(part) else _DIGITS.sub("N", part) for part in path_of(url).split("/"))
    query = url.partition("?")[2]
    names = (
        "&".join(dict.fromkeys(_DIGITS.sub("N", pair.partition("=")[0]) for pair in query.split("&"))) if query else ""
    )
    return f"{host_and_port(url)}{path}" + (f"?{names}" if names else "")


def pattern_bound(url: str, max_urls_per_pattern: int) -> int:
    """How many URLs of `url`'s pattern a crawl takes: a tenth of the usual for calendars, which never end."""
    query = url.partition("?")[2]
    names = {pair.partition("=")[0].lower() for pair in query.split("&")}
    is_calendar = bool(names & _CALENDAR_PARAMETERS) or (bool(query) and _DATE.search(query) is not None)
    return max(1, max_urls_per_pattern // 10) if is_calendar else max_urls_per_pattern
