"""The kill switch over a queue full of work (KS-02, KS-03)."""

from __future__ import annotations

import pytest

from kbsync.domain.ids import QueueName
from kbsync.domain.requests import SyncDocument, SyncSource
from kbsync.domain.states import JobState
from kbsync.providers.contract import Content, DocumentRef, ListedDocument, Provider, SourceSetup
from kbsync.recovery.reconciler import Reconciler
from kbsync.settings import Settings
from tests.acceptance.deployment import deployed, until
from tests.sync.toy import ToyListing

DOCUMENTS = 500


@pytest.mark.spec("KS-01", "KS-02", "KS-03")
async def test_500_waiting_units_are_skipped_while_it_is_on_and_done_after_a_redrive(settings: Settings) -> None:
    asked: list[str] = []

    async def note(ref: DocumentRef) -> None:
        asked.append(ref.external_id)

    ids = [f"doc-{number:03}" for number in range(DOCUMENTS)]
    provider = ToyListing(
        parts=[ListedDocument(one, title=one) for one in ids],
        contents={one: Content(f"Text of {one}.", title=one) for one in ids},
        on_fetch=note,
    )

    def build(source_type: str, setup: SourceSetup) -> Provider:
        return provider

    async with deployed(settings, build_provider=build, start=False) as idle:
        organization = await idle.organization()
        source = await idle.source(organization, "files", {})
        async with idle.runtime.database.organization(organization) as connection:
            rows = await connection.fetch(
                "insert into knowledge_base_documents (organization_id, source_id, source_type, external_id, external_key)"
                " select $1, $2, 'files', id, encode(sha256(id::bytea), 'hex') from unnest($3::text[]) id returning id",
                organization,
                source,
                ids,
            )
        requests = [SyncDocument(organization_id=organization, document_id=row["id"]) for row in rows]
        await idle.ask(*requests)
        await idle.runtime.kill_switch.pause("a person", "provider outage")

    async with deployed(settings, build_provider=build) as fleet:
        queue = fleet.runtime.fleet.queue(QueueName.SYNC)

        async def all_skipped() -> bool:
            return (await queue.counts()).skipped == DOCUMENTS

        await until(all_skipped, "500 skipped jobs")
        page = await queue.page(JobState.SKIPPED, limit=1)
        detail = await queue.detail(page.jobs[0].job_id)
        assert detail is not None
        assert detail.result == {"status": "skipped", "reason": "paused"}
        assert asked == []
        assert (
            await fleet.fetchval("select count(*) from knowledge_base_documents where last_synced_at is not null") == 0
        )

        await fleet.runtime.kill_switch.resume("a person", "over")
        assert asked == []
        done = await Reconciler(fleet.runtime.database, fleet.runtime.fleet, fleet.runtime.kill_switch).redrive()
        assert done.requeued == DOCUMENTS

        async def all_synced() -> bool:
            count = "select count(*) from knowledge_base_documents where chunks_synced_at is not null"
            return await fleet.fetchval(count) == DOCUMENTS

        await until(all_synced, "500 documents after the redrive")
    assert sorted(asked) == ids


@pytest.mark.spec("KS-06")
async def test_one_organization_is_paused_and_another_goes_on(settings: Settings) -> None:
    provider = ToyListing(parts=[], contents={})

    def build(source_type: str, setup: SourceSetup) -> Provider:
        return provider

    async with deployed(settings, build_provider=build, start=False) as idle:
        paused, free = await idle.organization("Paused"), await idle.organization("Free")
        sources = {org: await idle.source(org, "files", {}) for org in (paused, free)}
        await idle.ask(*(SyncSource(organization_id=org, source_id=source) for org, source in sources.items()))
        await idle.runtime.kill_switch.pause("a person", "only them", paused)
        entry = await idle.fetchval("select actor || ': ' || reason from kbsync.audit_entries order by id desc limit 1")
        assert entry == "a person: only them"
    async with deployed(settings, build_provider=build) as fleet:
        queue = fleet.runtime.fleet.queue(QueueName.SYNC)

        async def both_ended() -> bool:
            counts = await queue.counts()
            return (counts.skipped, counts.completed) == (1, 1)

        await until(both_ended, "one skipped, one completed")
        status = "select sync_status from knowledge_base_sources where id = $1"
        assert await fleet.fetchval(status, sources[paused]) == "pending"
        assert await fleet.fetchval(status, sources[free]) == "synced"
