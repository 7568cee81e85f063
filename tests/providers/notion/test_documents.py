"""Notion's documents: the block tree over the wire, its bounds, files, and properties that a page shows in part."""

from __future__ import annotations

import pytest

from kbsync.domain.errors import (
    CredentialsRefused,
    ItemGone,
    ItemUnreadable,
    ProviderBusy,
    ProviderRefused,
    ProviderUnreachable,
)
from kbsync.providers.contract import AssetSource, AudienceKind, Content, DocumentRef
from kbsync.providers.notion.render import NOT_SHOWN
from kbsync.providers.notion.tree import MAX_DEPTH
from tests.providers.fake_api import Fault
from tests.providers.listings import provider_of
from tests.providers.notion.fake import FakeNotion, NotionAccount, is_children
from tests.providers.notion.state import run, texts, uuid


async def fetched(account: NotionAccount, id: str) -> Content:
    async with provider_of(account) as provider:
        content = await provider.fetch_document(DocumentRef(id, None))
    assert isinstance(content, Content)
    return content


def nested(fake: FakeNotion, parent: str, depth: int) -> list[str]:
    """A list within a list, so many levels below `parent`; the texts in order."""
    said = []
    for level in range(depth):
        said.append(f"Level-{level:02}")
        parent = fake.block(parent, "bulleted_list_item", {"rich_text": texts(said[-1])})
    return said


@pytest.mark.spec("LS-08", "LS-18")
async def test_every_level_is_read_in_order(fake: FakeNotion, any_version: NotionAccount) -> None:
    """C04: toggle, columns, lists twelve deep, one level over several pages, and a type of next year with children."""
    page = fake.page(1, "Nested", "Begin")
    toggle = fake.block(page, "toggle", {"rich_text": texts("Toggle")})
    columns = fake.block(toggle, "column_list")
    left, right = fake.block(columns, "column"), fake.block(columns, "column")
    said = ["Begin", "Toggle", *nested(fake, left, 12)]
    for number in range(205):
        said.append(f"Item-{number:03}")
        fake.block(left, "bulleted_list_item", {"rich_text": texts(said[-1])})
    unknown = fake.block(right, "type_from_next_year", {"setting": True})
    fake.paragraph(unknown, "Below-unknown")
    fake.paragraph(page, "End")
    content = await fetched(any_version, page)
    places = [content.markdown.index(text) for text in [*said, "Below-unknown", "End"]]
    assert places == sorted(places)
    assert "type_from_next_year" not in content.markdown


@pytest.mark.spec("LS-08", "LS-18")
async def test_what_is_too_deep_or_too_much_is_no_shorter_text(fake: FakeNotion, notion: NotionAccount) -> None:
    """C04: the document is unreadable with its reason, so that what is stored stays."""
    deep = fake.page(1, "Deep")
    nested(fake, deep, MAX_DEPTH + 1)
    with pytest.raises(ItemUnreadable, match=f"deeper than {MAX_DEPTH} levels"):
        await fetched(notion, deep)
    within = fake.page(2, "Within")
    said = nested(fake, within, MAX_DEPTH)
    assert said[-1] in (await fetched(notion, within)).markdown
    wide = fake.page(3, "Wide")
    for number in range(9):
        fake.paragraph(fake.block(wide, "toggle", {"rich_text": texts(f"T{number}")}), "x")
    notion.settings = {"page_requests": 10}
    assert "T8" in (await fetched(notion, wide)).markdown
    fake.log.clear()
    notion.settings = {"page_requests": 9}
    with pytest.raises(ItemUnreadable, match="more requests than one page may"):
        await fetched(notion, wide)
    assert fake.asked_for(is_children) == 9


@pytest.mark.spec("LS-18")
async def test_a_document_costs_its_page_and_its_levels(fake: FakeNotion, notion: NotionAccount) -> None:
    page = fake.page(1, "Page", "x")
    fake.paragraph(fake.block(page, "toggle", {"rich_text": texts("t")}), "y")
    fake.page(2, "Child", under=page)
    table = fake.database(1, "Answers")
    fake.blocks[page].append({"id": table.id, "type": "child_database", "child_database": {"title": "Answers"}})
    fake.block(page, "unsupported", {"block_type": "form"}, has_children=True)
    content = await fetched(notion, page)
    assert len(fake.log) == 3
    assert "[Child](https://www.notion.so/" in content.markdown
    assert "[Answers](https://www.notion.so/" in content.markdown


@pytest.mark.spec("LS-18", "LS-27")
async def test_blocks_that_notion_refuses_are_left_out_and_the_page_stays(
    fake: FakeNotion, notion: NotionAccount
) -> None:
    page = fake.page(1, "Page", "Begin", public_url="https://acme.notion.site/x")
    odd = fake.block(page, "ai_block", {}, has_children=True)
    gone = fake.block(page, "toggle", {"rich_text": texts("Toggle")}, has_children=True)
    fake.paragraph(page, "End")
    fake.fail(lambda asked: odd in asked.path, Fault(400, '{"code": "validation_error", "message": "not supported"}'))
    fake.fail(lambda asked: gone in asked.path, Fault(404))
    content = await fetched(notion, page)
    assert content.markdown == "Begin\n\n- Toggle\n\nEnd"
    assert content.audience is not None
    assert content.audience.kind is AudienceKind.PUBLIC
    for fault, error in (
        (Fault(403), ItemUnreadable),
        (Fault(500), ProviderUnreachable),
        (Fault(429, headers={"Retry-After": "4"}), ProviderBusy),
        (Fault(401), CredentialsRefused),
    ):
        fake.heal()
        fake.fail(lambda asked: odd in asked.path, fault)
        with pytest.raises(error):
            await fetched(notion, page)
    for status in (400, 403, 404):
        fake.heal()
        fake.fail(lambda asked: asked.path == f"/v1/blocks/{page}/children", Fault(status))
        with pytest.raises(ItemUnreadable):
            await fetched(notion, page)


@pytest.mark.spec("LS-18")
async def test_a_synced_copy_shows_its_original_its_own_or_a_note(fake: FakeNotion, any_version: NotionAccount) -> None:
    here, elsewhere = fake.page(1, "Here"), fake.page(2, "Elsewhere")
    original = fake.block(elsewhere, "synced_block", {"synced_from": None})
    fake.paragraph(original, "Said once")
    for _ in range(2):
        fake.block(here, "synced_block", {"synced_from": {"type": "block_id", "block_id": original}})
    assert (await fetched(any_version, here)).markdown == "Said once\n\nSaid once"
    fake.unshared.add(original)
    own = fake.block(here, "synced_block", {"synced_from": {"type": "block_id", "block_id": original}})
    fake.paragraph(own, "A copy of its own")
    assert (await fetched(any_version, here)).markdown == f"{NOT_SHOWN}\n\n{NOT_SHOWN}\n\nA copy of its own"


@pytest.mark.spec("LS-18")
async def test_a_copy_within_its_own_original_ends(fake: FakeNotion, notion: NotionAccount) -> None:
    page = fake.page(1, "Page")
    original = fake.block(page, "synced_block", {"synced_from": None})
    fake.paragraph(original, "Round")
    fake.block(original, "synced_block", {"synced_from": {"type": "block_id", "block_id": original}})
    assert (await fetched(notion, page)).markdown == "Round"
    assert len(fake.log) == 3


@pytest.mark.spec("LS-18")
async def test_every_cell_of_a_table_is_there(fake: FakeNotion, any_version: NotionAccount) -> None:
    """C05: an empty cell, a pipe, a line break, a mention, a link and an equation."""
    page = fake.page(1, "Page")
    table = fake.block(page, "table", {"table_width": 3, "has_column_header": True, "has_row_header": False})
    mention = {"type": "mention", "mention": {"type": "page", "page": {"id": uuid(9)}}, "plain_text": "C1 page"}
    equation = {"type": "equation", "equation": {"expression": "C3"}, "plain_text": "C3"}
    for cells in (
        [texts("A1"), texts("A2"), texts("A3")],
        [texts("B1 | piped"), [], texts("B3\nsecond")],
        [[mention], [run("C2 link", "https://example.test/x")], [equation]],
    ):
        fake.block(table, "table_row", {"cells": cells})
    assert (await fetched(any_version, page)).markdown == (
        "| A1 | A2 | A3 |\n| --- | --- | --- |\n| B1 \\| piped |  | B3<br>second |\n"
        "| C1 page | [C2 link](https://example.test/x) | $C3$ |"
    )


@pytest.mark.spec("LS-18")
async def test_a_meetings_summary_and_notes_are_read_in_every_version(
    fake: FakeNotion, any_version: NotionAccount
) -> None:
    page = fake.page(1, "Page")
    parts = {
        name: uuid(number, 0xE)
        for number, name in enumerate(("summary_block_id", "notes_block_id", "transcript_block_id"))
    }
    fake.block(page, "meeting_notes", {"title": texts("Weekly"), "status": "notes_ready", "children": parts})
    for name, id in parts.items():
        fake.paragraph(id, f"of {name.removesuffix('_block_id')}")
    assert (await fetched(any_version, page)).markdown == "**Weekly**\n\nof summary\n\nof notes"


@pytest.mark.spec("LS-18")
async def test_a_cursor_that_dies_within_a_page_loses_and_doubles_nothing(
    fake: FakeNotion, notion: NotionAccount
) -> None:
    page = fake.page(1, "Page")
    said = [f"Line-{number:03}" for number in range(250)]
    for text in said:
        fake.paragraph(page, text)
    fake.dying_cursors = 1
    assert (await fetched(notion, page)).markdown.split("\n\n") == said
    fake.dying_cursors = 100
    with pytest.raises(ProviderUnreachable, match="lost its place"):
        await fetched(notion, page)


@pytest.mark.spec("LS-08")
async def test_a_trashed_page_is_gone_and_a_page_that_became_a_wiki_is_read_as_it_is(
    fake: FakeNotion, any_version: NotionAccount
) -> None:
    trashed = fake.page(1, "Trashed", "x", trashed=True)
    with pytest.raises(ItemGone, match="trash"):
        await fetched(any_version, trashed)
    wiki = fake.database(1, "A wiki", description="What we know")
    fake.paragraph(wiki.id, "Its own words")
    content = await fetched(any_version, wiki.id)
    assert (content.title, content.markdown) == ("A wiki", "What we know\n\nIts own words")
    empty = fake.database(2, "A table")
    with pytest.raises(ItemGone, match="rows are documents"):
        await fetched(any_version, empty.id)
    fake.databases[wiki.id].trashed = True
    with pytest.raises(ItemGone, match="trash"):
        await fetched(any_version, wiki.id)


@pytest.mark.spec("LS-18")
async def test_a_row_has_its_properties_above_its_text_and_all_of_a_relation(
    fake: FakeNotion, any_version: NotionAccount
) -> None:
    related = [{"id": uuid(number, 0xF)} for number in range(130)]
    properties = {
        "Next": {"id": "r%3A", "type": "relation", "relation": related[:25], "has_more": True},
        "Done": {"id": "d", "type": "checkbox", "checkbox": True},
    }
    row = fake.row(1, "Row", "Text", next(iter(fake.database(1, "Answers").sources)), properties=properties)
    items = [{"object": "property_item", "type": "relation", "relation": one} for one in related]
    fake.property_items[(row, "r:")] = items
    content = await fetched(any_version, row)
    assert content.markdown.startswith("- **Done:** Yes\n- **Next:** [https://www.notion.so/0f")
    assert content.markdown.endswith("\n\nText")
    assert content.markdown.count("https://www.notion.so/0f") == 2 * 130
    assert [asked.path for asked in fake.log if "properties" in asked.path] == [f"/v1/pages/{row}/properties/r:"] * 2
    fake.fail(lambda asked: "properties" in asked.path, Fault(404))
    with pytest.raises(ItemUnreadable, match="part of a property"):
        await fetched(any_version, row)


# --- files ---


def file_data(name: str, caption: str = "") -> dict[str, object]:
    return {"type": "file", "file": {"url": f"https://files.notion.test/{name}", "expiry_time": "2026-01-05T10:00:00.000Z"},
            "caption": texts(caption)}  # fmt: skip


@pytest.mark.spec("LS-25")
async def test_a_files_name_lasts_while_its_address_is_signed_anew(
    fake: FakeNotion, any_version: NotionAccount
) -> None:
    page, other = fake.page(1, "Page"), fake.page(2, "Other")
    toggle = fake.block(page, "toggle", {"rich_text": texts("More")})
    image = fake.block(toggle, "image", file_data("a%20b~c.png", "Screen"))
    original = fake.block(other, "synced_block", {"synced_from": None})
    copied = fake.block(original, "file", file_data("plan.pdf"))
    fake.block(page, "synced_block", {"synced_from": {"block_id": original}})
    secret = fake.block(other, "image", file_data("secret.png"))
    fake.pages[page].properties = {
        "Files": {"id": "f%3B", "type": "files", "files": [{"name": "Sheet", **file_data("s.csv")}]}
    }
    first, second = await fetched(any_version, page), await fetched(any_version, page)
    assert first.markdown == second.markdown
    assert "files.notion.test" not in first.markdown
    assert f"![Screen](kbsync-asset:{image}-image)" in first.markdown
    assert f"[plan.pdf](kbsync-asset:{copied}-file)" in first.markdown
    ref = DocumentRef(page, None)
    sheet = first.markdown.split("[Sheet](kbsync-asset:")[1].split(")")[0]
    async with provider_of(any_version) as provider:
        assert isinstance(provider, AssetSource)
        for name, path in ((f"{image}-image", "a%20b~c.png"), (f"{copied}-file", "plan.pdf"), (sheet, "s.csv")):
            one, two = [await provider.asset_url(ref, name) for _ in range(2)]
            assert one.startswith(f"https://files.notion.test/{path}?X-Amz-Signature=")
            assert one != two
        # The token may read the other page; who reads this document may not read its files through it.
        for name in (
            f"{secret}-image",
            f"{image}-pdf",
            f"{uuid(5)}-image",
            "../users/me",
            "",
            f"{page}-property-{'0' * 12}-0",
        ):
            with pytest.raises(ItemGone):
                await provider.asset_url(ref, name)


@pytest.mark.spec("LS-25")
async def test_a_file_of_a_page_that_is_gone_is_gone(fake: FakeNotion, notion: NotionAccount) -> None:
    page = fake.page(1, "Page")
    image = fake.block(page, "image", file_data("a.png"))
    async with provider_of(notion) as provider:
        assert isinstance(provider, AssetSource)
        fake.blocks[page].clear()
        with pytest.raises(ItemGone):
            await provider.asset_url(DocumentRef(page, None), f"{image}-image")
        del fake.pages[page]
        with pytest.raises(ItemGone):
            await provider.asset_url(DocumentRef(page, None), f"{image}-image")


@pytest.mark.spec("LS-07")
async def test_ids_never_leave_their_place_in_an_address(fake: FakeNotion, notion: NotionAccount) -> None:
    """Whatever an id is, it is one part of the path."""
    async with provider_of(notion) as provider:
        with pytest.raises((ItemGone, ProviderRefused)):
            await provider.fetch_document(DocumentRef("../users/me?x=1#y", None))
    assert (fake.log[0].path, fake.log[0].query) == ("/v1/pages/../users/me?x=1#y", {})
