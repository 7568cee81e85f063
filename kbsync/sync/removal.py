"""The end of a listing: remove what may go, hold what may not, and say so on the source (LS-09, LS-12).

A crawl's end and a source sync's end are the same thing: a listing of run `run` that is complete or is not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from kbsync.db.pool import Connection
from kbsync.domain.removal import Remove, decide_removal
from kbsync.library import documents, sections, source_runs, sources
from kbsync.library.sources import SourceRow

TITLES_SHOWN = 20


@dataclass(frozen=True)
class Held:
    """The complete run whose removal is held back, and when it began."""

    run: int
    since: datetime

    @classmethod
    def of(cls, source: SourceRow) -> Held | None:
        held = source.held_removal
        if held is None or not isinstance(held.get("run"), int):
            return None
        return cls(int(str(held["run"])), datetime.fromisoformat(str(held["since"])))


async def apply_approved_removal(connection: Connection, source: SourceRow) -> int:
    """What an operator approved goes, unless a listing has seen it since. Before: the source's row is locked."""
    held = Held.of(source)
    if held is None or source.removal_approved_at is None:
        return 0
    removed = await documents.discard_missing(
        connection, source.organization_id, source.id, held.run, held_run=held.run, held_since=held.since
    )
    await sources.forget_held_removal(connection, source.organization_id, source.id)
    return removed


async def settle_listing(
    connection: Connection,
    source: SourceRow,
    *,
    run: int,
    began_at: datetime,
    incomplete: str | None,
    ask: bool = False,
    reads_later: bool = False,
    notes: Mapping[str, object] | None = None,
) -> dict[str, object]:
    """Before: the source's row is locked and `run` is its newest. After: removals are done, the source is `synced`.

    `incomplete` is why the listing proves nothing, or None when it is complete. With `ask` absence from a complete listing
    is a hint: what would be removed is made due for its own sync, which discards what the provider says is gone. With
    `reads_later` each document that is due is read by a unit of its own. Answers the counts that it stored."""
    organization_id = source.organization_id
    held = Held.of(source)
    held_run, held_since = (held.run, held.since) if held else (None, None)
    counted = await documents.removal_counts(
        connection, organization_id, source.id, run, held_run=held_run, held_since=held_since
    )
    decision = decide_removal(
        complete=incomplete is None,
        kept=counted.kept,
        missing=counted.missing,
        missing_twice=counted.missing_twice,
    )
    settle = documents.ask_for_missing if ask else documents.discard_missing
    settled = 0
    match decision.remove:
        case Remove.EVERYTHING_MISSING:
            settled = await settle(connection, organization_id, source.id, run, held_run=None, held_since=None)
        case Remove.MISSING_TWICE:
            settled = await settle(
                connection, organization_id, source.id, run, held_run=held_run, held_since=held_since
            )
        case Remove.NOTHING:
            pass
    removed = 0 if ask else settled
    waiting: Mapping[str, object] | None = source.held_removal if incomplete is not None else None
    if decision.hold is not None:
        waiting = {
            "count": counted.missing - settled,
            "of": counted.kept,
            "titles": await documents.missing_titles(connection, organization_id, source.id, run, TITLES_SHOWN),
            "since": began_at.isoformat(),
            "run": run,
            "why": decision.hold,
        }
    if incomplete is None and decision.hold is None:
        await sections.discard_unseen(connection, organization_id, source.id, run, only_empty=ask)
    # Documents that went may have been unreadable ones, so they are counted again only when something went.
    after = await documents.removal_counts(connection, organization_id, source.id, run) if removed else counted
    counts: dict[str, object] = {
        "documents": after.kept,
        "unreadable": after.unreadable,
        "removed": removed,
        "held": counted.missing - settled if decision.hold is not None else 0,
        **({"asked_for": settled} if ask else {}),
        **(notes or {}),
    }
    if incomplete is not None:
        counts["incomplete"] = incomplete
        counts["kept_unseen"] = counted.missing
    await sources.finish_run(connection, organization_id, source.id, counts=counts, held_removal=waiting)
    await source_runs.settle(
        connection,
        organization_id,
        source.id,
        listing=run,
        reads_later=reads_later,
        removed=removed,
        reason=f"Not complete: {incomplete}" if incomplete is not None else _held_words(counts, decision.hold),
    )
    return counts


def _held_words(counts: Mapping[str, object], hold: str | None) -> str | None:
    return f"{counts['held']} were not found and are kept for now: {hold}" if hold is not None else None
