"""What a run leaves as it was, and what it must touch although its text is the same."""

from __future__ import annotations

import pytest

from kbsync.db.pool import Database
from kbsync.domain.requests import DocumentChunks, LibraryRequest, SyncSource
from kbsync.providers.contract import ListedDocument, ListedSection, PageRefused
from kbsync.settings import Settings
from kbsync.sync.perform import perform as perform_unit
from tests.acceptance.deployment import deployed, until
from tests.providers.fake_scribe import FakeScribe, ScribeAccount
from tests.providers.syncs import add_source, settled, with_keys
from tests.sync.test_refused_credentials import all_ended
from tests.sync.toy import Tenant, ToyListing, ToySite, follow_ups, make_tenant, page, text

HOME, A = "https://toy.test/", "https://toy.test/a"


async def listed(tenant: Tenant) -> None:
    request = SyncSource(organization_id=tenant.organization_id, source_id=tenant.source_id)
    await perform_unit(tenant.units, request, tenant.run(request))


async def chunked(tenant: Tenant, external_id: str) -> None:
    request = DocumentChunks(organization_id=tenant.organization_id, document_id=await tenant.document_id(external_id))
    await perform_unit(tenant.units, request, tenant.run(request))


@pytest.mark.spec("LS-11", "LS-20")
async def test_documents_below_a_section_with_another_title_are_due_for_chunks(database: Database) -> None:
    sections = [ListedSection("root", "Root"), ListedSection("child", "Child", parent_external_id="root")]
    documents = [
        ListedDocument("a", "A", section_external_ids=("child",), content=text("hello")),
        ListedDocument("b", "B", content=text("world")),
    ]
    toy = ToyListing([*sections, *documents], listing_brings_content=True)
    tenant = await make_tenant(database, toy)
    await listed(tenant)
    await chunked(tenant, "a")
    await chunked(tenant, "b")
    await listed(tenant)
    due = "select external_id from knowledge_base_documents where chunks_synced_at is null order by external_id"
    assert await tenant.rows(due) == [], "the same listing changes nothing"
    toy.parts = [ListedSection("root", "Trunk"), sections[1], *documents]
    await listed(tenant)
    assert [row["external_id"] for row in await tenant.rows(due)] == ["a"]
    await chunked(tenant, "a")
    [row] = await tenant.rows(
        "select heading_path from document_chunks where source_id = (select id from knowledge_base_documents"
        " where external_id = 'a')"
    )
    assert row["heading_path"] == ["Trunk", "Child"]


async def crawled(tenant: Tenant) -> None:
    """To the end, in the order of the requests."""
    waiting: list[LibraryRequest] = [SyncSource(organization_id=tenant.organization_id, source_id=tenant.source_id)]
    while waiting:
        request = waiting.pop(0)
        outcome = await perform_unit(tenant.units, request, tenant.run(request))
        waiting += [one for one in await follow_ups(outcome) if not isinstance(one, DocumentChunks)]


@pytest.mark.spec("LS-09", "LS-12")
async def test_a_crawl_that_saw_nothing_leaves_the_time_of_the_last_sync(database: Database) -> None:
    site = ToySite({HOME: page(HOME, "home", A), A: page(A, "a")})
    tenant = await make_tenant(database, site)
    await crawled(tenant)
    query = "select sync_status, last_synced_at, sync_error from knowledge_base_sources"
    [before] = await tenant.rows(query)
    assert before["sync_status"] == "synced"
    site.pages[HOME] = PageRefused("no access (answered 403)")
    await crawled(tenant)
    [after] = await tenant.rows(query)
    assert after["sync_status"] == "failed"
    assert "403" in str(after["sync_error"])
    assert after["last_synced_at"] == before["last_synced_at"]


@pytest.mark.spec("LS-08", "LS-20")
async def test_a_document_that_moves_has_its_chunks_cut_again_by_the_very_run(settings: Settings) -> None:
    """Where each document is read by itself: its text is the same, so that only the listing knows."""
    async with FakeScribe().served() as fake, deployed(with_keys(settings, sync_concurrency=8)) as fleet:
        account = ScribeAccount(fake)
        ids = account.fill(6)
        organization = await fleet.organization()
        source = await add_source(fleet, account, organization)
        sync = SyncSource(organization_id=organization, source_id=source)
        await fleet.ask(sync)
        await until(lambda: settled(fleet, source), "the first sync")
        read = fake.asked_for(account.is_fetch)
        fake.documents[ids[0]]["team"] = {"id": ids[5], "name": "Moved to"}
        await fleet.ask(sync)
        await until(lambda: all_ended(fleet), "the second sync")
        await until(lambda: settled(fleet, source), "its chunks")
        paths = await fleet.fetchval(
            "select array_agg(heading_path::text) from document_chunks where source_id = "
            "(select id from knowledge_base_documents where external_id = $1)",
            ids[0],
        )
        assert isinstance(paths, list)
        assert all("Moved to" in path for path in paths)
        assert fake.asked_for(account.is_fetch) == read
