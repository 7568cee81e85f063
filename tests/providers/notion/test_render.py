"""Notion's blocks, rich text and properties as Markdown: pure, against golden files."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest

from kbsync.providers.notion.payloads import title_of
from kbsync.providers.notion.properties import cut_properties, file_addresses, render_properties, with_items
from kbsync.providers.notion.render import NOT_SHOWN, render
from kbsync.providers.notion.rich_text import in_cell, inline
from kbsync.providers.notion.tree import Block
from tests.providers.notion.state import run, texts, uuid

GOLDEN = Path(__file__).parent / "golden"
_numbers = count(1)


def block(kind: str, *children: Block, text: str | list[dict[str, Any]] | None = None, **data: Any) -> Block:
    if text is not None:
        data["rich_text"] = texts(text) if isinstance(text, str) else text
    return Block(uuid(next(_numbers)), kind, data, children)


def fixed(number: int, kind: str, **data: Any) -> Block:
    return Block(uuid(number, 0xB), kind, data)


def row(*cells: str) -> Block:
    return block("table_row", cells=[texts(cell) for cell in cells])


HOSTED = {
    "type": "file",
    "file": {"url": "https://files.notion.test/a/Plan%20B.pdf?X-Amz-Signature=1", "expiry_time": "x"},
}
ELSEWHERE = {"type": "external", "external": {"url": "https://pictures.test/a (1).png"}}

# Name of the golden file -> the blocks.
PAGES: dict[str, list[Block]] = {
    "text": [
        block("paragraph", text="First"),
        block("paragraph", block("paragraph", text="Below it"), text="With a child"),
        block("paragraph", text=""),
        block("paragraph", text="# no heading\n- no item\n1. no number\n> no quote\n    no code"),
        block("heading_1", text="One"),
        block("heading_2", block("paragraph", text="Folded in"), text="Two\nlines", is_toggleable=True),
        block("heading_3", text="Three"),
        block("heading_4", text="Four"),
        block("heading_2", text=""),
        block("divider"),
        block("quote", block("bulleted_list_item", text="said in a list"), text="Said\nin two lines"),
        block("callout", block("paragraph", text="More"), text="Mind the gap", icon={"type": "emoji", "emoji": "⚠️"}),
        block("callout", text="Ours", icon={"type": "custom_emoji", "custom_emoji": {"name": "acme"}}),
        block("callout", text="No sign", icon={"type": "external", "external": {"url": "https://pictures.test/i.png"}}),
        block("equation", expression="e^{i\\pi} + 1 = 0"),
        block("equation", expression=None),
    ],
    "lists": [
        block("bulleted_list_item", text="one"),
        block("bulleted_list_item", block("bulleted_list_item", text="one a"), text="two"),
        block("bulleted_list_item", block("paragraph", text="its paragraph"), text="three"),
        block("numbered_list_item", text="first", list_start_index=4, list_format="roman"),
        block("numbered_list_item", block("numbered_list_item", text="inner"), text="second"),
        block("paragraph", text="between"),
        block("numbered_list_item", text="first again"),
        block("to_do", text="open", checked=False),
        block("to_do", block("to_do", text="done", checked=True), text="not said"),
        block("toggle", block("paragraph", text="hidden by the toggle"), block("code", text="a\nb"), text="More"),
        block("bulleted_list_item", text="two\nlines"),
        block("bulleted_list_item", text=""),
        *[block("numbered_list_item", text=f"n{number}") for number in range(1, 11)],
    ],
    "code": [
        block("code", text="a = 1 * 2\nb_c", language="python"),
        block("code", text="plain *text*", language="plain text"),
        block("code", text="```\ninside\n````", language="markdown", caption=texts("A caption")),
        block("code", text=[run("bold", bold=True), run(" and not")], language="c++"),
        block("code", text="", language=None),
    ],
    "tables": [
        block("table", row("Name", "Use"), row("a|b", "x\ny"), row("only"), table_width=2, has_column_header=True),
        block("table", row("no", "header"), table_width=2, has_column_header=False),
        block("table", row("wider", "than", "said"), table_width=2, has_column_header=True, has_row_header=True),
        block("table", table_width=2, has_column_header=True),
        block("table", Block("r", "table_row", {"cells": None}), Block("s", "table_row", {"cells": [None, 5, [{}]]})),
    ],
    "layout": [
        block(
            "column_list",
            block("column", block("paragraph", text="left"), block("bulleted_list_item", text="left list")),
            block("column", block("paragraph", text="right")),
        ),
        block("tab", block("paragraph", block("paragraph", text="in the tab"), text="A tab's name")),
        block("synced_block", block("paragraph", text="synced"), synced_from=None),
        block("synced_block", synced_from={"block_id": "x"}, is_hidden=True),
        fixed(1, "child_page", title="A [page]"),
        fixed(2, "child_database", title="A table"),
        fixed(3, "child_page", title=None),
        block("link_to_page", type="page_id", page_id=uuid(7)),
        block("link_to_page", type="database_id", database_id=uuid(8)),
        block("link_to_page", type="comment_id", comment_id=uuid(9)),
        block("table_of_contents", color="gray"),
        block("breadcrumb"),
        block("template", text="A button"),
        block("unsupported", block_type="form"),
        block("meeting_notes", block("paragraph", text="Summary"), title=texts("Weekly"), status="ok"),
        block("transcription", block("paragraph", text="Notes"), title=texts("Daily")),
        block("type_from_next_year", block("paragraph", text="below it"), text="its text"),
        block("ai_block"),
        block("another_year", title="A title that is plain"),
    ],
    "media": [
        fixed(11, "image", caption=texts("A *screen*"), **HOSTED),
        fixed(12, "image", caption=[], **ELSEWHERE),
        fixed(13, "video", caption=texts("Film"), **ELSEWHERE),
        fixed(14, "audio", **HOSTED),
        fixed(15, "file", name="Plan.pdf", caption=texts("unused"), **HOSTED),
        fixed(16, "pdf", caption=[], **HOSTED),
        fixed(17, "image", type="file", file=None, caption=texts("no address")),
        fixed(18, "file", type="external", external={"url": "javascript:alert(1)"}),
        block("bookmark", url="https://example.test/a", caption=texts("A page")),
        block("embed", url="https://example.test/b", caption=[]),
        block("link_preview", url="https://example.test/c_d"),
        block("bookmark", url="javascript:alert(1)", caption=texts("no link")),
    ],
}  # fmt: skip


@pytest.mark.spec("LS-18", "LS-25")
@pytest.mark.parametrize("name", PAGES)
def test_blocks_become_markdown(name: str) -> None:
    assert render(PAGES[name]) + "\n" == (GOLDEN / f"{name}.md").read_text(encoding="utf-8")


def test_no_type_name_and_no_signature_is_in_a_text() -> None:
    whole = "\n".join(render(page) for page in PAGES.values())
    assert NOT_SHOWN in whole
    for name in ("table_row", "unsupported", "synced_block", "Signature", "ai_block", "type_from_next_year"):
        assert name not in whole


@pytest.mark.parametrize(
    ("runs", "markdown"),
    [
        ([run("a"), run(" b ", bold=True), run("c")], "a **b** c"),
        ([run("a", bold=True), run("b", bold=True), run("c", italic=True)], "**ab***c*"),
        ([run("x", bold=True, italic=True, strikethrough=True)], "~~***x***~~"),
        ([run("a*b_c", code=True), run(" d")], "`a*b_c` d"),
        ([run("tick ` tick", code=True, bold=True)], "**``tick ` tick``**"),
        ([run("`", code=True)], "`` ` ``"),
        ([run(" ", bold=True), run("x")], "x"),
        ([run("one\n\ntwo", bold=True)], "**one**\n\n**two**"),
        ([run("u", underline=True)], "u"),
        ([run("snake_case _x_ 2*3 [a] `b` \\ ~~c~~")], "snake_case \\_x\\_ 2\\*3 \\[a\\] \\`b\\` \\\\ \\~\\~c\\~\\~"),
        ([run("<b> a < b &amp; R&D")], "\\<b> a < b \\&amp; R&D"),
        ([run("here", "https://example.test/a b(c)")], "[here](https://example.test/a%20b%28c%29)"),
        ([run(" bold", "https://example.test/", bold=True)], "[**bold**](https://example.test/)"),
        ([run("a page", "/11111111111141118111111111111111")], "[a page](https://www.notion.so/11111111111141118111111111111111)"),
        ([run("no", "javascript:alert(1)")], "no"),
        ([run("mail", "mailto:a@b.test")], "[mail](mailto:a@b.test)"),
        ([{"type": "equation", "equation": {"expression": "a_1*b"}, "plain_text": "a_1*b"}], "$a_1*b$"),
        ([{"type": "text", "plain_text": "bare"}], "bare"),
        ([{"type": "text", "text": {"content": "only content"}}], "only content"),
        ([None, "x", {}, {"type": 5, "plain_text": 7, "annotations": "bold", "href": 3}], ""),
        (None, ""),
        ("not a list", ""),
    ],
)  # fmt: skip
def test_rich_text(runs: Any, markdown: str) -> None:
    assert inline(runs) == markdown


def mention(kind: str, about: dict[str, Any], text: str, href: str | None = None) -> dict[str, Any]:
    return {"type": "mention", "mention": {"type": kind, kind: about}, "plain_text": text, "href": href}


@pytest.mark.parametrize(
    ("run", "markdown"),
    [
        (mention("user", {"id": "u"}, "@Ada L"), "@Ada L"),
        (mention("user", {"id": "u", "name": "Ada"}, ""), "@Ada"),
        (mention("page", {"id": "p"}, "Refunds", "https://www.notion.so/p"), "[Refunds](https://www.notion.so/p)"),
        (mention("database", {"id": "d"}, "Table", None), "Table"),
        (mention("date", {"start": "2026-01-05", "end": None}, "x"), "2026-01-05"),
        (mention("date", {"start": "2026-01-05", "end": "2026-01-07"}, "x"), "2026-01-05 – 2026-01-07"),
        (mention("link_mention", {"href": "https://a.test/", "title": "A"}, "x"), "[A](https://a.test/)"),
        (mention("link_preview", {"url": "https://a.test/p"}, "x"), "[https://a.test/p](https://a.test/p)"),
        (mention("template_mention", {"type": "template_mention_date"}, "@Today"), "@Today"),
        (mention("custom_emoji", {"name": "acme"}, ":acme:"), ":acme:"),
        (mention("from_next_year", {}, "its text"), "its text"),
        ({"type": "mention", "mention": None, "plain_text": None}, ""),
    ],
)
def test_mentions(run: dict[str, Any], markdown: str) -> None:
    assert inline([run]) == markdown


def test_a_cells_pipes_and_lines() -> None:
    assert in_cell([run("a|b\nc"), run("d|e", code=True)]) == "a\\|b<br>c`d\\|e`"


FILES = [{"name": "Plan.pdf", **HOSTED}, {"name": "Pic", **ELSEWHERE}, {"name": "none"}, None]
PAGE = {
    "id": uuid(1),
    "properties": {
        "Name": {"id": "title", "type": "title", "title": [run("Ro"), run("w", bold=True)]},
        "Text": {"id": "a", "type": "rich_text", "rich_text": [run("bold", bold=True), run("\nnext")]},
        "Number": {"id": "b", "type": "number", "number": 3.0},
        "Half": {"id": "b2", "type": "number", "number": 0.5},
        "Zero": {"id": "b3", "type": "number", "number": 0},
        "Select": {"id": "c", "type": "select", "select": {"name": "a_b_"}},
        "Status": {"id": "d", "type": "status", "status": {"name": "Done"}},
        "Tags": {"id": "e", "type": "multi_select", "multi_select": [{"name": "x"}, {"name": None}, {"name": "y"}]},
        "Date": {"id": "f", "type": "date", "date": {"start": "2026-01-05", "end": None}},
        "People": {"id": "g", "type": "people", "people": [{"name": "Ada"}, {"id": "hidden"}]},
        "Files": {"id": "h", "type": "files", "files": FILES},
        "Done": {"id": "i", "type": "checkbox", "checkbox": False},
        "Web": {"id": "j", "type": "url", "url": "https://example.test/a_b"},
        "Mail": {"id": "k", "type": "email", "email": "a@b.test"},
        "Phone": {"id": "l", "type": "phone_number", "phone_number": "+1 2"},
        "Sum": {"id": "m", "type": "formula", "formula": {"type": "string", "string": "f*"}},
        "Is": {"id": "m2", "type": "formula", "formula": {"type": "boolean", "boolean": True}},
        "Void": {"id": "m3", "type": "formula", "formula": {"type": "string", "string": None}},
        "Next": {"id": "n", "type": "relation", "relation": [{"id": uuid(2)}], "has_more": False},
        "Roll": {"id": "o", "type": "rollup", "rollup": {"type": "array", "array": [
            {"type": "number", "number": 1}, {"type": "title", "title": [run("T")]}, {"type": "date", "date": None}]}},
        "Count": {"id": "p", "type": "rollup", "rollup": {"type": "number", "number": 7, "function": "count"}},
        "Id": {"id": "q", "type": "unique_id", "unique_id": {"prefix": "ACME", "number": 12}},
        "Check": {"id": "r", "type": "verification", "verification": {"state": "verified"}},
        "By": {"id": "s", "type": "created_by", "created_by": {"name": "Ada"}},
        "At": {"id": "t", "type": "created_time", "created_time": "2026-01-05T09:00:00.000Z"},
        "Edited": {"id": "u", "type": "last_edited_time", "last_edited_time": "2026-02-01T10:15:00.000Z"},
        "Editor": {"id": "v", "type": "last_edited_by", "last_edited_by": {"name": "Ada"}},
        "Button": {"id": "w", "type": "button", "button": {}},
        "Null": None,
        "Empty": {"id": "x", "type": "select", "select": None},
        "New": {"id": "y", "type": "type_from_next_year", "type_from_next_year": {"z": 1}},
    },
}  # fmt: skip


@pytest.mark.spec("LS-18", "LS-25")
def test_properties_stand_in_a_list_by_their_names() -> None:
    assert render_properties(PAGE) + "\n" == (GOLDEN / "properties.md").read_text(encoding="utf-8")
    assert title_of(PAGE) == "Row"


def test_a_file_of_a_property_is_found_by_its_lasting_name() -> None:
    (name,) = [name for name in file_addresses(PAGE) if name in render_properties(PAGE)]
    assert file_addresses(PAGE)[name].endswith("X-Amz-Signature=1")


def test_a_property_that_is_cut_is_told_and_completed() -> None:
    people = [{"object": "user", "name": f"P{number}"} for number in range(25)]
    page: dict[str, dict[str, dict[str, Any]]] = {
        "properties": {
            "Full": {"id": "a", "type": "people", "people": people},
            "More": {"id": "b%3A", "type": "relation", "relation": [], "has_more": True},
            "Few": {"id": "c", "type": "people", "people": people[:24]},
        }
    }
    assert cut_properties(page) == [("Full", "a"), ("More", "b%3A")]
    items = [{"type": "relation", "relation": {"id": uuid(number)}} for number in range(3)] + [None, {"relation": 5}]
    assert len(with_items(page["properties"]["More"], items)["relation"]) == 3
