"""The storage format as Markdown: golden files of our own making, and what must hold for any input (C08)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbsync.providers.confluence.macros import PageContext, attachment_name
from kbsync.providers.confluence.render import files_of_view, mentioned, render, render_view

GOLDEN = Path(__file__).parent / "golden"
NAMES = {"5b10a": "Ada Lovelace", "ff80": "Grace Hopper"}
PAGE = PageContext("https://acme.test/wiki", "SUP", NAMES)
URL = "https://acme.test/wiki/spaces/SUP/pages/1001"
FILES = {
    "{plan}": "plan (final).pdf",
    "{flow}": "flow.png",
    "{words}": "no words.png",
    "{manual}": "manual.pdf",
    "{picture}": "p.png",
}
MACRO = '<ac:structured-macro ac:name="{}"><ac:rich-text-body>{}</ac:rich-text-body></ac:structured-macro>'


def rendered(storage: str) -> str:
    return render(storage, PAGE, url=URL)


def without_padding(markdown: str) -> str:
    """Tables are padded for the eye; golden files leave that out."""
    lines = [re.sub(r" {2,}\|", " |", re.sub(r"\| {2,}", "| ", line)) if line.startswith("|") else line.rstrip()
             for line in markdown.strip().split("\n")]  # fmt: skip
    return re.sub(r"\n{3,}", "\n\n", re.sub(r"-{3,}", "---", "\n".join(lines)))


@pytest.mark.spec("LS-18")
@pytest.mark.parametrize("name", sorted(path.stem for path in GOLDEN.glob("*.xml")))
def test_every_element_becomes_the_markdown_that_we_wrote(name: str) -> None:
    expected = (GOLDEN / f"{name}.md").read_text()
    for mark, filename in FILES.items():
        expected = expected.replace(mark, attachment_name(filename))
    assert without_padding(rendered((GOLDEN / f"{name}.xml").read_text())) == without_padding(expected)


@pytest.mark.parametrize(
    ("storage", "text"),
    [
        ("", ""),
        ("<p>open <strong>and never", "open **and never**"),
        ('<ac:structured-macro ac:name="info"><ac:rich-text-body><p>cut off', "> **Info**\n>\n> cut off"),
        ("</ac:link></ri:page></td>text</ac:structured-macro>", "text"),
        ('<ac:structured-macro ac:name="code"><ac:plain-text-body><![CDATA[never ends', "```\nnever ends\n```"),
        ("1 < 2 and <not a tag, <!-- no end", "1 < 2 and <not a tag, no end"),
        ("<!-- gone --><p>kept</p>", "kept"),
        ('<!DOCTYPE x [<!ENTITY a "b">]><p>&a;</p>', "<!DOCTYPE x []> &a;"),
        ("<?xml version='1.0'?><p>text</p>", "text"),
        ("<P>upper</P><BR/>case", "upper\n\ncase"),
        ("<ac:link/><ac:image/><ac:emoticon/><ac:structured-macro/><ac:task/>", "- [ ]"),
        ("<p>\ue0000\ue001 \ue002</p>", "0"),
        ("<p>a &#xe000;7&#xe001; b</p><table><tr><td>c&#xe000;7&#xe001;</td></tr></table>", "a b | | | ---- | | c |"),
    ],
)
def test_what_is_broken_keeps_its_text(storage: str, text: str) -> None:
    assert " ".join(rendered(storage).split()) == " ".join(text.split())


def test_an_entity_is_never_expanded() -> None:
    laughs = '<!DOCTYPE l [<!ENTITY a "haha"><!ENTITY b "&a;&a;&a;&a;">]><p>&b;</p>'
    assert "haha" not in rendered(laughs).split("\n")[-1]


@pytest.mark.parametrize(
    "storage",
    [
        "".join(MACRO.format("info", "") .split("</ac:rich")[0] for _ in range(20_000)) + "last",
        "<table><tbody><tr><td>" * 20_000 + "last",
        "<div>" * 50_000 + "last",
        "<ac:link><ac:link-body>" * 20_000 + "last",
        "<!--" * 200_000 + "last",
        '<a "' * 100_000 + "last",
        "</ac:x>" * 200_000 + "last",
        '<table><tr><td colspan="100" rowspan="500">x</td></tr>' + "<tr></tr>" * 20_000 + "</table>last",
        "<ac:structured-macro ac:name='code'><ac:plain-text-body><![CDATA[" + "a < b\n" * 100_000 + "last",
    ],
    ids=["macros", "tables", "divs", "links", "comments", "quotes", "ends", "spans", "code"],
)  # fmt: skip
def test_depth_and_size_are_bounded_and_the_text_stays(storage: str) -> None:
    markdown = rendered(storage)
    assert "last" in markdown
    assert len(markdown) < 2 * len(storage) + 10_000


@given(st.lists(st.sampled_from([
    '<ac:structured-macro ac:name="info">', '<ac:structured-macro ac:name="x">', "</ac:structured-macro>",
    "<ac:rich-text-body>", "</ac:rich-text-body>", "<ac:plain-text-body>", "</ac:plain-text-body>",
    '<ac:parameter ac:name="title">', "</ac:parameter>", "<ac:link>", "</ac:link>", '<ri:page ri:content-title="T"/>',
    "<ac:image>", "</ac:image>", "<![CDATA[", "]]>", "<table>", "</table>", "<tr>", "</tr>", "<td>", "</td>", "<p>", "</p>",
    "<ac:task-list>", "<ac:task>", "</ac:task>", "</ac:task-list>", "word", "&amp;", "<", ">", "\"", "<pre>", "</pre>",
]), max_size=40))  # fmt: skip
def test_no_name_of_the_format_is_left_whatever_is_nested(parts: list[str]) -> None:
    storage = "".join(parts)
    markdown = rendered(storage)
    if "<![CDATA[" not in storage:
        assert not re.search(r"</?(?:ac|ri):", markdown)


OWN = (
    '<ac:structured-macro ac:name="markdown"><ac:plain-text-body><![CDATA[# one\n\n- *two*]]></ac:plain-text-body>'
    "</ac:structured-macro>"
)


def test_an_authors_own_markdown_stays_where_it_stands() -> None:
    assert rendered(OWN) == "# one\n\n- *two*"
    assert rendered(MACRO.format("info", OWN)) == "> **Info**\n>\n> # one\n> \n> - *two*"
    assert rendered(f"<ul><li>{OWN}</li></ul>") == "- # one\n  \n  - *two*"
    assert "| # one<br>- *two* |" in rendered(f"<table><tr><td>{OWN}</td></tr></table>")


def test_a_view_has_lasting_names_for_its_files() -> None:
    html = '<p>Seen</p><img src="/wiki/download/attachments/1/a.png?version=2&amp;modificationDate=17" alt="A">'
    markdown = render_view(html, url=URL)
    assert markdown == render_view(html.replace("version=2", "version=3"), url=URL)
    assert "kbsync-asset:" in markdown
    (address,) = files_of_view(html, url=URL).values()
    assert address.startswith("https://acme.test/wiki/download/attachments/1/a.png?version=2")


def test_people_are_asked_for_once_each_and_bounded() -> None:
    one = '<ac:link><ri:user ri:account-id="5b10a" /></ac:link>'
    many = "".join(f'<ri:user ri:userkey="k{number}" />' for number in range(500))
    found = mentioned(one * 3 + many)
    assert found[:2] == [("account-id", "5b10a"), ("userkey", "k0")]
    assert len(found) == 100
