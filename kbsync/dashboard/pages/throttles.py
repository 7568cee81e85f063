"""`/throttles`: which windows are full, how many slots are reserved ahead, when each resumes; and the kill switch (RL-07).

A limit is changed for one data source and unit kind, a closure is lifted early; both stand in the audit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kbsync.dashboard.ask import Access, ActionRefused, Ask, Done
from kbsync.dashboard.page import Action, Page
from kbsync.dashboard.pages.kill_switch import switch_context
from kbsync.dashboard.throttle_look import look_at_throttles
from kbsync.dashboard.throttle_rows import KIND_WORDS, Row, lead, limit_words
from kbsync.dashboard.words import duration, moment_text
from kbsync.domain.errors import SettingsError
from kbsync.domain.ids import QueueName
from kbsync.domain.url_scope import host_and_port
from kbsync.library import audit, data_sources, overview
from kbsync.library.quotas import LIMITS_CHANGED, target_of
from kbsync.queue.fleet import unavailable_if_redis_fails
from kbsync.queue.operators import QueueLimits, QueueOperator
from ratelimits.host_views import HostView, read_hosts
from ratelimits.limits import MAX_COUNT, Limit, UnitKind, default_limit, limit_for, parse_overrides
from ratelimits.scope import NO_DATA_SOURCE, DataSourceScope, data_source_of_member

SHOWN = 40
MOST = 500
OWN_SHOWN = 50
HOSTS_LOOKED_AT = 50
MOST_WHY = 200
PERS: Mapping[str, float] = {"second": 1.0, "minute": 60.0, "hour": 3_600.0, "day": 86_400.0}


@dataclass(frozen=True)
class QueueRow:
    name: str
    limits: QueueLimits
    waiting: int
    active: int

    @property
    def limit(self) -> str:
        limit, window_ms = self.limits.limit, self.limits.window_ms
        return limit_words(Limit(limit, window_ms / 1000)) if limit and window_ms else ""


async def throttles(ask: Ask) -> Mapping[str, Any]:
    wanted = ask.query("data_source", 18)
    asked = int(wanted) if wanted.isascii() and wanted.isdigit() else None
    look = await look_at_throttles(ask.services, MOST, with_own=OWN_SHOWN, asked=asked)
    shown = look.rows if ask.query("all") else look.rows[:SHOWN]
    above = {row.key for row in (*shown, *look.asked)}
    own = [row for row in look.own if row.key not in above]
    last = max((row.last_at for row in look.rows if row.last_at), default=None)
    return {
        "rows": shown,
        "rows_many": len(look.rows),
        "asked": look.asked,
        "asked_for": wanted,
        "own": own,
        "with_sheets": _once([*look.asked, *shown, *own]),
        "lead_words": lead(look.rows),
        "last_at": last,
        "limit_words": limit_words,
        "kind_words": KIND_WORDS,
        "per_of": per_of,
        "pers": PERS,
        "hosts": await _hosts(ask),
        "queues": await _queues(ask),
        "most_count": MAX_COUNT,
        **await switch_context(ask),
    }


def per_of(limit: Limit | None) -> str:
    """The form's word for a window, or its seconds where it has none."""
    if limit is None:
        return "minute"
    return next((word for word, seconds in PERS.items() if seconds == limit.window_s), f"{limit.window_s:g}")


def _once(rows: Sequence[Row]) -> list[Row]:
    return list({row.key: row for row in rows}.values())


async def _hosts(ask: Ask) -> Sequence[HostView]:
    """Of the crawls that run, the hosts that were asked lately: whoever is closed first, then who has the most under way."""
    async with ask.services.database.fleet() as connection:
        crawls = await overview.crawls_under_way(connection, HOSTS_LOOKED_AT)
    hosts = sorted({host_and_port(crawl.start_url) for crawl in crawls if crawl.status == "running"})
    redis = ask.services.fleet.client_at(ask.services.settings.redis_url or "")
    views = await read_hosts(redis, hosts)
    return sorted(views, key=lambda view: (view.closed_until is None, -view.under_way, view.host))


async def _queues(ask: Ask) -> list[QueueRow]:
    """The queues that have a limiter of their own, or a bound on what runs at once."""
    rows = []
    for name in QueueName:
        queue = ask.services.fleet.queue(name)
        async with unavailable_if_redis_fails(name):
            limits = await QueueOperator(queue).limits()
            if limits.limit or limits.max_active:
                counts = await queue.counts()
                rows.append(QueueRow(name, limits, counts.waiting, counts.active))
    return rows


async def change_limit(ask: Ask) -> Done:
    """Other limits for one unit kind of a data source: what workers take with the next slot."""
    organization_id, data_source_id = _ids(ask)
    back = f"/throttles?data_source={data_source_id}" if data_source_id is not None else "/throttles"
    kind = _kind(ask, back)
    if data_source_id is None:
        raise ActionRefused("Sources without a connection share the provider’s usual limit; none of their own.", back)
    wanted = None if ask.form.get("limit") == "usual" else _limit(ask, back)
    async with ask.services.database.fleet() as connection:
        known = await data_sources.get(connection, organization_id, data_source_id)
        if known is None:
            raise ActionRefused("This connection is not kept any more.", back)
        before = _known_limit(known, kind)
        limits = {name: value for name, value in known.limits.items() if name != kind.value}
        if wanted is not None:
            limits[kind.value] = {"count": wanted.count, "window_s": wanted.window_s}
        try:
            parse_overrides(limits)
        except SettingsError as error:
            raise ActionRefused(f"Nothing was changed: {error}", back) from error
        await data_sources.set_limits(connection, organization_id, data_source_id, limits)
        await audit.write(
            connection,
            actor=ask.principal.name,
            action=LIMITS_CHANGED,
            target=target_of(data_source_id),
            organization_id=organization_id,
            reason=ask.form.get("why", "").strip()[:MOST_WHY] or None,
            detail={"kind": kind.value, "limits": limits, "before": str(before) if before else None},
        )
    now = wanted or default_limit(known.provider, kind)
    what = f"{known.provider} {KIND_WORDS[kind]}"
    was = f", {limit_words(before)} before" if before and before != now else ""
    return Done(f"The limit of {what} is {limit_words(now)} now{was}. It counts from the next window on.", back)


async def reopen(ask: Ask) -> Done:
    """Lifts a provider's closure before its time. Jobs that were told to come back at its end stay asleep till then."""
    scope = _scope(ask)
    provider = scope.provider
    closed = await ask.services.throttle.closed_until(scope)
    if closed is None:
        raise ActionRefused(f"{provider} was open already: nothing was changed.", "/throttles")
    async with ask.services.database.fleet() as connection:
        await audit.write(
            connection,
            actor=ask.principal.name,
            action="throttle.reopen",
            target=f"provider:{provider}" if scope.data_source_id is None else target_of(scope.data_source_id),
            organization_id=scope.organization_id,
            reason=ask.form.get("why", "").strip()[:MOST_WHY] or None,
            detail={"provider": provider, "closed_until": closed[0].isoformat(), "closed_because": closed[1]},
        )
        # Last, because Redis has done it when the call returns.
        await ask.services.throttle.reopen(scope)
    left = duration((closed[0] - ask.now).total_seconds())
    said = f"{provider} is open again, {left} before {moment_text(closed[0], ask.now)}."
    return Done(f"{said} Jobs that sleep until then can be promoted in their queue.", "/throttles")


def _known_limit(known: data_sources.DataSourceRow, kind: UnitKind) -> Limit | None:
    try:
        return limit_for(known.provider, kind, known.limits)
    except SettingsError:
        return None  # what is stored can't be read; it is replaced


def _scope(ask: Ask) -> DataSourceScope:
    """As the index of closures spells it, which survives whatever a provider is called."""
    try:
        return data_source_of_member(ask.form.get("scope", "")[:1_000])
    except ValueError:
        raise ActionRefused("This form names no connection. Open the page again.", "/throttles") from None


def _ids(ask: Ask) -> tuple[int, int | None]:
    organization, source = ask.form.get("organization", ""), ask.form.get("data_source", "")
    fits = all(text.isascii() and text.isdigit() and len(text) <= 18 for text in (organization, source))
    if not fits and not (source == NO_DATA_SOURCE and organization.isascii() and organization.isdigit()):
        raise ActionRefused("This form names no connection. Open the page again.", "/throttles")
    return int(organization), None if source == NO_DATA_SOURCE else int(source)


def _kind(ask: Ask, back: str) -> UnitKind:
    try:
        return UnitKind(ask.form.get("kind", ""))
    except ValueError:
        raise ActionRefused("This form names no unit of work. Open the page again.", back) from None


def _limit(ask: Ask, back: str) -> Limit:
    """What was typed. `per` is a word, or seconds where the window in force has none."""
    text, per = ask.form.get("count", "").strip(), ask.form.get("per", "")
    try:
        window_s = PERS.get(per) or float(per)
        return Limit(int(text), window_s)
    except (ValueError, OverflowError):
        said = f"A limit is a whole number from 1 to {MAX_COUNT:,} a second, minute, hour or day. Nothing was changed."
        raise ActionRefused(said, back) from None


PAGES = (Page("/throttles", "throttles.html", throttles, Access.LOOK, live=("lead", "windows", "sheets_now", "hosts")),)
ACTIONS = (
    Action("/throttles/limit", change_limit, Access.ACT),
    Action("/throttles/reopen", reopen, Access.ACT),
)
