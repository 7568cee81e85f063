"""Notion's listing: three versions, an index that lags, the walk, the ends of lists, and what counts as changed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from kbsync.domain.errors import CredentialsRefused, ProviderUnreachable
from kbsync.providers.contract import AudienceKind, ListedSection, UnreadableItem
from kbsync.providers.notion.listing import version_of
from tests.providers.fake_api import Asked, Fault
from tests.providers.listings import documents, end_of, listed, parts_of, sections
from tests.providers.notion.fake import FakeNotion, NotionAccount, is_children
from tests.providers.notion.state import EARLY, LATE, VERSIONS, texts, uuid


def is_query(asked: Asked) -> bool:
    return asked.path.endswith("/query")


# --- versions, sections, audiences ---


@pytest.mark.spec("LS-08", "LS-18", "LS-27")
async def test_every_version_lists_the_same(fake: FakeNotion, any_version: NotionAccount) -> None:
    table = fake.database(1, "Answers", description="What it is *for*")
    (source,) = table.sources
    row = fake.row(1, "Row", "In a row", source)
    parent = fake.page(2, "Home", "Hello", public_url="https://acme.notion.site/home")
    child = fake.page(3, "Refunds", "Money", under=parent)
    fake.page(4, "Gone", "x", trashed=True)
    fake.page(5, "Put away", "x", raw={"is_archived": True})
    unshared = fake.page(6, "Not ours", "x")
    fake.unshared.add(unshared)
    parts = await parts_of(any_version)
    assert end_of(parts).complete
    assert end_of(parts).ask_for_missing
    assert sections(parts) == {table.id: ListedSection(table.id, "Answers", None, 0)}
    found = documents(parts)
    assert set(found) == {row, parent, child, table.id}
    assert found[row].section_external_ids == (table.id,)
    assert (found[row].title, found[row].changed_at) == ("Row", datetime.fromisoformat("2026-01-05T09:00:00+00:00"))
    assert {id: one.audience.kind for id, one in found.items()} == {
        row: AudienceKind.MEMBERS, parent: AudienceKind.PUBLIC, child: AudienceKind.MEMBERS, table.id: AudienceKind.MEMBERS
    }  # fmt: skip
    assert found[child].url == f"{fake.url}/{child.replace('-', '')}"
    assert {asked.headers["notion-version"] for asked in fake.log} == {any_version.version}
    assert [asked.path for asked in fake.log if asked.path.startswith("/v1/pages/")] == []


@pytest.mark.spec("LS-08", "LS-18")
async def test_a_database_of_several_sources_has_a_section_for_each(fake: FakeNotion, notion: NotionAccount) -> None:
    table = fake.database(1, "Answers", sources=2)
    rows = [fake.row(number, f"Row {number}", "x", source) for number, source in enumerate(table.sources, 1)]
    parts = await parts_of(notion)
    assert end_of(parts).complete
    assert [(one.title, one.parent_external_id) for one in sections(parts).values()] == [
        ("Answers", None), ("Answers 0", table.id), ("Answers 1", table.id)
    ]  # fmt: skip
    assert [documents(parts)[row].section_external_ids for row in rows] == [(source,) for source in table.sources]
    old = await parts_of(NotionAccount(fake, VERSIONS[0]))
    assert set(rows) <= set(documents(old))
    assert not end_of(old).complete
    assert "api_version 2025-09-03" in str(end_of(old).reason)


@pytest.mark.spec("LS-09", "LS-18")
async def test_rows_that_search_forgets_are_listed_by_their_database(
    fake: FakeNotion, any_version: NotionAccount
) -> None:
    ids = any_version.fill(230)
    fake.hidden_from_search.update(ids[5:200])
    fake.hidden_from_search -= {id for id in ids if fake.pages[id].parent["type"] == "workspace"}
    parts = await parts_of(any_version)
    assert sorted(listed(parts)) == sorted(ids)
    assert end_of(parts).complete


@pytest.mark.spec("LS-18")
async def test_a_linked_view_is_no_gap_and_a_table_that_is_shared_and_refuses_is_one(
    fake: FakeNotion, any_version: NotionAccount
) -> None:
    page = fake.page(1, "Home", "Hello")
    view = fake.database(2, "A view", is_linked=True)
    fake.blocks[page].append({"id": view.id, "type": "child_database", "child_database": {"title": "A view"}})
    parts = await parts_of(any_version)
    assert (listed(parts), end_of(parts).complete) == ([page], True)
    assert sections(parts) == {}
    fake.database(1, "Answers")
    for status in (400, 403, 404):
        fake.fail(is_query, Fault(status))
        parts = await parts_of(any_version)
        assert not end_of(parts).complete
        assert "database" in str(end_of(parts).reason)
        fake.heal()
    for status, error in ((500, ProviderUnreachable), (401, CredentialsRefused), (529, ProviderUnreachable)):
        fake.fail(is_query, Fault(status))
        with pytest.raises(error):
            await parts_of(any_version)
        fake.heal()


@pytest.mark.spec("LS-18")
async def test_a_wiki_answers_with_pages_and_tables_mixed(fake: FakeNotion, notion: NotionAccount) -> None:
    wiki, inner = fake.database(1, "Wiki"), fake.database(2, "Inner")
    (source,), (below,) = wiki.sources, inner.sources
    row, deep = fake.row(1, "Page of the wiki", "x", source), fake.row(2, "Row", "y", below)
    fake.hidden_from_search |= {inner.id, deep}
    shown = fake._shown((inner, below), notion.version)
    answer = fake._answered([fake._shown(fake.pages[row], notion.version), shown], "page_or_data_source", None)
    assert isinstance(answer.text, str)
    fake.fail(lambda asked: asked.path == f"/v1/data_sources/{source}/query", Fault(body=answer.text))
    parts = await parts_of(notion)
    assert (set(listed(parts)), set(sections(parts))) == ({row, deep}, {wiki.id, inner.id})
    assert documents(parts)[deep].section_external_ids == (inner.id,)


async def test_a_data_source_without_its_database_stands_on_its_own(fake: FakeNotion, notion: NotionAccount) -> None:
    table = fake.database(1, "Answers")
    (source,) = table.sources
    row = fake.row(1, "Row", "x", source)
    fake.locked.add(table.id)
    parts = await parts_of(notion)
    assert documents(parts)[row].section_external_ids in ((), (source,))
    assert [one.title for one in sections(parts).values()] == ["Answers"]


# --- the walk ---


@pytest.mark.spec("LS-08", "LS-09", "LS-18")
async def test_the_walk_finds_what_the_search_does_not_show_yet(fake: FakeNotion, any_version: NotionAccount) -> None:
    """A page within a toggle within columns, a table below it, and a page of a page, all absent from the index."""
    home = fake.page(1, "Home", "Hello")
    toggle = fake.block(home, "toggle", {"rich_text": texts("More")})
    column = fake.block(fake.block(toggle, "column_list"), "column")
    deep = fake.page(2, "Deep", "x", parent={"type": "block_id", "block_id": column})
    fake.blocks[column] = [{"id": deep, "type": "child_page", "child_page": {"title": "Deep"}}]
    deeper = fake.page(3, "Deeper", "y", under=deep)
    table = fake.database(1, "Answers", parent={"type": "page_id", "page_id": deeper})
    fake.blocks[deeper].append({"id": table.id, "type": "child_database", "child_database": {"title": "Answers"}})
    row = fake.row(4, "Row", "z", next(iter(table.sources)))
    trashed = fake.page(5, "Trashed", "t", under=home, trashed=True)
    locked = fake.page(6, "Locked", "l", under=home)
    fake.hidden_from_search |= {deep, deeper, table.id, row, trashed, locked}
    fake.locked.add(locked)
    parts = await parts_of(any_version)
    assert set(documents(parts)) == {home, deep, deeper, row}
    assert [part.external_id for part in parts if isinstance(part, UnreadableItem)] == [locked]
    assert documents(parts)[row].section_external_ids == (table.id,)
    assert end_of(parts).complete
    any_version.settings = {"walk_requests": 0}
    assert listed(await parts_of(any_version)) == [home]


@pytest.mark.spec("LS-09")
async def test_roots_are_walked_whatever_search_shows_and_one_that_cannot_be_leaves_the_listing_open(
    fake: FakeNotion, any_version: NotionAccount
) -> None:
    root = fake.page(1, "Root", "Hello")
    child = fake.page(2, "Child", "x", under=root)
    table = fake.database(1, "Answers")
    row = fake.row(3, "Row", "z", next(iter(table.sources)))
    fake.hidden_from_search |= {root, child, table.id, row}
    any_version.settings = {
        "root_page_ids": [f"https://www.notion.so/acme/Root-{root.replace('-', '')}?pvs=4", table.id]
    }
    parts = await parts_of(any_version)
    assert (set(listed(parts)), end_of(parts).complete) == ({root, child, row}, True)
    any_version.settings |= {"walk_requests": 1}
    parts = await parts_of(any_version)
    assert not end_of(parts).complete
    assert "walked to their end" in str(end_of(parts).reason)
    any_version.settings = {"root_page_ids": [root]}
    fake.unshared.add(root)
    parts = await parts_of(any_version)
    assert not end_of(parts).complete
    assert root in str(end_of(parts).reason)


@pytest.mark.spec("LS-09")
async def test_a_walk_has_a_budget_and_reads_what_was_edited_last_first(
    fake: FakeNotion, notion: NotionAccount
) -> None:
    ids = [fake.page(number, f"P{number}", "x", edited=f"2026-01-{number:02}T00:00:00.000Z") for number in range(1, 10)]
    notion.settings = {"walk_requests": 3}
    parts = await parts_of(notion)
    assert end_of(parts).complete
    assert [asked.path.split("/")[3] for asked in fake.log if is_children(asked)] == ids[:-4:-1]


async def test_walking_leaves_tables_and_copies_alone(fake: FakeNotion, notion: NotionAccount) -> None:
    page, other = fake.page(1, "Home"), fake.page(2, "Other")
    original = fake.block(other, "synced_block", {"synced_from": None})
    fake.paragraph(original, "synced")
    fake.block(page, "synced_block", {"synced_from": {"block_id": original}})
    table = fake.block(page, "table", {"table_width": 1})
    fake.block(table, "table_row", {"cells": [texts("a")]})
    await parts_of(notion)
    assert sorted(asked.path.split("/")[3] for asked in fake.log if is_children(asked)) == sorted(
        [page, other, original]
    )


# --- ends of lists ---


@pytest.mark.spec("LS-09", "LS-18")
async def test_a_cursor_that_dies_begins_the_list_anew_once(fake: FakeNotion, any_version: NotionAccount) -> None:
    ids = any_version.fill(250)
    fake.dying_cursors = 1
    parts = await parts_of(any_version)
    assert (sorted(listed(parts)), end_of(parts).complete) == (sorted(ids), True)
    assert fake.asked_for(any_version.is_page) == 5
    fake.dying_cursors = 1_000
    parts = await parts_of(any_version)
    assert not end_of(parts).complete
    assert "lost its place" in str(end_of(parts).reason)


@pytest.mark.spec("LS-09", "LS-18")
async def test_short_pages_and_a_page_twice_are_neither_the_end_nor_two(
    fake: FakeNotion, notion: NotionAccount
) -> None:
    """C02: fewer than asked for says nothing; only has_more does."""
    fake.page_size, fake.search_repeats_one = 25, True
    ids = notion.fill(120)
    parts = await parts_of(notion)
    assert (sorted(listed(parts)), end_of(parts).complete) == (sorted(ids), True)


@pytest.mark.spec("LS-09", "LS-18")
async def test_a_query_that_ends_at_its_cap_goes_on_from_there(fake: FakeNotion, any_version: NotionAccount) -> None:
    """C01: windows on the time of creation, whose edges come twice; a window that brings nothing new is the end."""
    ids = any_version.fill(300)
    fake.row_cap = 40
    rows = [id for id in ids if fake.pages[id].parent["type"] != "workspace"]
    fake.hidden_from_search.update(rows)
    parts = await parts_of(any_version)
    assert (sorted(listed(parts)), end_of(parts).complete) == (sorted(ids), True)
    fake.log.clear()
    for id in rows:
        fake.pages[id].created = EARLY
    parts = await parts_of(any_version)
    assert not end_of(parts).complete
    assert "too many rows" in str(end_of(parts).reason)
    assert fake.asked_for(is_query) <= 6


@pytest.mark.spec("LS-09")
async def test_a_search_that_shows_a_part_only_says_so(fake: FakeNotion, notion: NotionAccount) -> None:
    notion.fill(120)
    fake.search_is_cut = True
    end = end_of(await parts_of(notion))
    assert (end.complete, end.reason) == (False, "Notion's search shows only a part of what there is.")


@pytest.mark.spec("LS-09")
@pytest.mark.parametrize("cursor", ["null", "5", '""'])
async def test_more_that_cannot_be_asked_for_is_no_end(fake: FakeNotion, notion: NotionAccount, cursor: str) -> None:
    notion.fill(3)
    fake.fail(notion.is_page, Fault(body=f'{{"results": [], "has_more": true, "next_cursor": {cursor}}}'))
    with pytest.raises(ProviderUnreachable, match="not where"):
        await parts_of(notion)


# --- what changed ---


@pytest.mark.spec("LS-08")
async def test_a_page_of_this_minute_is_due_once_more_and_then_no_longer(
    fake: FakeNotion, notion: NotionAccount
) -> None:
    """Two edits in one minute have one time: while it is young every listing has another version of the page."""
    page = fake.page(1, "Fresh", "x", edited=datetime.now(UTC).isoformat().replace("+00:00", "Z"))
    old = fake.page(2, "Old", "x")
    first = documents(await parts_of(notion))
    assert "seen" in str(first[page].version)
    assert first[old].version == EARLY
    now = datetime(2026, 2, 1, 10, 16, 30, tzinfo=UTC)
    young = [version_of(LATE, page, now + timedelta(seconds=at), 0) for at in (0, 20)]
    settled = [version_of(LATE, page, now + timedelta(minutes=at), 0) for at in (5, 50, 5_000)]
    assert len({*young, *settled}) == 3
    assert set(settled) == {LATE}


@pytest.mark.spec("LS-08")
def test_every_page_has_its_turn_to_be_read_anyhow() -> None:
    """An edit through the API, or of a synced original, leaves the time of a page as it was."""
    now = datetime(2026, 3, 1, tzinfo=UTC)
    days = [
        {id: version_of(LATE, id, now + timedelta(days=at), 30) for id in map(uuid, range(300))} for at in range(31)
    ]
    moved = [sum(one[id] != other[id] for id in one) for one, other in pairwise(days)]
    assert sum(moved) == 300
    assert max(moved) < 40
