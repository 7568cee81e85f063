"""Files, Markdown and chunks of any text: nothing lost, nothing too long, no error but the typed one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbsync.domain.chunking import MIN_SIZE, chunk
from kbsync.domain.markdown import blocks, plain_text, plain_title
from kbsync.domain.text import (
    SEARCHABLE_BYTES,
    cap,
    has_unstorable_characters,
    searchable_query,
    searchable_text,
    storable,
)
from kbsync.providers.files.reading import MAX_TITLE, read_document, split_front_matter
from tests.fuzz.bounded import fuzzed

pytestmark = pytest.mark.spec("RB-04")

LINES = st.lists(
    st.sampled_from(
        ["---", "+++", "title: x", "title = 'x'", "a: &a [*a, *a]", "# One", "## Two {#two}", "===", "```py", "~~~", "````",
         "- item", "   - deeper", "1. one", "> quote", "| a | b |", "|---|---|", "<div>", "</div>", "<!--", "-->",
         "    code", "\tcode", "", "", "**term** {#t}", "[x](y 'z')", "[a]: ../b.md", "漢字かな" * 9, "w" * 600,
         "\U0001f469\u200d\U0001f467" * 20, "\ufeff", "{{{{[[[["]
    )
    | st.text(max_size=40),
    max_size=40,
).map("\n".join)  # fmt: skip


@fuzzed(150)
@given(LINES, st.integers(MIN_SIZE, 400), st.integers(0, 200))
def test_chunks_hold_the_whole_text_and_stay_small(markdown: str, size: int, overlap: int) -> None:
    chunks = chunk(markdown, size=size, overlap=overlap)
    covered = 0
    for one in chunks:
        assert len(one.text) <= size
        assert one.text == one.prefix + markdown[one.start : one.end] + one.suffix
        assert not markdown[covered : one.start].strip(), "text between two chunks"
        covered = max(covered, one.end)
    assert not markdown[covered:].strip(), "text behind the last chunk"
    assert [one.position for one in chunks] == list(range(len(chunks)))


@fuzzed(120)
@given(LINES)
def test_blocks_follow_one_another(markdown: str) -> None:
    at = 0
    for block in blocks(markdown):
        assert at <= block.start < block.end
        assert not markdown[at : block.start].strip()
        at = block.end
    assert not markdown[at:].strip()
    assert len(plain_text(markdown)) <= len(markdown)
    assert "\n" not in plain_title(markdown)


@fuzzed(150)
@given(
    st.sampled_from(["a.md", "a.html", "a.txt", "README", "x/y.rst"]),
    LINES.map(lambda t: t.encode("utf-8", "replace")) | st.binary(max_size=200),
)
def test_any_file_is_a_document_or_says_why_not(name: str, data: bytes) -> None:
    try:
        content = read_document(name, data, "https://docs.example/")
    except ValueError:
        return  # its words are an editor's (tests/files)
    assert not has_unstorable_characters(content.markdown + content.title)
    assert content.title.strip()


@fuzzed(120)
@given(st.sampled_from(["---", "+++"]), LINES)
def test_front_matter_is_read_or_left_out(mark: str, lines: str) -> None:
    front, body = split_front_matter(f"{mark}\n{lines}\n{mark}\nbody")
    assert body.endswith("body")
    assert front.title is None or len(front.title) <= MAX_TITLE


@fuzzed(150)
@given(st.text(max_size=600) | LINES, st.integers(1, 300))
def test_text_that_postgres_takes(text: str, limit: int) -> None:
    kept, was_cut = cap(storable(text), limit)
    assert len(kept) <= limit
    assert was_cut == (kept != storable(text))
    assert not has_unstorable_characters(storable(text))
    storable(text).encode()
    searchable, _ = searchable_text(storable(text))
    assert len(searchable.encode("utf-8", "ignore")) <= SEARCHABLE_BYTES
    assert max((len(word.encode("utf-8", "ignore")) for word in searchable.split()), default=0) < 2_047
    assert not has_unstorable_characters(searchable_query(text))
