"""What a throttle counts for, and the one place that spells its Redis keys (RL-01).

The layout is stable over releases: a fleet in which two releases run side by side shares its windows.

    kbsync:throttle:<provider>:<unit kind>:<organization>:<data source>:<window ms>:<window number>
        hash, one fixed window. n slots given (gone and reserved), u gone, l the limit last used.
        The window number is floor(Redis time in ms / window ms).
    kbsync:throttle:<provider>:<unit kind>:<organization>:<data source>:<window ms>:frontier
        string "<window number> <limit> <closed until ms>": no window before it has room for a new reservation.
    kbsync:throttle:<provider>:<unit kind>:<organization>:<data source>:<window ms>:job:<job id>
        string "<window number> <due ms>": the slot that is reserved for a job which was told to come back.
    kbsync:closed:<provider>:<organization>:<data source>
        string "<until ms> <reason>": the provider asked for a wait; every unit kind of the data source is closed (RL-05).
    kbsync:throttles
        zset, at most 10,000 scopes seen lately ("<provider>:<unit kind>:<organization>:<data source>:<window ms>") by the
        end of their last window in ms: what the dashboard lists.
    kbsync:closures
        zset, at most 10,000 data sources ("<provider>:<organization>:<data source>") by the end of their closure in ms.
    kbsync:waits:<job id>
        hash: n provider waits in a row, first ms of the first one (RL-05's bound).
    kbsync:host:<host>
        hash of a website's host: pace in microseconds of Redis time, hold, closed until (see `host.py`); with
        kbsync:host:<host>:slots (zset of tokens by lease end) and kbsync:host:<host>:job:<job id> (a reserved time).

Every key but the two indexes expires by itself, and those are trimmed at each use. A part that holds anything but letters,
digits, `_`, `-` and `.` is percent-encoded, so no name can reach into another scope.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote, unquote

from ratelimits.limits import UnitKind

INDEX_KEY = "kbsync:throttles"
CLOSURES_KEY = "kbsync:closures"
NO_DATA_SOURCE = "none"


def _part(text: str) -> str:
    # surrogatepass: a lone surrogate is odd, but it must not stop a worker.
    return quote(text.encode("utf-8", "surrogatepass"), safe="")


def _data_source(data_source_id: int | None) -> str:
    return NO_DATA_SOURCE if data_source_id is None else str(data_source_id)


def _data_source_id(text: str) -> int | None:
    return None if text == NO_DATA_SOURCE else int(text)


@dataclass(frozen=True)
class DataSourceScope:
    """A provider's connection of one organization: what a stated wait closes. None: a source without a data source."""

    provider: str
    organization_id: int
    data_source_id: int | None

    @property
    def member(self) -> str:
        """As the index of closures holds it; `data_source_of_member` reads it back."""
        return f"{_part(self.provider)}:{self.organization_id}:{_data_source(self.data_source_id)}"

    @property
    def closed_key(self) -> str:
        return f"kbsync:closed:{self.member}"


@dataclass(frozen=True)
class ThrottleScope:
    """Provider + unit kind + organization + data source, exactly: two of them share a window only if all four agree."""

    provider: str
    unit_kind: UnitKind
    organization_id: int
    data_source_id: int | None

    @property
    def data_source(self) -> DataSourceScope:
        return DataSourceScope(self.provider, self.organization_id, self.data_source_id)

    def member(self, window_ms: int) -> str:
        """The scope with its window length, as the index holds it; `scope_of_member` reads it back."""
        data_source = _data_source(self.data_source_id)
        return f"{_part(self.provider)}:{self.unit_kind}:{self.organization_id}:{data_source}:{window_ms}"

    def key(self, window_ms: int) -> str:
        """The prefix of every key of this scope."""
        return f"kbsync:throttle:{self.member(window_ms)}"


def scope_of_member(member: str) -> tuple[ThrottleScope, int]:
    """The scope and its window length in ms."""
    provider, kind, organization, data_source, window_ms = member.split(":")
    scope = ThrottleScope(unquote(provider), UnitKind(kind), int(organization), _data_source_id(data_source))
    return scope, int(window_ms)


def data_source_of_member(member: str) -> DataSourceScope:
    provider, organization, data_source = member.split(":")
    return DataSourceScope(unquote(provider), int(organization), _data_source_id(data_source))


@dataclass(frozen=True)
class HostScope:
    """A website's host, whoever crawls it: politeness is owed to the host by the whole fleet. Case makes no difference."""

    host: str

    @property
    def key(self) -> str:
        return f"kbsync:host:{_part(self.host.lower().rstrip('.'))}"
