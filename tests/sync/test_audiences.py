"""For whom a document is, as listings and document syncs store it: at once, and without a new chunk (LS-27)."""

from __future__ import annotations

import pytest

from kbsync.db.pool import Database
from kbsync.domain.audience import MEMBER, PUBLIC, Asker, Audience, AudienceKind
from kbsync.domain.errors import ItemUnreadable
from kbsync.domain.outcomes import Done
from kbsync.domain.requests import DocumentChunks, SyncDocument, SyncSource
from kbsync.library.search import search
from kbsync.providers.contract import Content, DocumentRef, ListedDocument, UnreadableItem
from kbsync.sync.chunks import document_chunks
from kbsync.sync.document import sync_document
from kbsync.sync.source import sync_source
from tests.sync.toy import Tenant, ToyListing, follow_ups, make_tenant

MEMBERS = Audience(AudienceKind.MEMBERS)
UNKNOWN = Audience(AudienceKind.UNKNOWN)
AGENTS = Audience(AudienceKind.GROUPS, ("Agents", "Two words, and a comma"))
TEXT = "The cancellation fee is ten euros."


def listed(audience: Audience, content: Content | None = None) -> ListedDocument:
    return ListedDocument("a", "A", version="1", content=content, audience=audience)


async def sync(tenant: Tenant) -> None:
    """The source, and everything that follows."""
    organization_id = tenant.organization_id
    request = SyncSource(organization_id=organization_id, source_id=tenant.source_id)
    outcome = await sync_source(tenant.units, request, tenant.run(request))
    waiting = await follow_ups(outcome)
    while waiting:
        one = waiting.pop()
        if isinstance(one, SyncDocument):
            waiting += await follow_ups(await sync_document(tenant.units, one, tenant.run(one)))
        elif isinstance(one, DocumentChunks):
            await document_chunks(tenant.units, one, tenant.run(one))


async def stored(tenant: Tenant, external_id: str = "a") -> Audience:
    (row,) = await tenant.rows(
        "select audience, audience_groups from knowledge_base_documents where source_id = $1 and external_id = $2",
        tenant.source_id,
        external_id,
    )
    groups = row["audience_groups"]
    assert isinstance(groups, list)
    return Audience(AudienceKind(str(row["audience"])), tuple(groups))


async def finds(tenant: Tenant, asker: Asker) -> bool:
    async with tenant.database.organization(tenant.organization_id) as connection:
        return bool(await search(connection, tenant.organization_id, "cancellation", asker=asker))


async def chunks(tenant: Tenant) -> object:
    return await tenant.rows(
        "select chunk.*, document.chunks_synced_at, document.content_hash from document_chunks chunk"
        " join knowledge_base_documents document on document.id = chunk.source_id order by chunk.id"
    )


async def is_due(tenant: Tenant) -> bool:
    return any(job.startswith("kb-document-sync") for job in await tenant.open_requests())


@pytest.mark.spec("LS-27")
@pytest.mark.parametrize("brings_content", [True, False], ids=["listing brings text", "own sync reads text"])
async def test_a_change_of_audience_alone_counts_at_once_and_cuts_nothing_anew(
    database: Database, brings_content: bool
) -> None:
    provider = ToyListing(listing_brings_content=brings_content)
    tenant = await make_tenant(database, provider)
    before: object = None
    for audience in (PUBLIC, AGENTS, MEMBERS, UNKNOWN, PUBLIC):
        content = Content(TEXT, "A", audience=audience)
        provider.parts = [listed(audience, content if brings_content else None)]
        provider.contents = {"a": content}
        await sync(tenant)
        assert await stored(tenant) == audience
        for asker in (Asker(), MEMBER, Asker(True, ("Agents",))):
            assert await finds(tenant, asker) is asker.may_find(audience)
        before = before or await chunks(tenant)
        assert await chunks(tenant) == before


@pytest.mark.spec("LS-27")
async def test_a_listing_s_audience_counts_before_the_document_s_own_sync_has_run(database: Database) -> None:
    provider = ToyListing([listed(PUBLIC)], {"a": Content(TEXT, "A")})
    tenant = await make_tenant(database, provider)
    await sync(tenant)
    assert await finds(tenant, Asker())
    provider.parts = [listed(MEMBERS)]
    request = SyncSource(organization_id=tenant.organization_id, source_id=tenant.source_id)
    await sync_source(tenant.units, request, tenant.run(request))
    assert (await finds(tenant, Asker()), await finds(tenant, MEMBER)) == (False, True)
    assert await is_due(tenant)  # its own sync may know more of it


@pytest.mark.spec("LS-27")
async def test_what_a_document_s_own_sync_knows_outlives_listings_that_say_the_same(database: Database) -> None:
    """A page with restrictions of its own in an open space: the listing knows the space alone."""
    provider = ToyListing([listed(MEMBERS)], {"a": Content(TEXT, "A", audience=AGENTS)})
    tenant = await make_tenant(database, provider)
    await sync(tenant)
    assert await stored(tenant) == AGENTS
    fetched = len(provider.fetched)
    await sync(tenant)
    assert await stored(tenant) == AGENTS
    assert len(provider.fetched) == fetched, "the same audience is no reason to fetch"


@pytest.mark.spec("LS-27")
async def test_a_wider_space_does_not_open_a_restricted_page_until_the_page_is_asked_again(database: Database) -> None:
    provider = ToyListing([listed(MEMBERS)], {"a": Content(TEXT, "A", audience=AGENTS)})
    tenant = await make_tenant(database, provider)
    await sync(tenant)
    before = await chunks(tenant)
    provider.parts = [listed(PUBLIC)]
    request = SyncSource(organization_id=tenant.organization_id, source_id=tenant.source_id)
    outcome = await sync_source(tenant.units, request, tenant.run(request))
    assert await stored(tenant) == UNKNOWN
    (due,) = await follow_ups(outcome)
    assert isinstance(due, SyncDocument)
    await sync_document(tenant.units, due, tenant.run(due))
    assert await stored(tenant) == AGENTS
    assert await chunks(tenant) == before
    await sync(tenant)
    assert await stored(tenant) == AGENTS


@pytest.mark.spec("LS-27")
async def test_a_listing_that_narrows_during_a_fetch_is_not_overruled_by_what_was_read_before(
    database: Database,
) -> None:
    provider = ToyListing([listed(PUBLIC)], {"a": Content(TEXT, "A", audience=PUBLIC)})
    tenant = await make_tenant(database, provider)
    await sync(tenant)

    async def meanwhile(ref: DocumentRef) -> None:
        provider.on_fetch = None
        provider.parts = [listed(UNKNOWN)]
        request = SyncSource(organization_id=tenant.organization_id, source_id=tenant.source_id)
        await sync_source(tenant.units, request, tenant.run(request))

    provider.on_fetch = meanwhile
    request = SyncDocument(organization_id=tenant.organization_id, document_id=await tenant.document_id("a"))
    await sync_document(tenant.units, request, tenant.run(request))
    assert await stored(tenant) == UNKNOWN
    assert not await finds(tenant, MEMBER)


@pytest.mark.spec("LS-27")
async def test_a_fetch_that_says_nothing_of_it_is_as_listed_again(database: Database) -> None:
    provider = ToyListing([listed(MEMBERS)], {"a": Content(TEXT, "A", audience=AGENTS)})
    tenant = await make_tenant(database, provider)
    await sync(tenant)
    provider.contents = {"a": Content(TEXT, "A")}
    request = SyncDocument(organization_id=tenant.organization_id, document_id=await tenant.document_id("a"))
    outcome = await sync_document(tenant.units, request, tenant.run(request))
    assert isinstance(outcome, Done)
    assert await stored(tenant) == MEMBERS


@pytest.mark.spec("LS-27", "LS-07")
async def test_an_item_that_never_could_be_read_is_for_nobody_until_a_listing_says_for_whom(database: Database) -> None:
    provider = ToyListing([UnreadableItem("a", "A", "answered 403")])
    tenant = await make_tenant(database, provider)
    await sync(tenant)
    assert await stored(tenant) == UNKNOWN
    provider.parts, provider.contents = [listed(MEMBERS)], {"a": Content(TEXT, "A")}
    await sync(tenant)
    assert await stored(tenant) == MEMBERS
    provider.contents = {"a": ItemUnreadable("answered 403")}
    request = SyncDocument(organization_id=tenant.organization_id, document_id=await tenant.document_id("a"))
    await sync_document(tenant.units, request, tenant.run(request))
    assert await stored(tenant) == MEMBERS  # what was read before is kept, for those it was for


async def test_what_another_application_wrote_is_for_everybody_until_its_source_says_otherwise(
    database: Database,
) -> None:
    provider = ToyListing([listed(AGENTS)], {"a": Content(TEXT, "A")})
    tenant = await make_tenant(database, provider)
    await tenant.execute(
        "insert into knowledge_base_documents (organization_id, source_id, external_id) values ($1, $2, 'a')",
        tenant.organization_id,
        tenant.source_id,
    )
    assert await stored(tenant) == PUBLIC
    await sync(tenant)
    assert await stored(tenant) == AGENTS


@pytest.mark.spec("LS-27")
async def test_names_of_groups_are_kept_as_they_are_spelled(database: Database) -> None:
    odd = Audience(AudienceKind.GROUPS, ("", " x ", "a,b", '"', "{}", "\\", "Ünï", "a\x00b", "a\x1fb"))
    tenant = await make_tenant(database, ToyListing([listed(odd)], {"a": Content(TEXT, "A")}))
    await sync(tenant)
    assert (await stored(tenant)).groups == ("", " x ", "a,b", '"', "{}", "\\", "Ünï", "ab", "a b")
