"""A source goes with everything it holds: in bounded batches, and on from where it stopped when asked again (LS-26)."""

from __future__ import annotations

from collections.abc import Callable

from kbsync.db.errors import StillReferenced, retry_on_conflict
from kbsync.db.pool import Database
from kbsync.domain.errors import KbsyncError
from kbsync.library import audit, source_setup
from kbsync.library.source_setup import Holdings

BATCH = 200  # documents; each may have a hundred chunks
TRIES = 20  # of the last step, while a unit that still runs writes documents


class StillWrittenTo(KbsyncError):
    """A unit that began before keeps writing. What it wrote goes when the removal is asked for again."""


async def remove_source(
    database: Database,
    organization_id: int,
    source_id: int,
    *,
    actor: str,
    progress: Callable[[int], None] | None = None,
) -> Holdings | None:
    """After: neither the source nor anything of it is there. Answers what went; None when there was no such source. Raises
    StillWrittenTo."""
    async with database.organization(organization_id) as connection:
        if not await source_setup.is_there(connection, organization_id, source_id):
            return None
        await source_setup.discard(connection, organization_id, source_id)
        held = await source_setup.holdings(connection, organization_id, source_id)
        await audit.write(
            connection,
            actor=actor,
            action="source.remove",
            target=f"source:{source_id}",
            organization_id=organization_id,
            detail={
                "documents": held.documents,
                "chunks": held.chunks,
                "sections": held.sections,
                "crawls": held.crawls,
            },
        )
    done = 0
    for _ in range(TRIES):
        while gone := await retry_on_conflict(lambda: _some(database, organization_id, source_id)):
            done += gone
            if progress is not None:
                progress(done)
        if await _last(database, organization_id, source_id):
            return held
    raise StillWrittenTo(f"source {source_id} is still written to by a unit that runs: ask again in a moment")


async def _some(database: Database, organization_id: int, source_id: int) -> int:
    async with database.organization(organization_id) as connection:
        return await source_setup.remove_some(connection, organization_id, source_id, BATCH)


async def _last(database: Database, organization_id: int, source_id: int) -> bool:
    try:
        async with database.organization(organization_id) as connection:
            return await source_setup.remove_last(connection, organization_id, source_id)
    except StillReferenced:
        return False
