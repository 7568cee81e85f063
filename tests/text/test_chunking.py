"""Chunks: structure is kept, positions are exact, nothing is lost, and it always ends (E03, E04, E05)."""

from __future__ import annotations

import itertools
import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbsync.domain.chunking import MIN_SIZE, Chunk, chunk, estimated_tokens
from kbsync.domain.text import grapheme_boundary

FENCED = """# Alpha

Before.

```python
# a comment, no heading
value = 1
---
## nor this
```

~~~sh
# nor this
echo done
~~~

Between.

# Beta

```
| left | right |
|------|-------|
# verbatim
```

    # indented code

Over.
"""


def checked(document: str, size: int, overlap: int = 0) -> list[Chunk]:
    """The chunks, after what must hold for every document: E04's invariants."""
    chunks = chunk(document, size=size, overlap=overlap)
    covered = 0
    for number, one in enumerate(chunks):
        assert one.position == number
        assert one.text == one.prefix + document[one.start : one.end] + one.suffix
        assert document[one.start : one.end].strip()
        assert len(one.text) <= size
        assert not document[covered : one.start].strip(), "text between two chunks is lost"
        assert covered - one.start <= overlap
        assert number == 0 or one.start > chunks[number - 1].start
        assert one.end > covered or number == 0
        covered = one.end
    assert not document[covered:].strip(), "text after the last chunk is lost"
    return chunks


def fences(text: str) -> int:
    return sum(line.lstrip("> ").startswith(("```", "~~~")) for line in text.splitlines())


# --- structure ----------------------------------------------------------------------------------------------------


@pytest.mark.spec("LS-20")
@pytest.mark.parametrize("size", [60, 100, 400, 1_600])
def test_a_comment_in_code_is_no_heading_and_fences_stay_whole(size: int) -> None:
    chunks = checked(FENCED, size)
    assert {one.heading_path for one in chunks} == {("Alpha",), ("Beta",)}
    assert all(fences(one.text) % 2 == 0 for one in chunks)
    code = "```python\n# a comment, no heading\nvalue = 1\n---\n## nor this\n```"
    assert size < len(code) or any(code in one.text for one in chunks)


@pytest.mark.spec("LS-20")
@pytest.mark.parametrize(
    "verbatim",
    [
        "---\ntitle: x\n# yaml comment\n---\n\n",
        "<pre>\n# raw\n\n# still raw\n</pre>\n",
        "<!--\n# hidden\n\n# hidden\n-->\n",
        "> ```\n> # quoted code\n> ```\n",
        "- item\n\n  ```\n  # code of an item\n  ```\n",
        "- ```\n  # code that is an item\n  ```\n",
        "````\n```\n# inside a longer fence\n````\n",
        "```\n# never closed\n",
        "| a |\n|---|\n| # cell |\n",
    ],
)
def test_what_only_looks_like_a_heading(verbatim: str) -> None:
    assert {one.heading_path for one in checked(verbatim, 400)} == {()}


@pytest.mark.spec("LS-20")
def test_the_path_follows_levels_setext_and_anchors() -> None:
    document = (
        "Top\n===\n\nIntro that is long enough to stand alone in a chunk.\n\n"
        "## One `code` and [link](x) {#one}\n\nText of one, also long enough to stand alone.\n\n"
        "### Deep ##\n\nText of deep, which is long enough as well, surely.\n\n"
        "Two\n---\n\nText of two, which is long enough as well, surely.\n"
    )
    found = [(one.heading_path, one.anchor) for one in checked(document, 100)]
    assert found == [
        (("Top",), None),
        (("Top", "One code and link"), "one"),
        (("Top", "One code and link", "Deep"), None),
        (("Top", "Two"), None),
    ]


@pytest.mark.spec("LS-20")
def test_a_term_with_an_anchor_is_where_a_link_leads() -> None:
    text = "A definition that is long enough. " * 3
    document = f"# Settings {{#s}}\n\n**`first`** {{#first}}\n\n{text}\n\n**`second`** {{#second}}\n\n{text}\n"
    assert [one.anchor for one in checked(document, 150)] == ["first", "second"]


@pytest.mark.spec("LS-20")
def test_a_heading_is_not_left_at_the_end_of_a_chunk() -> None:
    document = "".join(f"{'word ' * 12}\n\n**Term {number}**\n\n{'text ' * 12}\n\n" for number in range(20))
    assert not any(one.text.rstrip().endswith("**") for one in checked(document, 150))


@pytest.mark.spec("LS-20")
def test_long_code_is_cut_at_line_ends_with_the_fence_opened_again() -> None:
    lines = [f"line {number:03} = {number}" for number in range(100)]
    document = "# Code\n\n```python title=x\n" + "\n".join(lines) + "\n```\n\nAfter.\n"
    chunks = checked(document, 200, 40)
    assert all(fences(one.text) == 2 for one in chunks if "line" in one.text)
    assert all(one.text.startswith("```python\n") for one in chunks[1:-1])
    shown = [line for one in chunks for line in one.text.splitlines() if line.startswith("line")]
    assert shown == lines


@pytest.mark.spec("LS-20")
def test_long_tables_are_cut_between_rows_with_the_header_repeated() -> None:
    rows = [f"| name {number} | value {number} |" for number in range(60)]
    document = "| Name | Value |\n|---|---|\n" + "\n".join(rows) + "\n"
    chunks = checked(document, 200, 30)
    assert len(chunks) > 5
    assert all(one.text.startswith("| Name | Value |\n|---|---|\n") for one in chunks)
    assert [line for one in chunks for line in one.text.splitlines()[2:]] == rows


@pytest.mark.spec("LS-20")
def test_a_row_over_the_limit_is_cut_and_nothing_of_it_lost() -> None:
    wide = "| " + "cell " * 100 + "|"
    document = f"| Head |\n|---|\n| short |\n{wide}\n| short |\n"
    chunks = checked(document, 120)
    assert sum(one.text.count("cell") for one in chunks) == 100


# --- characters ---------------------------------------------------------------------------------------------------


@pytest.mark.spec("LS-20")
@pytest.mark.parametrize(
    "text",
    [
        "Größe äußert übermäßig. " * 60,
        "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466" * 120,
        "\U0001f1e9\U0001f1ea\U0001f1ef\U0001f1f5" * 120,
        "e\u0301" * 500,
        "مرحبا بالعالم هذا نص طويل. " * 40,
        "漢字" * 1_500,
        "한국어" * 400,
        "ตัวอย่าง" * 200,
    ],
)
@pytest.mark.parametrize(("size", "overlap"), [(100, 20), (37, 18), (400, 0)])
def test_characters_are_not_cut_in_two(text: str, size: int, overlap: int) -> None:
    for one in checked(text, size, overlap):
        assert grapheme_boundary(text, one.start, 0) == one.start
        assert grapheme_boundary(text, one.end, 0) == one.end
        assert "\ufffd" not in one.text


@pytest.mark.spec("LS-20")
def test_joined_chunks_are_the_text() -> None:
    text = "Ein Satz. Noch ein Satz!\n\n" * 100 + "漢字。" * 200
    chunks = checked(text, 150)
    assert "".join(one.text for one in chunks) == text
    overlapping = checked(text, 150, 40)
    joined = ""
    for one in overlapping:
        joined += text[max(one.start, len(joined)) : one.end]
    assert joined == text


@pytest.mark.spec("LS-20")
def test_overlap_repeats_the_end_of_a_section_and_never_of_another_one() -> None:
    prose = "".join(f"Sentence number {number} says something. " for number in range(40))
    document = f"# One\n\n{prose}\n\n# Two\n\n{prose}\n"
    chunks = checked(document, 300, 80)
    for before, after in itertools.pairwise(chunks):
        if before.heading_path == after.heading_path:
            assert after.start < before.end
            assert after.text.startswith("Sentence")
        else:
            assert after.start == before.end


# --- it ends ------------------------------------------------------------------------------------------------------


@pytest.mark.spec("LS-20")
@pytest.mark.parametrize("overlap", [0, 20, 50, 1_000])
def test_a_run_without_a_break_ends_and_loses_nothing(overlap: int) -> None:
    letters = "".join(random.Random(5).choices("abcdefgh", k=12_000))
    for text in (
        f" {letters} words after it",
        f"Head  {letters}",
        f"```\n{letters}\n```",
        f"| a |\n|-|\n| {letters} |",
    ):
        assert len(checked(text, 100, overlap)) < 12_000 / 10


@pytest.mark.spec("LS-20")
@pytest.mark.parametrize(
    "text",
    [
        "x" * 400_000,
        "漢" * 400_000,
        "word " * 80_000,
        "- item\n" * 60_000,
        "```\n" + "x = 1\n" * 60_000,
        " \n" * 200_000 + "x",
        "> " * 200_000,
        "- " * 200_000,
        "#" * 400_000,
        "|" * 400_000,
        "a|\n-" + " " * 400_000 + "|x",
        "[" * 400_000,
        "**" * 200_000,
        "# a\n" * 20_000,
        "<pre>" * 80_000,
        "a\n" * 100_000 + "---",
    ],
    ids=lambda text: repr(text[:8]),
)
def test_time_grows_with_the_text_and_no_faster(text: str) -> None:
    started = time.process_time()
    checked(text, 1_600, 160)
    # Some tenths of a second each; anything quadratic in these takes minutes.
    assert time.process_time() - started < 5


markdown_parts = st.sampled_from(
    ["# H\n", "## H {#a}\n", "```\n", "~~~\n", "    code\n", "| a | b |\n", "|---|---|\n", "- item\n", "> q\n", "text ", "\n",
     "\n\n", "---\n", "===\n", "<pre>\n", "</pre>\n", "<div>\n", "x" * 50, "漢字", "e\u0301", "\u200d", "\U0001f1e9", "\t",
     " ", "**T** {#t}\n", "\r\n", "\u2028", "\x0c", "<!--", "-->", "+++\n"]
)  # fmt: skip


@pytest.mark.spec("LS-20", "RB-04")
@settings(max_examples=400, deadline=None)
@given(st.lists(markdown_parts, max_size=60).map("".join), st.integers(MIN_SIZE, 200), st.integers(0, 200))
def test_any_markdown_keeps_the_invariants(document: str, size: int, overlap: int) -> None:
    assert checked(document, size, overlap) == chunk(document, size=size, overlap=overlap)


@pytest.mark.spec("LS-20", "RB-04")
@settings(max_examples=200, deadline=None)
@given(st.text(max_size=400), st.integers(MIN_SIZE, 100), st.integers(0, 60))
def test_any_text_keeps_the_invariants(document: str, size: int, overlap: int) -> None:
    checked(document, size, overlap)


@pytest.mark.spec("LS-20")
def test_sizes_that_cannot_work_are_refused_and_blank_text_has_no_chunks() -> None:
    with pytest.raises(ValueError, match="at least"):
        chunk("x", size=MIN_SIZE - 1)
    with pytest.raises(ValueError, match="negative"):
        chunk("x", size=100, overlap=-1)
    assert chunk(" \n\t\n", size=100) == chunk("", size=100) == []


def test_the_hash_is_of_text_and_headings_and_not_of_the_place() -> None:
    one = chunk("# A\n\ntext\n", size=100)[0]
    moved = chunk("\n\n# A\n\ntext\n", size=100)[0]
    other = chunk("# B\n\ntext\n", size=100)[0]
    assert one.content_hash != other.content_hash
    assert chunk("# A\n\ntext\n", size=100)[0].content_hash == one.content_hash
    assert moved.start == 0


@pytest.mark.spec("LS-20")
@pytest.mark.parametrize("text", ["word " * 2_000, "漢字。" * 2_000, "word " * 500 + "漢字。" * 500, "🙂" * 3_000])
def test_tokens_bound_chunks_whatever_the_script(text: str) -> None:
    assert max(one.tokens for one in chunk(text, size=1_600, overlap=160, max_tokens=300)) <= 300


def test_tokens_are_estimated_by_script() -> None:
    assert estimated_tokens("word" * 10) == 10
    assert estimated_tokens("漢字漢字") == 4
