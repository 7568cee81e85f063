"""Throttles as people read them: windows, closures and limits put into rows. Pure (RL-07).

Notion document sync, Acme: 4/4 used, 37 reserved, resumes 14:03:00
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from kbsync.dashboard.words import count, duration
from kbsync.domain.errors import SettingsError
from kbsync.library.quotas import Quota
from ratelimits.limits import Limit, UnitKind, default_limit, limit_for
from ratelimits.scope import NO_DATA_SOURCE, DataSourceScope, ThrottleScope
from ratelimits.throttle import Closure, WindowView

KIND_WORDS = {UnitKind.SOURCE_SYNC: "source sync", UnitKind.DOCUMENT_SYNC: "document sync"}
PER_WORDS = {1.0: "a second", 60.0: "a minute", 3_600.0: "an hour", 86_400.0: "a day"}
BARS = 11


@dataclass(frozen=True)
class Names:
    """What ids are called. Both may lack an id."""

    organizations: Mapping[int, str]
    quotas: Mapping[int, Quota]

    def organization(self, organization_id: int) -> str:
        return self.organizations.get(organization_id, f"organization {organization_id}")


@dataclass(frozen=True)
class Row:
    """One throttle. `kind` None: a closed data source, whatever the unit. `limit` None: not known (nothing ran lately).

    Reservations fill windows in order, so `here` of them are this window's, `ahead` says how full this one and the next ones
    are (0 to 1), and `last_at` when the window of the last one begins."""

    provider: str
    kind: UnitKind | None
    organization_id: int
    data_source_id: int | None
    name: str
    note: str
    used: int = 0
    reserved: int = 0
    limit: Limit | None = None
    usual: Limit | None = None
    own: bool = False
    changed_by: str | None = None
    changed_at: datetime | None = None
    ends_at: datetime | None = None
    closed_until: datetime | None = None
    reason: str = ""
    here: int = 0
    ahead: tuple[float, ...] = ()
    last_at: datetime | None = None

    @property
    def full(self) -> bool:
        """Whether one that comes now has to wait for a later window."""
        return self.limit is not None and self.used + self.here >= self.limit.count

    @property
    def in_force(self) -> bool:
        return self.closed_until is not None or self.full or self.reserved > 0

    @property
    def resumes_at(self) -> datetime | None:
        return self.closed_until or (self.ends_at if self.in_force else None)

    @property
    def scope(self) -> DataSourceScope:
        return DataSourceScope(self.provider, self.organization_id, self.data_source_id)

    @property
    def key(self) -> str:
        """For ids of the page: letters, digits and dashes, whatever the provider is called."""
        source = NO_DATA_SOURCE if self.data_source_id is None else str(self.data_source_id)
        letters = "".join(c if c.isascii() and c.isalnum() else f"-{ord(c):x}-" for c in self.provider)
        return f"{letters}-{self.kind or 'all'}-{self.organization_id}-{source}".replace("_", "-")


def rows_of(windows: Iterable[WindowView], closures: Iterable[Closure], names: Names) -> list[Row]:
    """One row a scope: closed ones first, then full ones with the longest line ahead, then those with room."""
    by_scope: dict[ThrottleScope, WindowView] = {}
    for view in windows:
        known = by_scope.get(view.scope)
        # After a change of its length a scope has windows of both lengths for a while: the one that counts is shown.
        if known is None or (view.used + view.reserved, view.ends_at) > (known.used + known.reserved, known.ends_at):
            by_scope[view.scope] = view
    rows = [_of_window(view, names) for view in by_scope.values()]
    shown = {view.scope.data_source for view in by_scope.values() if view.closed_until}
    rows += [_of_closure(closure, names) for closure in closures if closure.scope not in shown]
    return sorted(rows, key=_order)


def rows_of_quota(quota: Quota, names: Names, known: Sequence[Row] = ()) -> list[Row]:
    """Both kinds of one data source, whether its windows are used now or not."""
    by_kind = {row.kind: row for row in known if row.data_source_id == quota.id and row.kind is not None}
    scope = DataSourceScope(quota.provider, quota.organization_id, quota.id)
    return [by_kind.get(kind) or _quiet(ThrottleScope(*_parts(scope, kind)), names) for kind in UnitKind]


def limit_words(limit: Limit) -> str:
    """`4 a minute`, `10 in 90 s`."""
    per = PER_WORDS.get(limit.window_s)
    return f"{limit.count:,} {per}" if per else f"{limit.count:,} in {duration(limit.window_s)}"


def lead(rows: Sequence[Row]) -> str:
    """The verdict of the page; where jobs wait, the moment of the last one goes on from it."""
    forced = [row for row in rows if row.in_force]
    if not forced:
        return "None in force: every window that is used has room."
    waiting = sum(row.reserved for row in forced)
    if not waiting:
        return f"{len(forced)} in force, and no job waits for a slot."
    goes = "goes on by itself" if waiting == 1 else "go on by themselves"
    return f"{len(forced)} in force: {count(waiting, 'job waits', 'jobs wait')} for a reserved slot and {goes}"


def _order(row: Row) -> tuple[bool, bool, int, float, str]:
    share = row.used / row.limit.count if row.limit else 0.0
    return (row.closed_until is None, not row.in_force, -row.reserved, -share, row.name)


def _parts(scope: DataSourceScope, kind: UnitKind) -> tuple[str, UnitKind, int, int | None]:
    return scope.provider, kind, scope.organization_id, scope.data_source_id


def _of_window(view: WindowView, names: Names) -> Row:
    row = _quiet(view.scope, names)
    limit = Limit(view.limit, view.window_s) if view.limit else row.limit
    here, ahead, later = _ahead(view.used, view.reserved, limit, closed=view.closed_until is not None)
    start = max(view.ends_at, view.closed_until or view.ends_at)
    last_at = start + timedelta(seconds=view.window_s * (later - 1)) if later else None
    return Row(
        **{
            **vars(row),
            "used": view.used,
            "reserved": view.reserved,
            "limit": limit,
            "ends_at": view.ends_at,
            "closed_until": view.closed_until,
            "reason": view.closed_reason or "",
            "here": here,
            "ahead": ahead,
            "last_at": last_at,
        }
    )


def _ahead(used: int, reserved: int, limit: Limit | None, *, closed: bool) -> tuple[int, tuple[float, ...], int]:
    """How many reservations are this window's, how full this window and the next ones are, and how many later windows the
    others take. While a provider keeps its data source closed, none is this window's."""
    if limit is None or not reserved:
        return 0, (), 0
    here = 0 if closed else max(0, min(limit.count - used, reserved))
    left = reserved - here
    full = [1.0] * min(left // limit.count, BARS)
    rest = [left % limit.count / limit.count] if left % limit.count else []
    return here, tuple([min(1.0, (used + here) / limit.count), *full, *rest][:BARS]), math.ceil(left / limit.count)


def _quiet(scope: ThrottleScope, names: Names) -> Row:
    """A scope of which nothing is used: its names and its limit."""
    quota = names.quotas.get(scope.data_source_id) if scope.data_source_id is not None else None
    usual = default_limit(scope.provider, scope.unit_kind)
    try:
        limit = limit_for(scope.provider, scope.unit_kind, quota.limits if quota else None)
    except SettingsError:
        limit = None  # what is stored is no limit: its jobs fail and say so
    own = bool(quota and scope.unit_kind.value in quota.limits)
    return Row(
        scope.provider,
        scope.unit_kind,
        scope.organization_id,
        scope.data_source_id,
        f"{_capital(scope.provider)} {KIND_WORDS[scope.unit_kind]}, {names.organization(scope.organization_id)}",
        _note(scope.data_source_id, quota),
        limit=limit,
        usual=usual,
        own=own,
        changed_by=quota.changed_by if quota and own else None,
        changed_at=quota.changed_at if quota and own else None,
    )


def _of_closure(closure: Closure, names: Names) -> Row:
    scope = closure.scope
    quota = names.quotas.get(scope.data_source_id) if scope.data_source_id is not None else None
    return Row(
        scope.provider,
        None,
        scope.organization_id,
        scope.data_source_id,
        f"{_capital(scope.provider)}, {names.organization(scope.organization_id)}",
        _note(scope.data_source_id, quota),
        closed_until=closure.until,
        reason=closure.reason,
    )


def _note(data_source_id: int | None, quota: Quota | None) -> str:
    if data_source_id is None:
        return "sources without a connection"
    if quota is None:
        return f"connection {data_source_id}, not kept any more"
    if quota.source:
        return f"source “{quota.source}”"
    return f"connection “{quota.name}”" if quota.name else f"connection {quota.id}"


def _capital(word: str) -> str:
    return word[:1].upper() + word[1:]
