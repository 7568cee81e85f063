"""The sync of a source that is listed."""

from __future__ import annotations

import pytest

from kbsync.db.pool import Database
from kbsync.domain.errors import ProviderUnreachable
from kbsync.domain.outcomes import Done, RecordMissing
from kbsync.domain.requests import DocumentChunks, SyncDocument, SyncSource
from kbsync.providers.contract import ListedDocument, ListedSection, ListingEnd, UnreadableItem
from kbsync.sync.document import sync_document
from kbsync.sync.source import sync_source
from tests.sync.toy import EARLY, Tenant, ToyListing, follow_ups, make_tenant, text


def sync(tenant: Tenant) -> SyncSource:
    return SyncSource(organization_id=tenant.organization_id, source_id=tenant.source_id)


async def run(tenant: Tenant) -> Done:
    request = sync(tenant)
    outcome = await sync_source(tenant.units, request, tenant.run(request))
    assert isinstance(outcome, Done)
    return outcome


async def test_a_listing_becomes_sections_documents_and_requests(database: Database) -> None:
    toy = ToyListing(
        [
            ListedSection("child", "Child", parent_external_id="root"),  # before its parent
            ListedSection("root", "Root"),
            ListedDocument("a", "A", section_external_ids=("child",), version="1"),
            ListedDocument("b", "B", version="1"),
            UnreadableItem("c", "C", "You have no access to this page."),
        ]
    )
    tenant = await make_tenant(database, toy)
    done = await run(tenant)
    a, b = await tenant.document_id("a"), await tenant.document_id("b")
    asked = await follow_ups(done)
    assert asked == [SyncDocument(organization_id=tenant.organization_id, document_id=row) for row in sorted((a, b))]
    assert await tenant.open_requests() == {f"kb-document-sync-{a}", f"kb-document-sync-{b}"}
    assert await tenant.kept() == ["a", "b", "c"]
    assert toy.closed == 1
    [source] = await tenant.rows("select sync_status, last_synced_at, counts from knowledge_base_sources")
    assert source["sync_status"] == "synced"
    assert source["last_synced_at"] is not None
    assert done.summary["unreadable"] == 1
    [path] = await tenant.rows(
        "select parent.title from knowledge_base_sections child "
        "join knowledge_base_sections parent on parent.id = child.parent_id"
    )
    assert path["title"] == "Root"


@pytest.mark.spec("LS-08")
async def test_a_listing_does_not_move_last_synced_at_and_asks_for_what_changed(database: Database) -> None:
    toy = ToyListing([ListedDocument("a", "A", version="1"), ListedDocument("b", "B", changed_at=EARLY)])
    toy.contents = {"a": text("hello"), "b": text("world")}
    tenant = await make_tenant(database, toy)
    for request in await follow_ups(await run(tenant)):
        assert isinstance(request, SyncDocument)
        await sync_document(tenant.units, request, tenant.run(request))
    await tenant.execute("update knowledge_base_documents set chunks_synced_at = now()")
    before = await tenant.rows("select id, last_synced_at from knowledge_base_documents order by id")
    assert await follow_ups(await run(tenant)) == []
    assert await tenant.rows("select id, last_synced_at from knowledge_base_documents order by id") == before
    toy.parts = [ListedDocument("a", "A", version="2"), ListedDocument("b", "B", changed_at=EARLY)]
    [request] = await follow_ups(await run(tenant))
    assert request == SyncDocument(organization_id=tenant.organization_id, document_id=await tenant.document_id("a"))


@pytest.mark.spec("LS-08")
async def test_a_listing_that_brings_content_asks_for_chunks(database: Database) -> None:
    toy = ToyListing([ListedDocument("a", "A", content=text("hello"))], listing_brings_content=True)
    tenant = await make_tenant(database, toy)
    a = DocumentChunks(organization_id=tenant.organization_id, document_id=1)
    assert await follow_ups(await run(tenant)) == [a]
    await tenant.execute("update knowledge_base_documents set chunks_synced_at = now()")
    assert await follow_ups(await run(tenant)) == []
    toy.parts = [ListedDocument("a", "A", content=text("hello, changed"))]
    assert await follow_ups(await run(tenant)) == [a]
    [row] = await tenant.rows("select content, last_synced_at from knowledge_base_documents")
    assert row == {"content": "hello, changed", "last_synced_at": None}


@pytest.mark.spec("LS-09")
async def test_a_failed_page_removes_nothing_and_says_so(database: Database) -> None:
    toy = ToyListing([ListedDocument(str(n), "T") for n in range(5)])
    tenant = await make_tenant(database, toy)
    await run(tenant)
    toy.parts = [ListedDocument("0", "T"), ProviderUnreachable("page 2 answered 503")]
    with pytest.raises(ProviderUnreachable):
        await run(tenant)
    assert len(await tenant.kept()) == 5
    assert await tenant.value("select sync_status from knowledge_base_sources") == "syncing"


@pytest.mark.spec("LS-09")
async def test_an_incomplete_listing_removes_nothing(database: Database) -> None:
    toy = ToyListing([ListedDocument("a", "A"), ListedDocument("b", "B")])
    tenant = await make_tenant(database, toy)
    await run(tenant)
    toy.parts = [ListedDocument("a", "A"), ListingEnd(False, "the cursor repeated itself")]
    done = await run(tenant)
    assert await tenant.kept() == ["a", "b"]
    assert done.summary["incomplete"] == "the cursor repeated itself"


@pytest.mark.spec("LS-09")
async def test_a_complete_listing_removes_what_is_gone_and_takes_back_what_returns(database: Database) -> None:
    toy = ToyListing([ListedDocument("a", "A"), ListedDocument("b", "B")])
    tenant = await make_tenant(database, toy)
    await run(tenant)
    b = await tenant.document_id("b")
    toy.parts = [ListedDocument("a", "A")]
    assert (await run(tenant)).summary["removed"] == 1
    assert await tenant.kept() == ["a"]
    toy.parts = [ListedDocument("a", "A"), ListedDocument("b", "B again")]
    due = await follow_ups(await run(tenant))
    assert await tenant.document_id("b") == b
    assert SyncDocument(organization_id=tenant.organization_id, document_id=b) in due


@pytest.mark.spec("LS-06")
async def test_another_organizations_source_is_missing(database: Database) -> None:
    toy = ToyListing([ListedDocument("a", "A")])
    ours, theirs = await make_tenant(database, toy), await make_tenant(database, toy)
    request = SyncSource(organization_id=theirs.organization_id, source_id=ours.source_id)
    assert await sync_source(theirs.units, request, theirs.run(request)) == RecordMissing("source")
    assert await ours.value("select count(*) from knowledge_base_documents") == 0
    assert await ours.value("select distinct sync_status from knowledge_base_sources") == "pending"
