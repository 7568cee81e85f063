"""Reads the throttles that are used now, and the names of whose they are: a bounded number of commands and statements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kbsync.dashboard.services import DashboardServices
from kbsync.dashboard.throttle_rows import Names, Row, rows_of, rows_of_quota
from kbsync.library import organizations, quotas
from ratelimits.throttle import Closure, WindowView


@dataclass(frozen=True)
class ThrottleLook:
    """`own`: data sources with limits of their own; `asked`: the one that was asked for by id."""

    rows: Sequence[Row]
    own: Sequence[Row] = ()
    asked: Sequence[Row] = ()


async def look_at_throttles(
    services: DashboardServices, most: int, *, with_own: int = 0, asked: int | None = None
) -> ThrottleLook:
    """Two round trips to Redis and two or three statements, however many jobs wait. Raises ServerUnavailable."""
    windows = await services.throttle.windows(most)
    closures = await services.throttle.closures(most)
    async with services.database.fleet() as connection:
        own = await quotas.with_limits(connection, with_own) if with_own else []
        ids = {*own, *_data_sources(windows, closures), *([asked] if asked is not None else [])}
        by_id = await quotas.of_data_sources(connection, sorted(ids)) if ids else {}
        tenants = {view.scope.organization_id for view in windows}
        tenants |= {closure.scope.organization_id for closure in closures}
        tenants |= {quota.organization_id for quota in by_id.values()}
        names = Names(await organizations.names_of(connection, sorted(tenants)), by_id)
    rows = rows_of(windows, closures, names)
    return ThrottleLook(
        rows,
        own=[row for id in own if id in by_id for row in rows_of_quota(by_id[id], names, rows) if row.own],
        asked=rows_of_quota(by_id[asked], names, rows) if asked is not None and asked in by_id else (),
    )


def _data_sources(windows: Sequence[WindowView], closures: Sequence[Closure]) -> set[int]:
    found = {view.scope.data_source_id for view in windows} | {one.scope.data_source_id for one in closures}
    return {one for one in found if one is not None}
