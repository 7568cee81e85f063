"""What a listing may remove (LS-09, field case C06)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kbsync.db.pool import Database
from kbsync.domain.errors import (
    CredentialsRefused,
    ItemGone,
    ItemUnreadable,
    ProviderBusy,
    ProviderError,
    ProviderRefused,
    ProviderUnreachable,
)
from kbsync.domain.outcomes import Done
from kbsync.domain.removal import Removal, Remove, decide_removal
from kbsync.domain.requests import DocumentChunks, SyncDocument, SyncSource
from kbsync.library import sources
from kbsync.providers.contract import Content, ListedDocument, ListedSection, ListingEnd, ListingPart, UnreadableItem
from kbsync.sync.document import sync_document
from kbsync.sync.source import sync_source
from tests.sync.toy import Tenant, ToyListing, make_tenant

NOTHING, TWICE, ALL = Remove.NOTHING, Remove.MISSING_TWICE, Remove.EVERYTHING_MISSING


@pytest.mark.spec("LS-09")
@pytest.mark.parametrize(
    ("complete", "kept", "missing", "twice", "remove", "held"),
    [
        (False, 300, 200, 200, NOTHING, False),  # nothing is proven
        (True, 300, 0, 0, NOTHING, False),
        (True, 300, 1, 0, ALL, False),
        (True, 30, 10, 0, ALL, False),  # a third, but not more than 10
        (True, 40, 12, 0, ALL, False),  # 30 % exactly
        (True, 36, 11, 0, NOTHING, True),  # more than both
        (True, 1000, 300, 0, ALL, False),
        (True, 1000, 301, 0, NOTHING, True),
        (True, 3, 3, 0, NOTHING, True),  # empty, however few
        (True, 3, 3, 3, ALL, False),  # empty twice
        (True, 100, 50, 50, ALL, False),  # the second run confirms
        (True, 100, 55, 50, ALL, False),  # and a few more went since
        (True, 100, 95, 50, TWICE, True),  # and many more went since
        (True, 100, 100, 50, TWICE, True),
    ],
)
def test_the_decision(complete: bool, kept: int, missing: int, twice: int, remove: Remove, held: bool) -> None:
    decision = decide_removal(complete=complete, kept=kept, missing=missing, missing_twice=twice)
    assert (decision.remove, decision.hold is not None) == (remove, held)


def test_a_hold_says_why() -> None:
    assert decide_removal(complete=True, kept=36, missing=11, missing_twice=0) == Removal(
        NOTHING, "11 of 36 documents would go at once"
    )


async def run(tenant: Tenant) -> Done:
    request = SyncSource(organization_id=tenant.organization_id, source_id=tenant.source_id)
    outcome = await sync_source(tenant.units, request, tenant.run(request))
    assert isinstance(outcome, Done)
    return outcome


def items(first: int, last: int) -> list[ListingPart | ProviderError]:
    return [ListedDocument(str(number), f"Page {number}") for number in range(first, last + 1)]


async def source_row(tenant: Tenant) -> sources.SourceRow:
    async with tenant.database.organization(tenant.organization_id) as connection:
        row = await sources.get(connection, tenant.organization_id, tenant.source_id)
    assert row is not None
    return row


async def a_source_of(database: Database, documents: int) -> tuple[Tenant, ToyListing]:
    toy = ToyListing(items(1, documents))
    tenant = await make_tenant(database, toy)
    await run(tenant)
    return tenant, toy


@pytest.mark.spec("LS-09")
async def test_listings_that_prove_nothing_remove_nothing(database: Database) -> None:
    """C06: every way in which a listing ends before its end, one after another, and then the one that is whole."""
    tenant, toy = await a_source_of(database, 300)
    failures: Sequence[ProviderError] = [
        ProviderUnreachable("page 2 answered 503"),
        ProviderBusy("page 2 answered 429", retry_after_s=3600),
        CredentialsRefused("The token has expired."),
        ProviderRefused("No access (403).", 403),
        ProviderUnreachable("a login page instead of JSON"),
        ProviderUnreachable("page 3 timed out"),
        ProviderUnreachable("the answer was cut off"),
    ]
    for failure in failures:
        toy.parts = [*items(1, 100), failure]
        with pytest.raises(type(failure)):
            await run(tenant)
        assert len(await tenant.kept()) == 300, failure
    toy.parts = [*items(1, 100), ListingEnd(False, "100 of 300 items were listed")]  # the next link was lost
    done = await run(tenant)
    assert len(await tenant.kept()) == 300
    assert (done.summary["incomplete"], done.summary["kept_unseen"]) == ("100 of 300 items were listed", 200)
    toy.parts = items(1, 299)
    assert (await run(tenant)).summary["removed"] == 1
    assert "300" not in await tenant.kept()
    assert len(await tenant.kept()) == 299


@pytest.mark.spec("LS-09")
async def test_an_empty_listing_is_believed_the_second_time(database: Database) -> None:
    tenant, toy = await a_source_of(database, 3)
    toy.parts = []
    await run(tenant)
    assert len(await tenant.kept()) == 3
    row = await source_row(tenant)
    assert row.held_removal is not None
    assert (row.held_removal["count"], row.held_removal["of"], row.held_removal["why"]) == (
        3,
        3,
        "the listing was empty",
    )
    await run(tenant)
    assert await tenant.kept() == []
    assert (await source_row(tenant)).held_removal is None


@pytest.mark.spec("LS-09")
async def test_a_large_removal_waits_for_a_second_run_and_shows_what_would_go(database: Database) -> None:
    tenant, toy = await a_source_of(database, 40)
    toy.parts = items(1, 20)
    done = await run(tenant)
    assert (done.summary["removed"], done.summary["held"]) == (0, 20)
    row = await source_row(tenant)
    assert row.held_removal is not None
    titles = row.held_removal["titles"]
    assert isinstance(titles, list)
    assert set(titles) == {f"Page {number}" for number in range(21, 41)}
    toy.parts = [*items(1, 20), ListingEnd(False, "a page failed")]
    await run(tenant)  # proves nothing, and the hold stays
    assert (await source_row(tenant)).held_removal == row.held_removal
    toy.parts = items(1, 25)  # five are back
    assert (await run(tenant)).summary["removed"] == 15
    assert len(await tenant.kept()) == 25


@pytest.mark.spec("LS-09")
async def test_other_documents_that_went_since_wait_for_their_own_second_run(database: Database) -> None:
    tenant, toy = await a_source_of(database, 60)
    toy.parts = items(1, 40)
    await run(tenant)  # 41..60 are held
    toy.parts = items(1, 5)
    done = await run(tenant)  # 41..60 are confirmed, 6..40 are new and too many
    assert (done.summary["removed"], done.summary["held"]) == (20, 35)
    assert len(await tenant.kept()) == 40


@pytest.mark.spec("LS-09")
async def test_an_operators_approval_removes_what_is_held_and_nothing_that_came_back(database: Database) -> None:
    tenant, toy = await a_source_of(database, 40)
    async with database.organization(tenant.organization_id) as connection:
        assert not await sources.approve_removal(connection, tenant.organization_id, tenant.source_id)
    toy.parts = items(1, 20)
    await run(tenant)
    toy.parts = [*items(1, 22), ListingEnd(False, "page 2 failed")]  # 21 and 22 are back
    await run(tenant)
    async with database.organization(tenant.organization_id) as connection:
        assert await sources.approve_removal(connection, tenant.organization_id, tenant.source_id)
    toy.parts = [ProviderUnreachable("page 1 answered 503")]  # the click needs no listing
    with pytest.raises(ProviderUnreachable):
        await run(tenant)
    assert len(await tenant.kept()) == 22
    assert (await source_row(tenant)).held_removal is None


@pytest.mark.spec("LS-09")
async def test_what_a_search_misses_is_asked_for_and_goes_only_when_its_own_answer_says_so(database: Database) -> None:
    """A listing that may lack what is there removes nothing: one document is gone, one is there, one is locked."""
    end = ListingEnd(True, ask_for_missing=True)
    tenant, toy = await a_source_of(database, 40)
    for number in range(1, 41):
        toy.contents[str(number)] = Content(f"Text {number}", f"Page {number}")
    await sync_due(tenant, await run(tenant))
    toy.contents |= {"38": ItemGone("in the trash"), "40": ItemUnreadable("locked")}
    toy.parts = [*items(1, 37), end]
    toy.fetched.clear()
    done = await run(tenant)
    assert (done.summary["removed"], done.summary["asked_for"], done.summary["held"]) == (0, 3, 0)
    assert len(await tenant.kept()) == 40
    await sync_due(tenant, done)
    assert sorted(ref.external_id for ref in toy.fetched) == ["38", "39", "40"]
    assert [one for one in ("38", "39", "40") if one in await tenant.kept()] == ["39", "40"]
    toy.parts = [*items(1, 37), ListedDocument("39", "Page 39"), end]  # it is shown again
    toy.fetched.clear()
    await sync_due(tenant, await run(tenant))
    toy.parts = [*items(1, 20), end]  # and a sudden drop is not even asked about
    toy.fetched.clear()
    done = await run(tenant)
    assert (done.summary["asked_for"], done.summary["held"]) == (0, 19)
    await sync_due(tenant, done)
    assert len(await tenant.kept()) == 39
    await sync_due(tenant, done := await run(tenant))
    assert done.summary["asked_for"] == 19
    assert {ref.external_id for ref in toy.fetched} >= {str(number) for number in range(21, 38)}
    assert len(await tenant.kept()) == 39


@pytest.mark.spec("LS-09")
async def test_a_section_that_a_search_misses_stays_while_it_holds_a_document(database: Database) -> None:
    end = ListingEnd(True, ask_for_missing=True)
    toy = ToyListing([ListedSection("s", "A section"), ListedDocument("1", "Page 1", None, ("s",)), *items(2, 9), end])
    toy.contents = {str(number): Content("Text", f"Page {number}") for number in range(1, 10)}
    tenant = await make_tenant(database, toy)
    await sync_due(tenant, await run(tenant))
    kept = "select count(*) from knowledge_base_sections where source_id = $1 and discarded_at is null"
    toy.parts = [*items(2, 9), end]
    await sync_due(tenant, await run(tenant))
    assert await tenant.value(kept, tenant.source_id) == 1
    toy.contents["1"] = ItemGone("in the trash")
    await sync_due(tenant, await run(tenant))
    assert await tenant.value(kept, tenant.source_id) == 1  # the listing was settled before the document was asked for
    await sync_due(tenant, await run(tenant))
    assert await tenant.value(kept, tenant.source_id) == 0


async def sync_due(tenant: Tenant, done: Done) -> None:
    """Runs the documents' own syncs that a listing asked for."""
    assert done.follow_up_pages is not None
    async for page in done.follow_up_pages():
        for request in page:
            if isinstance(request, DocumentChunks):  # of those that were just read
                continue
            assert isinstance(request, SyncDocument)
            await sync_document(tenant.units, request, tenant.run(request))


@pytest.mark.spec("LS-09", "LS-12")
async def test_unreadable_items_are_kept_seen_and_counted(database: Database) -> None:
    tenant, toy = await a_source_of(database, 3)
    await tenant.execute("update knowledge_base_documents set content = 'what was read before'")
    toy.parts = [*items(1, 2), UnreadableItem("3", "Page 3", "You may not see it.")]
    done = await run(tenant)
    assert (done.summary["unreadable"], done.summary["removed"]) == (1, 0)
    [row] = await tenant.rows("select content, unreadable_reason from knowledge_base_documents where external_id = '3'")
    assert row == {"content": "what was read before", "unreadable_reason": "You may not see it."}
    assert (await source_row(tenant)).counts["unreadable"] == 1


@pytest.mark.spec("LS-09")
async def test_an_older_run_may_neither_end_nor_remove(database: Database) -> None:
    """A run that lost its lease goes on listing while another one begins: its end is refused."""
    tenant, toy = await a_source_of(database, 3)
    toy.parts = items(1, 1)
    listing = toy.list_items

    async def overtaken():  # type: ignore[no-untyped-def]
        async for part in listing():
            if isinstance(part, ListingEnd):
                async with database.organization(tenant.organization_id) as connection:
                    await sources.begin_run(connection, tenant.organization_id, tenant.source_id)
            yield part

    toy.list_items = overtaken  # type: ignore[method-assign]
    with pytest.raises(Exception, match="another run"):
        await run(tenant)
    assert len(await tenant.kept()) == 3
