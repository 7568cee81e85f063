"""Confluence: the suite for the cloud and for Data Center, and how only Confluence lists."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kbsync.domain.errors import ItemGone, ProviderRefused, ProviderUnreachable
from kbsync.domain.requests import SyncSource
from kbsync.providers.contract import DocumentRef, ListedSection
from kbsync.settings import Settings
from tests.acceptance.deployment import until
from tests.providers.account import Account
from tests.providers.confluence.accounts import CloudAccount, DataCenterAccount
from tests.providers.confluence.fake import FakeConfluence, Item, permission
from tests.providers.conformance import Conformance
from tests.providers.fake_api import Fault
from tests.providers.listings import documents, end_of, listed, listing, parts_of, provider_of
from tests.providers.syncs import after_first_sync, agrees, settled


class TestCloud(Conformance):
    @pytest.fixture
    async def account(self, cloud: CloudAccount) -> Account:
        return cloud


class TestDataCenter(Conformance):
    @pytest.fixture
    async def account(self, data_center: DataCenterAccount) -> Account:
        return data_center

    # The library follows both deployments by the same parts: the long run is the cloud's.
    test_items_change_vanish_and_lock_and_the_library_follows = None  # type: ignore[assignment]

    @pytest.mark.spec("LS-08", "LS-09")
    async def test_what_comes_back_from_the_bin_or_the_archive_is_the_row_that_it_was(
        self, account: Account, settings: Settings
    ) -> None:
        assert isinstance(account, DataCenterAccount)
        ids = account.fill(150)
        rows = "select external_id, id from knowledge_base_documents where source_id = $1 and discarded_at is null"
        async with after_first_sync(account, settings) as (fleet, organization, source):

            async def synced() -> dict[str, int]:
                await fleet.ask(SyncSource(organization_id=organization, source_id=source))
                await until(lambda: settled(fleet, source), "the sync")
                await agrees(fleet, account, source)
                async with fleet.runtime.database.fleet() as connection:
                    return {row["external_id"]: row["id"] for row in await connection.fetch(rows, source)}

            before = await synced()
            account.delete(ids[3:6])
            account.fake.items[ids[9]].status = "archived"
            account.change(ids[20:25])
            account.fake.log.clear()
            assert set(await synced()) == set(ids) - {*ids[3:6], ids[9]}
            assert account.fake.asked_for(account.is_fetch) == 5
            for id in (*ids[3:6], ids[9]):
                account.fake.items[id].status = "current"
            assert await synced() == before


# --- ends of lists ---


@pytest.mark.spec("LS-09", "LS-18")
@pytest.mark.parametrize("wrong", ["repeats an item", "skips by the asked limit", "is right"])
async def test_a_capped_list_is_read_whatever_its_next_link_says(
    fake: FakeConfluence, data_center: DataCenterAccount, wrong: str
) -> None:
    """C02: 200 are asked for, 100 come; the next link's start is one too early, or 200."""
    ids = data_center.fill(450)
    fake.start_slips, fake.start_skips = wrong == "repeats an item", wrong == "skips by the asked limit"
    parts = await parts_of(data_center)
    assert listed(parts) == ids
    assert end_of(parts).complete


@pytest.mark.spec("LS-09")
async def test_a_list_by_offset_that_shifts_proves_nothing(
    fake: FakeConfluence, data_center: DataCenterAccount
) -> None:
    """A page goes to the bin between two pages of the list: the one behind it is in neither."""
    ids = data_center.fill(250)
    fake.fail(
        lambda asked: data_center.is_page(asked) and fake.asked_for(data_center.is_page) == 2 and trash(), Fault()
    )

    def trash() -> bool:
        data_center.delete([ids[5]])
        return False

    parts = await parts_of(data_center)
    assert ids[100] not in listed(parts)
    assert "while it was read" in str(end_of(parts).reason)
    fake.heal()
    again = await parts_of(data_center)
    assert (sorted(listed(again)), end_of(again).complete) == (sorted(set(ids) - {ids[5]}), True)


@pytest.mark.spec("LS-09")
async def test_pages_that_stay_empty_and_go_on_end_as_incomplete(fake: FakeConfluence, cloud: CloudAccount) -> None:
    cloud.fill(150)
    fake.endless_empty = True
    end = end_of(await parts_of(cloud))
    assert not end.complete
    assert fake.asked_for(cloud.is_page) <= 7


@pytest.mark.spec("LS-18")
async def test_a_next_link_gives_its_cursor_and_nothing_else(fake: FakeConfluence, cloud: CloudAccount) -> None:
    """It begins with /wiki, stands in the header alone at times, and its cursor is not the last of the query."""
    ids = cloud.fill(250)
    fake.links_in_headers = True
    parts = await parts_of(cloud)
    assert (sorted(listed(parts)), end_of(parts).complete) == (sorted(ids), True)
    assert not [asked.path for asked in fake.log if "/wiki/wiki" in asked.path]
    fake.fail(cloud.is_page, Fault(200, '{"results": [], "_links": {"next": "/wiki/api/v2/pages?limit=9"}}'))
    with pytest.raises(ProviderUnreachable, match="not where"):
        await parts_of(cloud)


@pytest.mark.spec("LS-07")
async def test_a_cursor_that_is_no_longer_known_begins_the_list_anew(fake: FakeConfluence, cloud: CloudAccount) -> None:
    cloud.fill(150)
    links = '{"results": [], "_links": {"next": "/wiki/api/v2/pages?cursor=old&limit=9"}}'
    fake.fail(cloud.is_page, Fault(200, links), times=1)
    with pytest.raises(ProviderUnreachable, match="begins anew"):
        await parts_of(cloud)


@pytest.mark.spec("LS-18")
async def test_a_page_that_is_too_much_is_asked_for_in_smaller_ones(fake: FakeConfluence, either: CloudAccount) -> None:
    ids = either.fill(120)
    fake.bears = 70
    parts = await parts_of(either)
    assert (sorted(listed(parts)), end_of(parts).complete) == (sorted(ids), True)
    fake.bears = 1
    with pytest.raises(ProviderUnreachable):
        await parts_of(either)


# --- what is listed ---


@pytest.mark.spec("LS-08", "LS-09")
async def test_only_what_is_current_is_listed_and_what_comes_back_keeps_its_id(
    fake: FakeConfluence, either: CloudAccount
) -> None:
    ids = either.fill(5)
    for id, status in zip(ids[1:4], ("archived", "trashed", "draft"), strict=True):
        fake.items[id].status = status
    parts = await parts_of(either)
    assert (sorted(listed(parts)), end_of(parts).complete) == ([ids[0], ids[4]], True)
    assert {asked.query.get("status") for asked in fake.log if either.is_page(asked)} == {"current"}
    async with provider_of(either) as provider:
        for id in ids[1:4]:
            with pytest.raises(ItemGone):
                await provider.fetch_document(DocumentRef(id, None))
    for id in ids[1:4]:
        fake.items[id].status = "current"
    assert sorted(listed(await parts_of(either))) == ids


@pytest.mark.spec("LS-08")
async def test_a_version_and_its_time_say_that_a_page_changed_and_a_move_does_not(
    fake: FakeConfluence, either: CloudAccount
) -> None:
    (above, id) = either.fill(2)
    before = documents(await parts_of(either))[id]
    fake.items[id].parent = above
    moved = documents(await parts_of(either))[id]
    either.change([id])
    changed = documents(await parts_of(either))[id]
    assert (before.version, before.changed_at) == (moved.version, moved.changed_at)
    assert (before.section_external_ids, moved.section_external_ids) == (("space-SUP",), (f"page-{above}",))
    assert (changed.version, changed.changed_at) == ("2", datetime(2026, 2, 1, 10, 15, tzinfo=UTC))
    assert fake.asked_for(either.is_fetch) == 0


@pytest.mark.spec("LS-18")
async def test_pages_nest_as_sections_below_their_space(fake: FakeConfluence, either: CloudAccount) -> None:
    fake.spaces["SUP"]["homepageId"] = "1"
    for id, parent in {"1": None, "2": "1", "3": "2", "4": "3", "5": "6", "6": "5"}.items():
        fake.add(Item(id, "SUP", f"Title {id}", "<p>x</p>", parent=parent))
    parts = await parts_of(either)
    sections = {part.external_id: part.parent_external_id for part in parts if isinstance(part, ListedSection)}
    assert sections == {"space-SUP": None, "page-2": "space-SUP", "page-3": "page-2"}
    found = {id: one.section_external_ids[0] for id, one in documents(parts).items()}
    assert found == {
        "1": "space-SUP",
        "2": "space-SUP",
        "3": "page-2",
        "4": "page-3",
        "5": "space-SUP",
        "6": "space-SUP",
    }


@pytest.mark.spec("LS-18")
async def test_folders_are_sections_and_one_that_can_not_be_read_is_none(
    fake: FakeConfluence, cloud: CloudAccount
) -> None:
    fake.add(Item("70", "SUP", "Folder", None, kind="folder"))
    fake.add(Item("71", "SUP", "Inner", None, kind="folder", parent="70", parent_kind="folder"))
    for id, parent, kind in (
        ("1", "71", "folder"),
        ("2", "71", "folder"),
        ("3", "99", "whiteboard"),
        ("4", "98", "odd"),
    ):
        fake.add(Item(id, "SUP", f"Title {id}", "<p>x</p>", parent=parent, parent_kind=kind))
    parts = await parts_of(cloud)
    sections = {one.external_id: (one.title, one.parent_external_id) for one in parts if isinstance(one, ListedSection)}
    assert sections == {
        "space-SUP": ("Support", None), "page-70": ("Folder", "space-SUP"), "page-71": ("Inner", "page-70")
    }  # fmt: skip
    assert documents(parts)["1"].section_external_ids == ("page-71",)
    assert documents(parts)["3"].section_external_ids == ("space-SUP",)
    assert fake.asked_for(lambda asked: "/folders/" in asked.path) == 2


@pytest.mark.spec("LS-09", "LS-18")
async def test_spaces_are_chosen_and_a_key_that_nobody_knows_is_a_doubt(
    fake: FakeConfluence, either: CloudAccount
) -> None:
    fake.add_space("~ada", "Ada's own", type="personal")
    fake.add_space("OLD", "Old", status="archived")
    fake.permissions |= {"~ada": permission(anonymous=True), "OLD": permission(anonymous=True)}
    (one,), (own,), (old,) = either.fill(1), either.fill(1, "~ada"), either.fill(1, "OLD")
    for more, expected in (
        ({}, [one]),
        ({"include_personal_spaces": True}, [one, own]),
        ({"include_archived_spaces": True}, [one, old]),
        ({"space_keys": ["~ada"]}, [own]),
        ({"space_keys": ["SUP", "OLD"]}, [one]),
    ):
        either.more = dict(more)
        parts = await parts_of(either)
        assert (sorted(listed(parts)), end_of(parts).complete) == (sorted(expected), True), more
    either.more = {"space_keys": ["SUP", "NONE"]}
    assert "no space NONE" in str(end_of(await parts_of(either)).reason)
    for nothing in (["NONE"], ["OLD"]):
        either.more = {"space_keys": nothing}
        with pytest.raises(ProviderRefused, match="see no space"):
            await parts_of(either)


async def test_blog_posts_are_documents_by_choice(fake: FakeConfluence, either: CloudAccount) -> None:
    either.fill(1)
    fake.add(Item("9", "SUP", "News", "<p>we moved</p>", kind="blogpost"))
    assert "blogpost:9" not in listed(await parts_of(either))
    either.more = {"include_blog_posts": True}
    async with provider_of(either) as provider:
        assert "blogpost:9" in listed(await listing(provider))
        content = await provider.fetch_document(DocumentRef("blogpost:9", None))
    assert getattr(content, "markdown", None) == "we moved"


@pytest.mark.spec("LS-07")
async def test_null_missing_and_wrong_fields_stop_nobody_else(fake: FakeConfluence, either: CloudAccount) -> None:
    """C07."""
    ids = either.fill(10)
    odd: list[dict[str, object]] = [
        {"title": None}, {"title": ""}, {"title": ["a", "list"]}, {"version": None, "authorId": None},
        {"version": {"number": None, "createdAt": "yesterday", "when": "yesterday"}}, {"_links": None},
        {"parentId": None, "ancestors": None}, {"restrictions": None, "position": "none"}, {"body": 42},
    ]  # fmt: skip
    for id, fields in zip(ids, odd, strict=False):
        fake.items[id].odd = fields
    parts = await parts_of(either)
    assert (sorted(listed(parts)), end_of(parts).complete) == (sorted(ids), True)
    found = documents(parts)
    assert [found[id].title for id in ids[:3]] == ids[:3]
    assert (found[ids[3]].version, found[ids[3]].changed_at) == (None, None)
    assert found[ids[4]].version == "yesterday"
    assert str(found[ids[5]].url).endswith(f"/pages/viewpage.action?pageId={ids[5]}")
    fake.items[ids[9]].odd = {"id": None}
    assert "without an id" in str(end_of(await parts_of(either)).reason)
