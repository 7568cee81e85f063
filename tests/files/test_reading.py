"""Bytes of a file to Markdown: front matter, links, encodings."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbsync.providers.files.reading import decoded, is_document, read_document, split_front_matter


def test_front_matter_gives_title_and_language_and_is_not_content() -> None:
    content = read_document("a.md", b"---\ntitle: 'How to: start'\nlang: de\ntags: [a]\n---\n\n# Other\n\nText\n", None)
    assert (content.title, content.language, content.markdown) == ("How to: start", "de", "# Other\n\nText")
    assert read_document("a.md", b'+++\ntitle = "T"\n+++\nx', None).title == "T"


def test_titles_without_front_matter_come_from_the_heading_then_the_name() -> None:
    assert read_document("a.md", b"```\n# no\n```\n\n## Real `title` {#x}\n", None).title == "Real title"
    assert read_document("guide/set-up_now.md", b"text", None).title == "set up now"
    assert read_document("x/page.html", b"<title>T</title><p>x</p>", None).title == "T"


@pytest.mark.spec("SE-05", "RB-04")
@pytest.mark.parametrize(
    "header",
    [
        "a: &a [x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: [*b,*b,*b,*b,*b,*b,*b,*b]\ntitle: no",
        "title: " + "[" * 8_000,
        "- " * 4_000 + ": x",
        "title: " + "x" * 20_000,
        "title: !!python/object/apply:os.system ['true']",
        "title: [unclosed",
        "just: text\n- and: list",
        "? {a: b}\n: c",
        "date: 2024-99-99",
        "x: 1e999999\ny: 0b2",
    ],
)
def test_front_matter_that_is_a_trap_costs_nothing_but_itself(header: str) -> None:
    started = time.process_time()
    content = read_document("a.md", f"---\n{header}\n---\n\nThe text.\n".encode(), None)
    assert content.markdown == "The text."
    assert content.title in ("a", "no")
    assert time.process_time() - started < 2


@pytest.mark.spec("RB-04")
@settings(max_examples=300, deadline=None)
@given(st.text(st.sampled_from("---\n:[]{}&*!|>'\"#ax \t,?%@`+=0"), max_size=80), st.sampled_from(["---", "+++"]))
def test_any_front_matter_is_survived(header: str, mark: str) -> None:
    _, text = split_front_matter(f"{mark}\n{header}\n{mark}\ntext")
    assert text.endswith("text")


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300), st.sampled_from(["a.md", "a.html", "a.txt", "README"]))
def test_any_bytes_are_text_or_refused(data: bytes, name: str) -> None:
    try:
        content = read_document(name, data, "https://docs.example")
    except ValueError:
        return
    assert "\x00" not in content.markdown + content.title


def test_relative_links_become_addresses_or_paths_and_code_stays() -> None:
    source = (
        "[a](../b.md#x) ![i](img/i.png) [c](https://else.example/) [d](#here) [m](mailto:x@y.example)\n\n"
        "[ref]: ./c.md 'Title'\n\n```\n[code](../b.md)\n```\n"
    )
    at_home = read_document("guide/a.md", source.encode(), "https://docs.example/v1")
    assert "[a](https://docs.example/v1/b.md#x)" in at_home.markdown
    assert "![i](https://docs.example/v1/guide/img/i.png)" in at_home.markdown
    assert "[ref]: https://docs.example/v1/guide/c.md 'Title'" in at_home.markdown
    assert "[c](https://else.example/) [d](#here) [m](mailto:x@y.example)" in at_home.markdown
    assert "[code](../b.md)" in at_home.markdown
    alone = read_document("guide/a.md", source.encode(), None)
    assert "[a](b.md#x)" in alone.markdown
    assert read_document("a.md", b"[x](../../../etc/passwd)", None).markdown == "[x](etc/passwd)"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("Größe".encode(), "Größe"),
        ("Größe".encode("utf-8-sig"), "Größe"),
        ("Größe".encode("utf-16"), "Größe"),
        ("Größe".encode("cp1252"), "Größe"),
        ("“x” – €".encode("cp1252"), "“x” – €"),
        (b"\x81\xff", "\x81ÿ"),
    ],
)
def test_encodings(data: bytes, text: str) -> None:
    assert decoded(data) == text


def test_html_says_its_own_encoding() -> None:
    page = "<meta charset=windows-1251><p>Привет".encode("cp1251")
    assert read_document("a.html", page, None).markdown == "Привет"


def test_plain_text_is_shown_as_it_is_and_makes_no_headings() -> None:
    content = read_document("notes.txt", b"# 1 apple\n```\nplain\n", None)
    assert content.markdown == "\\# 1 apple\n\\```\nplain"
    assert content.title == "notes"


@pytest.mark.spec("LS-13")
def test_nul_in_a_page_goes_and_binary_without_a_name_for_text_is_refused() -> None:
    assert read_document("a.md", b"be\x00fore", None).markdown == "before"
    with pytest.raises(ValueError, match="not a text file"):
        read_document("LICENSE", b"\x7fELF\x00\x01", None)


def test_what_is_read_is_told_by_the_name() -> None:
    assert all(is_document(name, named=False) for name in ("a.md", "x/b.HTML", "c.txt", "README", "LICENSE"))
    assert not any(is_document(name, named=False) for name in ("a.png", "a.md.bak", "Makefile", "a.py"))
    assert is_document("Makefile", named=True)
    assert not is_document("a.png", named=True)
