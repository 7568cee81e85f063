"""The kill switch: while its flag is on, units of work end as skipped (KS-01 .. KS-06).

Off is the safe state: kbsync owns the pipeline. A flag that can't be read pauses nothing and runs nothing: its asker
delays (KS-05).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime

from kbsync.db.pool import Database
from kbsync.db.statements import Statements
from kbsync.domain.errors import DatabaseUnavailable, FlagStoreUnavailable
from kbsync.flags.contract import Flags, FlagSnapshot

PAUSE_FLAG = "pause_api2_knowledge_base_sync"
AUDIT_TARGET = f"flag:{PAUSE_FLAG}"
PAUSED, RESUMED = "kill_switch.pause", "kill_switch.resume"
MOST_ORGANIZATIONS = 1_000

_sql = Statements.beside(__file__)


@dataclass(frozen=True)
class Pause:
    """Who paused, why and since when; None each when it was done outside kbsync (in a Rails console, say).

    `organization_id` None is everybody."""

    organization_id: int | None
    who: str | None
    why: str | None
    since: datetime | None


@dataclass(frozen=True)
class KillSwitchState:
    """What a person needs to see. `other_gates`: percentages and the like that may pause some units, in words."""

    for_all: Pause | None
    organizations: tuple[Pause, ...]
    other_gates: tuple[str, ...]
    owner: str
    purpose: str
    review_by: date | None
    overdue: bool

    @property
    def on(self) -> bool:
        return self.for_all is not None or bool(self.organizations) or bool(self.other_gates)


class KillSwitch:
    """One for each process. `refresh_s` is how old an answer may be; `clock` counts seconds and never goes back."""

    def __init__(
        self, flags: Flags, database: Database, *, refresh_s: float = 1.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._flags = flags
        self._database = database
        self._refresh_s = refresh_s
        self._clock = clock
        self._snapshot: FlagSnapshot | None = None
        self._read_at = 0.0
        self._refresh: asyncio.Task[FlagSnapshot] | None = None

    async def paused(self, organization_id: int | None) -> bool:
        """Whether a unit of this organization (None: of the whole fleet, such as the tick) must not run.

        At most `refresh_s` stale; however many ask at once, the store is read once. Raises FlagStoreUnavailable."""
        return (await self._fresh()).is_enabled(organization_id)

    async def pause(self, actor: str, reason: str, organization_id: int | None = None) -> None:
        """Switches the flag on, for everybody or for one organization. Safe to repeat; each time is audited."""
        await self._change(True, actor, reason, organization_id)

    async def resume(self, actor: str, reason: str, organization_id: int | None = None) -> None:
        """Switches the flag off: for everybody (single organizations too, as Flipper does), or for one organization, which
        stays paused while everybody is."""
        await self._change(False, actor, reason, organization_id)

    async def describe(self) -> KillSwitchState:
        """Read from the store itself, not from what `is_paused` remembers. Raises FlagStoreUnavailable."""
        snapshot = await self._flags.snapshot(PAUSE_FLAG)
        organizations = sorted(snapshot.organizations)[:MOST_ORGANIZATIONS]
        try:
            async with self._database.fleet() as connection:
                notes = await connection.fetchrow(_sql["notes_of_flag"], PAUSE_FLAG)
                changes = await connection.fetch(_sql["last_changes"], AUDIT_TARGET, organizations)
        except DatabaseUnavailable as error:
            raise FlagStoreUnavailable(f"the flag's notes can't be read ({error})") from error
        by_whom = {
            row["organization_id"]: Pause(row["organization_id"], row["actor"], row["reason"], row["at"])
            for row in changes
            if row["action"] == PAUSED
        }
        return KillSwitchState(
            for_all=by_whom.get(None, Pause(None, None, None, None)) if snapshot.on_for_all else None,
            organizations=tuple(by_whom.get(each, Pause(each, None, None, None)) for each in organizations),
            other_gates=snapshot.other_gates,
            owner=notes["owner"] if notes else "",
            purpose=notes["purpose"] if notes else "",
            review_by=notes["review_by"] if notes else None,
            overdue=bool(notes and notes["overdue"]),
        )

    async def _change(self, on: bool, actor: str, reason: str, organization_id: int | None) -> None:
        try:
            async with self._database.fleet() as connection:
                await connection.execute(_sql["note_change"], PAUSE_FLAG, actor, reason)
                action = PAUSED if on else RESUMED
                await connection.execute(_sql["audit_change"], actor, action, AUDIT_TARGET, organization_id, reason)
                # Last, because a store outside this database has written when the call returns.
                if organization_id is None:
                    await self._flags.set_boolean(PAUSE_FLAG, on, within=connection)
                else:
                    await self._flags.set_actor(PAUSE_FLAG, organization_id, on, within=connection)
        except DatabaseUnavailable as error:
            raise FlagStoreUnavailable(f"the flag was not changed for certain ({error})") from error
        finally:
            self._snapshot = None

    async def _fresh(self) -> FlagSnapshot:
        if self._snapshot is not None and self._clock() - self._read_at < self._refresh_s:
            return self._snapshot
        if self._refresh is None:
            self._refresh = asyncio.create_task(self._read())
            self._refresh.add_done_callback(self._refreshed)
        # Shielded: the others wait for the same answer when one of them is cancelled.
        return await asyncio.shield(self._refresh)

    async def _read(self) -> FlagSnapshot:
        read_at = self._clock()
        snapshot = await self._flags.snapshot(PAUSE_FLAG)
        if self._clock() - read_at > self._refresh_s:
            raise FlagStoreUnavailable(f"the flag store took longer than {self._refresh_s:g} s to answer")
        self._snapshot, self._read_at = snapshot, read_at
        return snapshot

    def _refreshed(self, task: asyncio.Task[FlagSnapshot]) -> None:
        self._refresh = None
        if not task.cancelled():
            task.exception()  # all who asked may be gone: then nobody else looks at it
