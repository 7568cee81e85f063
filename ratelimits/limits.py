"""How much of a provider's quota a unit may use: the table of page "Provider throttles", and its overrides (RL-07).

`data_sources.limits` overrides the table for one data source, unit kind by unit kind:

    {"document_sync": {"count": 20, "window_s": 60}, "source_sync": {"count": 1, "window_s": 0.5}}

It is read when a unit is about to run, so a change needs no deploy. A kind that is absent keeps the table's limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kbsync.domain.errors import SettingsError

MAX_COUNT = 1_000_000
MIN_WINDOW_S = 0.001
MAX_WINDOW_S = 31 * 24 * 3600.0


class UnitKind(StrEnum):
    SOURCE_SYNC = "source_sync"
    DOCUMENT_SYNC = "document_sync"


@dataclass(frozen=True)
class Limit:
    """At most `count` units in each fixed window of `window_s` seconds."""

    count: int
    window_s: float

    def __post_init__(self) -> None:
        if not 1 <= self.count <= MAX_COUNT:
            raise ValueError(f"count is {self.count}: it must be 1 to {MAX_COUNT}")
        if not MIN_WINDOW_S <= self.window_s <= MAX_WINDOW_S:
            raise ValueError(f"window_s is {self.window_s}: it must be {MIN_WINDOW_S} to {MAX_WINDOW_S:.0f}")

    @property
    def window_ms(self) -> int:
        return round(self.window_s * 1000)

    def __str__(self) -> str:
        return f"{self.count} per {self.window_s:g} s"


_PER_KIND: Mapping[UnitKind, tuple[Mapping[str, Limit], Limit]] = {
    UnitKind.SOURCE_SYNC: ({"notion": Limit(4, 60)}, Limit(20, 1)),
    UnitKind.DOCUMENT_SYNC: ({"notion": Limit(4, 60), "scribe": Limit(50, 60)}, Limit(3_000, 60)),
}


class _Override(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    count: Annotated[int, Field(strict=True, ge=1, le=MAX_COUNT)]
    window_s: Annotated[float, Field(ge=MIN_WINDOW_S, le=MAX_WINDOW_S, allow_inf_nan=False)]


class _Overrides(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    source_sync: _Override | None = None
    document_sync: _Override | None = None


def default_limit(provider: str, unit_kind: UnitKind) -> Limit:
    """The table's limit. Case and surrounding space of the provider's name make no difference."""
    by_provider, any_other = _PER_KIND[unit_kind]
    return by_provider.get(provider.strip().lower(), any_other)


def limit_for(provider: str, unit_kind: UnitKind, overrides: Mapping[str, object] | None = None) -> Limit:
    """The limit of one data source; `overrides` is its `limits` column as an object.

    Raises SettingsError that names the wrong part: a limit that can't be read must not silently become another one."""
    own = getattr(parse_overrides(overrides or {}), unit_kind.value)
    if isinstance(own, _Override):
        return Limit(own.count, own.window_s)
    return default_limit(provider, unit_kind)


def parse_overrides(overrides: Mapping[str, object]) -> _Overrides:
    """Raises SettingsError unless it has the shape that this module's docstring shows."""
    try:
        return _Overrides.model_validate(overrides)
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc'])) or 'limits'}: {fault['msg']}" for fault in error.errors()
        )
        raise SettingsError(
            f'data_sources.limits is wrong ({faults}); it looks like {{"document_sync": {{"count": 20, "window_s": 60}}}}'
        ) from None
