"""Flags in this process's memory, for tests and for a fleet that has no flag store."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kbsync.domain.errors import FlagStoreUnavailable
from kbsync.flags.flipper_gates import FlipperGates, actor_of

if TYPE_CHECKING:
    from kbsync.db.pool import Connection


class MemoryFlags:
    """A `Flags` store. `reachable = False` makes every call raise FlagStoreUnavailable; `reads` counts snapshots."""

    def __init__(self) -> None:
        self.reachable = True
        self.reads = 0
        self._flags: dict[str, FlipperGates] = {}

    async def snapshot(self, name: str) -> FlipperGates:
        self.reads += 1
        return self._flag(name)

    async def is_enabled(self, name: str, organization_id: int | None = None) -> bool:
        return (await self.snapshot(name)).is_enabled(organization_id)

    async def set_boolean(self, name: str, on: bool, *, within: Connection | None = None) -> None:
        self._flag(name)
        self._flags[name] = FlipperGates(name, boolean=on)

    async def set_actor(self, name: str, organization_id: int, on: bool, *, within: Connection | None = None) -> None:
        flag = self._flag(name)
        actor = {actor_of(organization_id)}
        self._flags[name] = replace(flag, actors=flag.actors | actor if on else flag.actors - actor)

    def _flag(self, name: str) -> FlipperGates:
        if not self.reachable:
            raise FlagStoreUnavailable("the flag store does not answer (memory)")
        return self._flags.get(name, FlipperGates(name))
