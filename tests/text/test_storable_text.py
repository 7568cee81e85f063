"""Text that Postgres can store: what goes, what stays, where long text is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbsync.domain.text import (
    SEARCHABLE_BYTES,
    cap,
    content_hash,
    grapheme_boundary,
    searchable_query,
    searchable_text,
    storable,
    unspaced,
)

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
any_text = st.text(st.characters(codec=None), max_size=300)


@pytest.mark.spec("LS-13")
@given(any_text)
def test_what_is_left_can_be_encoded_and_has_no_nul(text: str) -> None:
    kept = storable(text)
    kept.encode()
    assert "\x00" not in kept
    assert storable(kept) == kept


@pytest.mark.spec("LS-13")
def test_only_what_postgres_refuses_goes() -> None:
    assert storable("a\x00b\ud800c\udfff\ufffe\ue000é漢") == "abc\ufffe\ue000é漢"


@pytest.mark.spec("LS-13")
@given(any_text, st.integers(1, 50))
def test_a_cut_text_is_a_beginning_and_no_longer_than_the_limit(text: str, limit: int) -> None:
    kept, truncated = cap(text, limit)
    assert text.startswith(kept)
    assert len(kept) <= limit
    assert truncated == (kept != text)


@pytest.mark.spec("LS-13")
def test_a_cut_prefers_the_end_of_a_line_and_spares_joined_characters() -> None:
    assert cap("x" * 95 + "\n" + "y" * 20, 100) == ("x" * 95 + "\n", True)
    assert cap("x" * 99 + FAMILY, 101) == ("x" * 99, True)
    assert cap("x" * 99 + "e\u0301", 100) == ("x" * 99, True)


def test_flags_are_cut_between_and_not_through() -> None:
    flags = "\U0001f1e9\U0001f1ea\U0001f1ef\U0001f1f5"
    assert [grapheme_boundary(flags, at, 0) for at in (1, 2, 3, 4)] == [1, 2, 2, 4]


def test_equal_content_has_one_hash_whatever_could_not_be_stored() -> None:
    assert content_hash("a\x00b") == content_hash("ab") != content_hash("ba")


@pytest.mark.spec("LS-13")
def test_a_run_without_spaces_is_broken_below_the_word_limit() -> None:
    words, partly = searchable_text("before " + "x" * 5_000 + " after")
    assert partly
    assert max(len(word) for word in words.split()) <= 500
    assert words.startswith("before ")
    assert words.endswith(" after")


@pytest.mark.spec("LS-13")
def test_text_over_the_vector_limit_is_cut_and_says_so() -> None:
    words, partly = searchable_text(" ".join(f"w{number:06x}" for number in range(200_000)))
    assert partly
    assert len(words.encode()) <= SEARCHABLE_BYTES
    assert searchable_text("plain words") == ("plain words", False)


@pytest.mark.spec("LS-21")
def test_unspaced_scripts_are_searched_as_phrases_of_characters() -> None:
    assert searchable_text("設定の方法 now")[0].split() == ["設", "定", "の", "方", "法", "now"]
    assert searchable_query("設定 now").split('"') == ["", "設 定", "  now"]
    assert searchable_query('"設定 x" -方法').replace("  ", " ") == '" 設 定 x" -"方 法" '
    assert unspaced("設 定 の now") == "設定のnow"
