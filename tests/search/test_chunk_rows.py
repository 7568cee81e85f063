"""Chunk rows: unchanged texts keep id and embedding, repeating changes nothing, one search row a document (LS-11)."""

from __future__ import annotations

import asyncpg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbsync.domain.chunking import chunk
from kbsync.domain.text import searchable_text
from kbsync.library.chunks import ChunkDiff, _compared, discard_chunks
from tests.search.conftest import NewShelf, Shelf

SECTIONS = {
    name: f"# {name}\n\n{name} has a text of its own that is long enough to be a chunk of its own.\n\n"
    for name in "ABCD"
}


def document(names: str) -> str:
    return "".join(SECTIONS[name] for name in names)


async def rows(shelf: Shelf, document_id: int) -> list[asyncpg.Record]:
    async with shelf.database.organization(shelf.organization_id) as connection:
        return await connection.fetch(
            "select *, searchable::text as words, xmin::text as version, language::text as configuration"
            " from document_chunks where source_id = $1 order by position",
            document_id,
        )


async def search_rows(shelf: Shelf, document_id: int) -> list[asyncpg.Record]:
    async with shelf.database.organization(shelf.organization_id) as connection:
        return await connection.fetch("select * from pg_search_documents where searchable_id = $1", document_id)


@pytest.mark.spec("LS-11")
async def test_unchanged_chunks_keep_ids_and_embeddings_wherever_they_move(shelf: Shelf) -> None:
    document_id = await shelf.put("T", document("ABC"), size=120)
    before = {row["heading_path"][0]: row["id"] for row in await rows(shelf, document_id)}
    async with shelf.database.organization(shelf.organization_id) as connection:
        await connection.execute(
            "update document_chunks set embedding = array[1, 2]::real[] where source_id = $1", document_id
        )
    assert await shelf.replace(document_id, "T", document("CDA"), size=120) == ChunkDiff(kept=2, added=1, removed=1)
    after = await rows(shelf, document_id)
    assert [row["heading_path"] for row in after] == [["C"], ["D"], ["A"]]
    assert [row["position"] for row in after] == [0, 1, 2]
    assert (after[0]["id"], after[2]["id"]) == (before["C"], before["A"])
    assert [row["embedding"] for row in after] == [[1, 2], None, [1, 2]]
    assert [document("CDA")[row["start_offset"] : row["end_offset"]] for row in after] == [
        row["content"] for row in after
    ]


@pytest.mark.spec("LS-11")
async def test_repeating_it_writes_no_chunk(shelf: Shelf) -> None:
    document_id = await shelf.put("T", document("AABB"), size=120)
    before = await rows(shelf, document_id)
    assert await shelf.replace(document_id, "T", document("AABB"), size=120) == ChunkDiff(4, 0, 0)
    assert [row["version"] for row in await rows(shelf, document_id)] == [row["version"] for row in before]
    assert len(await search_rows(shelf, document_id)) == 1


@pytest.mark.spec("LS-11")
async def test_a_new_title_is_searchable_without_new_chunks(shelf: Shelf) -> None:
    document_id = await shelf.put("Old name", document("A"))
    assert await shelf.replace(document_id, "Fresh name", document("A"), url="http://x/") == ChunkDiff(1, 0, 0)
    (row,) = await rows(shelf, document_id)
    assert "'fresh':1A" in row["words"]
    assert "'old'" not in row["words"]
    assert (row["title"], row["url"]) == ("Fresh name", "http://x/")


@given(st.lists(st.sampled_from("abc"), max_size=8), st.lists(st.sampled_from("abc"), max_size=8))
def test_the_comparison_pairs_equal_texts_and_loses_none(there: list[str], wanted: list[str]) -> None:
    chunks = [chunk(f"{name} text", size=100)[0] for name in wanted]
    hashes = {name: chunk(f"{name} text", size=100)[0].content_hash for name in "abc"}
    kept, added, removed = _compared([(number, hashes[name]) for number, name in enumerate(there)], chunks)
    assert len(kept) + len(added) == len(wanted)
    assert sorted([row_id for row_id, _ in kept] + removed) == list(range(len(there)))
    assert all(hashes[there[row_id]] == one.content_hash for row_id, one in kept)
    assert len(kept) == sum(min(there.count(name), wanted.count(name)) for name in "abc")


@pytest.mark.spec("LS-06", "LS-11")
async def test_another_organization_s_rows_are_neither_changed_nor_removed(new_shelf: NewShelf) -> None:
    mine, theirs = await new_shelf(), await new_shelf()
    document_id = await theirs.put("Theirs", document("AB"), size=120)
    before = [(row["id"], row["version"]) for row in await rows(theirs, document_id)]
    assert await mine.replace(document_id, "Mine", document("A"), size=120) == ChunkDiff(0, 1, 0)
    async with mine.database.organization(mine.organization_id) as connection:
        await discard_chunks(connection, mine.organization_id, document_id)
        await discard_chunks(connection, theirs.organization_id, document_id)
    # The fleet's role sees every organization, so here the statements' own filter stands alone.
    async with mine.database.fleet() as connection:
        await discard_chunks(connection, mine.organization_id, document_id)
    assert [(row["id"], row["version"]) for row in await rows(theirs, document_id)] == before
    assert len(await search_rows(theirs, document_id)) == 1


@pytest.mark.spec("LS-11")
async def test_extra_search_rows_of_a_document_go(shelf: Shelf) -> None:
    document_id = await shelf.put("T", document("A"))
    async with shelf.database.organization(shelf.organization_id) as connection:
        await connection.execute(
            "insert into pg_search_documents (organization_id, searchable_type, searchable_id, content)"
            " select organization_id, searchable_type, searchable_id, 'stale' from pg_search_documents"
        )
    await shelf.replace(document_id, "T", document("B"))
    (row,) = await search_rows(shelf, document_id)
    assert row["content"].startswith("T\n# B")


async def test_discarding_leaves_nothing_to_find_and_can_be_repeated(shelf: Shelf) -> None:
    document_id = await shelf.put("T", document("AB"))
    async with shelf.database.organization(shelf.organization_id) as connection:
        await discard_chunks(connection, shelf.organization_id, document_id)
        await discard_chunks(connection, shelf.organization_id, document_id)
    assert not await rows(shelf, document_id)
    assert not await search_rows(shelf, document_id)


@pytest.mark.spec("LS-21")
@pytest.mark.parametrize(
    ("language", "text", "configuration"),
    [
        ("de-AT", "Häuser", "german"),
        ("ja", "設定", "simple"),
        (None, "plain ascii text", "english"),
        (None, "дома", "simple"),
        ("x-klingon", "text", "simple"),
    ],
)
async def test_chunks_are_stemmed_in_their_language(
    shelf: Shelf, language: str | None, text: str, configuration: str
) -> None:
    document_id = await shelf.put("T", text, language=language)
    (row,) = await rows(shelf, document_id)
    assert row["configuration"] == configuration


# --- what Postgres can't index ------------------------------------------------------------------------------------


@pytest.mark.spec("LS-13", "LS-11")
@pytest.mark.parametrize(
    "text",
    [
        " ".join(f"w{number:06x}" for number in range(200_000)),
        " ".join(f"a{number}-b{number}-c{number}" for number in range(60_000)),
        " ".join(f"http://h{number}.example/p{number}?q={number}" for number in range(30_000)),
        "x" * 1_000_000,
        "ü" * 600_000,
        " ".join(chr(0x4E00 + number % 20_000) for number in range(500_000)),
        "\x00\ud800" * 1_000 + "left",
    ],
    ids=["words", "hyphens", "urls", "letters", "umlauts", "characters", "unstorable"],
)
async def test_text_over_postgres_limits_is_stored_and_says_so(shelf: Shelf, text: str) -> None:
    document_id = await shelf.put("T" * 5_000, text, size=2_000_000)
    stored = await rows(shelf, document_id)
    assert sum(len(row["content"]) for row in stored) == len(text.replace("\x00", "").replace("\ud800", ""))
    assert all(row["partly_searchable"] for row in stored) == (len(text) > 10_000)
    (row,) = await search_rows(shelf, document_id)
    async with shelf.database.organization(shelf.organization_id) as connection:
        # pg_search makes the vector at query time: that must not fail either.
        assert await connection.fetchval("select to_tsvector('english', $1::text) is not null", row["content"])


@pytest.mark.spec("LS-13")
@settings(max_examples=30, deadline=None)
@given(st.text(st.sampled_from("ab-./:@_0é漢 \n&<>"), min_size=1, max_size=30))
def test_searchable_text_stays_within_its_bound(seed: str) -> None:
    words, _ = searchable_text(seed * (400_000 // len(seed)))
    assert len(words.encode()) <= 160_000
