"""A row's two columns of audience as one value (LS-27)."""

from __future__ import annotations

from typing import Any

import asyncpg

from kbsync.domain.audience import Audience, AudienceKind


def with_audience(row: asyncpg.Record) -> dict[str, Any]:
    """The row's values with `audience` as an Audience. A kind of a newer version is one that nobody here knows."""
    values = dict(row)
    kind, groups = values.pop("audience"), tuple(values.pop("audience_groups"))
    known = kind in tuple(AudienceKind)
    return values | {"audience": Audience(AudienceKind(kind), groups) if known else Audience(AudienceKind.UNKNOWN)}
