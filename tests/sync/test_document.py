"""The sync of one document and its chunks."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from kbsync.db.pool import Database
from kbsync.domain.errors import CredentialsRefused, ItemGone, SettingsError
from kbsync.domain.outcomes import Done, RecordMissing
from kbsync.domain.requests import DocumentChunks, SyncDocument, SyncSource
from kbsync.library.credentials import Vault
from kbsync.providers.contract import Content, DocumentRef, ListedDocument, ListedSection, UnreadableItem
from kbsync.sync.chunks import document_chunks
from kbsync.sync.context import ContentBounds
from kbsync.sync.document import sync_document
from kbsync.sync.source import sync_source
from tests.sync.toy import Tenant, ToyListing, follow_ups, make_tenant, text


async def a_document(database: Database, toy: ToyListing) -> tuple[Tenant, SyncDocument, DocumentChunks]:
    """A tenant whose one listed document is `a`, with the requests for it."""
    toy.parts = toy.parts or [ListedDocument("a", "A", version="1")]
    tenant = await make_tenant(database, toy)
    request = SyncSource(organization_id=tenant.organization_id, source_id=tenant.source_id)
    await sync_source(tenant.units, request, tenant.run(request))
    organization_id, document_id = tenant.organization_id, await tenant.document_id("a")
    return (
        tenant,
        SyncDocument(organization_id=organization_id, document_id=document_id),
        DocumentChunks(organization_id=organization_id, document_id=document_id),
    )


async def sync(tenant: Tenant, request: SyncDocument) -> Done:
    outcome = await sync_document(tenant.units, request, tenant.run(request))
    assert isinstance(outcome, Done)
    return outcome


async def row_of(tenant: Tenant) -> dict[str, object]:
    [row] = await tenant.rows("select * from knowledge_base_documents")
    return dict(row)


@pytest.mark.spec("LS-10")
async def test_unchanged_content_moves_last_synced_at_alone(database: Database) -> None:
    toy = ToyListing(contents={"a": Content("hello", "A", etag='"1"')})
    tenant, request, chunks = await a_document(database, toy)
    assert await follow_ups(await sync(tenant, request)) == [chunks]
    await document_chunks(tenant.units, chunks, tenant.run(chunks))
    before = await row_of(tenant)
    assert await follow_ups(await sync(tenant, request)) == []
    after = await row_of(tenant)
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {"last_synced_at", "updated_at"}
    assert toy.fetched[1].etag == '"1"'


@pytest.mark.spec("LS-10")
async def test_changed_content_asks_for_chunks_until_they_are_there(database: Database) -> None:
    toy = ToyListing(contents={"a": text("hello")})
    tenant, request, chunks = await a_document(database, toy)
    await sync(tenant, request)
    await document_chunks(tenant.units, chunks, tenant.run(chunks))
    toy.contents["a"] = text("hello, world")
    assert await follow_ups(await sync(tenant, request)) == [chunks]
    assert (await row_of(tenant))["chunks_synced_at"] is None
    assert await follow_ups(await sync(tenant, request)) == [chunks]  # the enqueue may have been lost
    assert await tenant.open_requests() >= {f"kb-document-chunks-{chunks.document_id}"}
    await document_chunks(tenant.units, chunks, tenant.run(chunks))
    assert await follow_ups(await sync(tenant, request)) == []


@pytest.mark.spec("LS-10")
async def test_a_document_without_a_source_still_gets_its_chunks(database: Database) -> None:
    tenant = await make_tenant(database, ToyListing())
    document_id = cast(
        int,
        await tenant.value(
            "insert into knowledge_base_documents (organization_id, external_id, content) values ($1, 'faq', 'An answer.') "
            "returning id",
            tenant.organization_id,
        ),
    )
    request = SyncDocument(organization_id=tenant.organization_id, document_id=document_id)
    [chunks] = await follow_ups(await sync(tenant, request))
    assert isinstance(chunks, DocumentChunks)
    await document_chunks(tenant.units, chunks, tenant.run(chunks))
    assert await tenant.value("select content from document_chunks") == "An answer."
    assert await follow_ups(await sync(tenant, request)) == []


@pytest.mark.spec("LS-08")
async def test_a_listing_during_the_fetch_leaves_the_document_due(database: Database) -> None:
    toy = ToyListing(contents={"a": text("as of version 1")})
    tenant, request, _ = await a_document(database, toy)
    source = SyncSource(organization_id=tenant.organization_id, source_id=tenant.source_id)

    async def listed_again(ref: DocumentRef) -> None:
        toy.on_fetch = None
        toy.parts = [ListedDocument("a", "A", version="2")]
        await sync_source(tenant.units, source, tenant.run(source))

    toy.on_fetch = listed_again
    await sync(tenant, request)
    assert await follow_ups(await sync_source(tenant.units, source, tenant.run(source))) == [request]


@pytest.mark.spec("LS-13")
async def test_hostile_text_is_stored_and_long_text_is_cut_with_a_flag(database: Database) -> None:
    """D07: NUL and lone surrogates in every field; and content over the cap."""
    hostile = "a\x00b\ud800c"
    toy = ToyListing(
        [
            ListedSection("s\x00", hostile),
            ListedDocument(
                "a", hostile, url=f"https://toy.test/{hostile}", section_external_ids=("s\x00",), version=hostile
            ),
            UnreadableItem("b\x00", hostile, hostile),
        ],
        contents={"a": Content(hostile + "x" * 2_000, hostile, language="en", etag=hostile)},
    )
    tenant, request, chunks = await a_document(database, toy)
    object.__setattr__(tenant.units, "bounds", ContentBounds(content_cap=1_000))
    await sync(tenant, request)
    await document_chunks(tenant.units, chunks, tenant.run(chunks))
    [row] = await tenant.rows(
        "select content, content_truncated, title from knowledge_base_documents where external_id = 'a'"
    )
    assert str(row["content"]).startswith("abcxxx")
    assert (len(str(row["content"])), row["content_truncated"], row["title"]) == (1_000, True, "abc")
    assert await tenant.value("select count(*) from document_chunks") != 0


@pytest.mark.spec("LS-06")
async def test_units_of_another_organization_find_nothing(database: Database) -> None:
    toy = ToyListing(contents={"a": text("hello")})
    tenant, request, chunks = await a_document(database, toy)
    other = await make_tenant(database, ToyListing())
    stolen = SyncDocument(organization_id=other.organization_id, document_id=request.document_id)
    assert await sync_document(other.units, stolen, other.run(stolen)) == RecordMissing("document")
    stolen_chunks = DocumentChunks(organization_id=other.organization_id, document_id=chunks.document_id)
    assert await document_chunks(other.units, stolen_chunks, other.run(stolen_chunks)) == RecordMissing("document")
    assert toy.fetched == []
    await tenant.execute("update knowledge_base_sources set discarded_at = now()")
    assert await sync_document(tenant.units, request, tenant.run(request)) == RecordMissing("document")


@pytest.mark.spec("LS-07")
async def test_a_document_that_comes_back_is_the_same_row_and_is_read_again(database: Database) -> None:
    toy = ToyListing(contents={"a": text("hello")})
    tenant, request, chunks = await a_document(database, toy)
    await sync(tenant, request)
    await document_chunks(tenant.units, chunks, tenant.run(chunks))
    toy.contents["a"] = ItemGone("404")
    await sync(tenant, request)
    assert await tenant.value("select count(*) from document_chunks") == 0
    toy.contents["a"] = text("hello")
    source = SyncSource(organization_id=tenant.organization_id, source_id=tenant.source_id)
    assert await follow_ups(await sync_source(tenant.units, source, tenant.run(source))) == [request]
    assert await follow_ups(await sync(tenant, request)) == [chunks]


@pytest.mark.spec("LS-11")
async def test_chunks_and_search_row_are_replaced_and_unchanged_chunks_keep_their_ids(database: Database) -> None:
    toy = ToyListing(
        [ListedSection("g", "Guides"), ListedDocument("a", "A", section_external_ids=("g",))],
        contents={"a": text("# One\n\nfirst part\n\n# Two\n\nsecond part")},
    )
    tenant, request, chunks = await a_document(database, toy)
    object.__setattr__(tenant.units, "bounds", ContentBounds(chunk_characters=24, chunk_overlap=0))
    await sync(tenant, request)
    await document_chunks(tenant.units, chunks, tenant.run(chunks))
    before = await tenant.rows("select id, content, heading_path from document_chunks order by position")
    assert [row["heading_path"] for row in before] == [["Guides", "One"], ["Guides", "Two"]]
    toy.contents["a"] = text("# One\n\nfirst part\n\n# Two\n\nanother part")
    await sync(tenant, request)
    await document_chunks(tenant.units, chunks, tenant.run(chunks))
    await document_chunks(tenant.units, chunks, tenant.run(chunks))  # again changes nothing
    after = await tenant.rows("select id, content from document_chunks order by position")
    assert after[0]["id"] == before[0]["id"]
    assert after[1]["id"] != before[1]["id"]
    [search] = await tenant.rows("select content from pg_search_documents")
    assert "another part" in str(search["content"])
    toy.parts = [ListedSection("h", "Handbook"), ListedDocument("a", "A", section_external_ids=("h",))]
    source = SyncSource(organization_id=tenant.organization_id, source_id=tenant.source_id)
    await sync_source(tenant.units, source, tenant.run(source))
    assert await follow_ups(await sync(tenant, request)) == [chunks]  # it moved to another section


@pytest.mark.spec("LS-11")
async def test_a_text_that_changes_while_it_is_cut_is_cut_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy = ToyListing(contents={"a": text("first text")})
    tenant, request, chunks = await a_document(database, toy)
    await sync(tenant, request)
    from kbsync.sync import chunks as module

    cut = module._cut
    edits = iter(["update knowledge_base_documents set content = 'edited elsewhere'"])  # by a writer that knows no hash

    async def edited_meanwhile(*arguments: object) -> object:
        done = await cut(*arguments)  # type: ignore[arg-type]
        for edit in edits:
            await tenant.execute(edit)
        return done

    monkeypatch.setattr(module, "_cut", edited_meanwhile)
    await document_chunks(tenant.units, chunks, tenant.run(chunks))
    assert await tenant.value("select content from document_chunks") == "edited elsewhere"
    assert (await row_of(tenant))["chunks_synced_at"] is not None


async def test_a_cancelled_unit_leaves_no_lock_and_no_lost_connection(database: Database) -> None:
    """B06: the job's time-out hits while the provider never answers; more often than the pool has connections."""
    toy = ToyListing(contents={"a": text("hello")})
    tenant, request, _ = await a_document(database, toy)
    hanging = asyncio.Event()
    started = asyncio.Semaphore(0)

    async def never(ref: DocumentRef) -> None:
        started.release()
        await hanging.wait()

    toy.on_fetch = never
    tasks = [asyncio.create_task(sync_document(tenant.units, request, tenant.run(request))) for _ in range(30)]
    for _ in tasks:
        await started.acquire()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    idle = (
        "select count(*) from pg_stat_activity where datname = current_database() and state like 'idle in transaction%'"
    )
    assert await tenant.value(idle) == 0
    toy.on_fetch = None
    await sync(tenant, request)


@pytest.mark.spec("LS-19")
async def test_credentials_are_sealed_and_opened_for_the_provider_alone(database: Database) -> None:
    from cryptography.fernet import Fernet

    old, new = Fernet.generate_key().decode(), Fernet.generate_key().decode()
    sealed = Vault(old).seal({"token": "s3cret"})
    assert "s3cret" not in sealed
    assert Vault(f"{new},{old}").open(sealed) == {"token": "s3cret"}  # rotated
    assert Vault(None).open(None) == {}
    for vault in (Vault(None), Vault(new)):
        with pytest.raises(CredentialsRefused) as refusal:
            vault.open(sealed)
        assert "s3cret" not in str(refusal.value)
    with pytest.raises(SettingsError):
        Vault(None).seal({"token": "s3cret"})
    with pytest.raises(SettingsError):
        Vault("no key")
    assert "s3cret" not in repr(Vault(old))
