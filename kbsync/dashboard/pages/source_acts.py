"""What people do to a source: sync it now, let a held removal happen; audited, and told what came of it (LS-04, LS-09)."""

from __future__ import annotations

from kbsync.dashboard.ask import Access, ActionRefused, Ask, Done, NotHere
from kbsync.dashboard.knowledge import organization_of
from kbsync.dashboard.page import Action
from kbsync.dashboard.words import count
from kbsync.domain.errors import ServerUnavailable
from kbsync.domain.requests import Priority, SyncSource
from kbsync.library import audit, owners, source_setup, sources
from kbsync.queue.jobs import Enqueued, EnqueueOutcome
from kbsync.recovery.promises import accept_units

SYNCED, APPROVED = "source.sync", "source.approve_removal"
MISSING = "There is no such source, or it is another organization’s. Nothing was done."
_SAID = {
    EnqueueOutcome.CREATED: "Its sync is in line, before everything that no person waits for.",
    EnqueueOutcome.REPLACED: "Its sync is in line again, before everything that no person waits for.",
    EnqueueOutcome.ALREADY_QUEUED: "Its sync was in line already and goes on as it was.",
}


async def sync_now(ask: Ask) -> Done:
    """After: the sync is owed and queued; one that runs now runs once more."""
    source_id, organization_id = await source_of(ask)
    async with ask.services.database.organization(organization_id) as connection:
        schedule = await source_setup.schedule(connection, organization_id, source_id)
    if schedule is not None and schedule.disabled_at is not None:
        raise ActionRefused("It is disabled: enable it first. Nothing was done.", f"/sources/{source_id}")
    (answer,) = await _ask_for_sync(ask, organization_id, source_id)
    async with ask.services.database.organization(organization_id) as connection:
        await audit.write(
            connection,
            actor=ask.principal.name,
            action=SYNCED,
            target=f"source:{source_id}",
            organization_id=organization_id,
            detail={"job_id": answer.job_id, "outcome": str(answer.outcome)},
        )
    return Done(_said(answer), f"/sources/{source_id}")


async def approve_removal(ask: Ask) -> Done:
    """After: what was held, exactly as the page showed it, goes with the next run, which is asked for. Another removal than
    the one that was looked at is not approved."""
    source_id, organization_id = await source_of(ask)
    back = f"/sources/{source_id}"
    async with ask.services.database.organization(organization_id) as connection:
        row = await sources.lock(connection, organization_id, source_id)
        if row is None:
            raise NotHere(MISSING)
        held = row.held_removal
        if held is None:
            raise ActionRefused("No removal waits any more: a sync has decided it. Nothing was done.", back)
        if ask.form.get("run") != str(held.get("run")) or ask.form.get("count") != str(held.get("count")):
            raise ActionRefused("What waits has changed since you looked. Look again; nothing was done.", back)
        if row.removal_approved_at is not None:
            raise ActionRefused("This removal is approved already, and goes with the next sync.", back)
        await sources.approve_removal(connection, organization_id, source_id)
        await audit.write(
            connection,
            actor=ask.principal.name,
            action=APPROVED,
            target=f"source:{source_id}",
            organization_id=organization_id,
            reason=ask.form.get("why", "").strip()[:200] or None,
            detail={"count": held.get("count"), "run": held.get("run")},
        )
    many = held.get("count")
    said = f"The removal of {count(many, 'document') if isinstance(many, int) else 'these documents'} is approved."
    try:
        (answer,) = await _ask_for_sync(ask, organization_id, source_id)
    except ServerUnavailable:
        return Done(f"{said} The sync could not be asked for now, so it goes with the next one.", back)
    return Done(f"{said} {_said(answer)}", back)


async def source_of(ask: Ask) -> tuple[int, int]:
    """The source that the person may act on, and its organization. Raises NotHere for every other one."""
    source_id = ask.number("id")
    organization_id = await organization_of(ask, owners.owner_of_source, source_id, MISSING)
    async with ask.services.database.organization(organization_id) as connection:
        if await sources.get(connection, organization_id, source_id) is None:
            raise NotHere(MISSING)
    return source_id, organization_id


async def _ask_for_sync(ask: Ask, organization_id: int, source_id: int) -> list[Enqueued]:
    request = SyncSource(organization_id=organization_id, source_id=source_id)
    return await accept_units(
        ask.services.database, ask.services.enqueuer, [request], priority=Priority.URGENT, rerun_if_active=True
    )


def _said(answer: Enqueued) -> str:
    if answer.rerun:
        return "Its sync runs already, and runs once more when that has ended."
    return _SAID.get(answer.outcome, f"Its sync: {answer.outcome}.")


ACTIONS = (
    Action("/sources/{id}/sync", sync_now, Access.ACT_ON_KNOWLEDGE),
    Action("/sources/{id}/approve-removal", approve_removal, Access.ACT_ON_KNOWLEDGE),
)
