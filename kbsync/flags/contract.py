"""One small interface for every flag store (KS-04).

An organization is the only actor; Ruby Flipper spells it `Organization;7`, which is what a Rails model's `flipper_id` is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kbsync.db.pool import Connection


class FlagSnapshot(Protocol):
    """What a store said about one flag at one moment; asking it costs nothing."""

    def is_enabled(self, organization_id: int | None = None) -> bool:
        """On for everybody or for this organization. None asks about everybody only."""
        ...

    @property
    def on_for_all(self) -> bool: ...

    @property
    def organizations(self) -> frozenset[int]:
        """The organizations it is switched on for one by one."""
        ...

    @property
    def other_gates(self) -> tuple[str, ...]:
        """Whatever else may open it (a percentage, an expression, another actor), in words, for people."""
        ...


class Flags(Protocol):
    """Every method raises FlagStoreUnavailable when the store does not answer; none guesses. A flag that nobody made is off.

    `within` is an open transaction that a write joins when the store's tables are in that database; another store ignores
    it and has written when the call returns."""

    async def snapshot(self, name: str) -> FlagSnapshot: ...

    async def is_enabled(self, name: str, organization_id: int | None = None) -> bool: ...

    async def set_boolean(self, name: str, on: bool, *, within: Connection | None = None) -> None:
        """On for everybody, or off altogether: single organizations are taken out too, as Flipper does."""
        ...

    async def set_actor(self, name: str, organization_id: int, on: bool, *, within: Connection | None = None) -> None:
        """On for one organization, or no longer for it alone; off does not exempt it from a flag that is on for all."""
        ...
