"""Search: ranked, highlighted, language-aware, of one organization, and safe against whatever is typed (LS-21)."""

from __future__ import annotations

import random

import pytest

from kbsync.db.pool import Database
from kbsync.library.search import MAX_QUERY, Hit, SearchRefused, search
from tests.search.conftest import NewShelf, Shelf


async def found(shelf: Shelf, query: str, **options: object) -> list[Hit]:
    async with shelf.database.organization(shelf.organization_id) as connection:
        return await search(connection, shelf.organization_id, query, **options)  # type: ignore[arg-type]


async def titles(shelf: Shelf, query: str, **options: object) -> list[str]:
    return [hit.title for hit in await found(shelf, query, **options)]


FILLER = "Nothing of interest stands in this sentence. " * 20


@pytest.mark.spec("LS-21")
async def test_title_before_heading_before_text(shelf: Shelf) -> None:
    await shelf.put("Text", f"# Other\n\n{FILLER} A gasket is mentioned. {FILLER}")
    await shelf.put("Heading", f"# Replace a gasket\n\n{FILLER}")
    await shelf.put("Gasket", FILLER)
    assert await titles(shelf, "gaskets") == ["Gasket", "Heading", "Text"]


@pytest.mark.spec("LS-21")
async def test_words_that_stand_together_come_first(shelf: Shelf) -> None:
    await shelf.put("Apart", f"The blue thing. {FILLER} Then a valve.")
    await shelf.put("Together", f"{FILLER} The blue valve. {FILLER}")
    assert await titles(shelf, "blue valve") == ["Together", "Apart"]


@pytest.mark.spec("LS-21")
async def test_a_document_is_one_hit_by_its_best_chunk_with_its_place(shelf: Shelf) -> None:
    markdown = "".join(f"# Part {n} {{#part-{n}}}\n\nThe pump of part {n}. {FILLER}\n\n" for n in range(4))
    await shelf.put(
        "Manual", markdown + "# Pump care {#care}\n\nPump, pump and [pump](http://x/).\n", url="http://x/m?a=1#old"
    )
    (hit,) = await found(shelf, "pump")
    assert (hit.anchor, hit.heading_path, hit.link) == ("care", ("Pump care",), "http://x/m?a=1#care")
    assert [hit.snippet[start:end] for start, end in hit.highlights] == ["Pump", "Pump", "pump", "pump"]
    assert "http" not in hit.snippet
    assert "{#" not in hit.snippet


@pytest.mark.spec("LS-21", "SE-04")
async def test_a_snippet_is_escaped_and_only_found_words_are_marked(shelf: Shelf) -> None:
    await shelf.put(
        "T", "Before <script>alert(1)</script> & the needle \ue000not marked\ue001 <mark>fake</mark> after."
    )
    (hit,) = await found(shelf, "needle")
    assert hit.snippet_html.count("<mark>") == 1
    assert "<mark>needle</mark>" in hit.snippet_html
    assert "alert(1) &amp; the" in hit.snippet_html
    assert "<script" not in hit.snippet_html


@pytest.mark.spec("LS-21")
async def test_each_document_is_read_in_its_language(shelf: Shelf) -> None:
    await shelf.put("Deutsch", "Die Häuser stehen am Fluss.", language="de")
    await shelf.put("English", "Houses stand at the river.", language="en-US")
    await shelf.put("日本語", "データベースの設定方法を説明します。", language="ja")
    await shelf.put("Guessed", "Running water under bridges.")
    assert await titles(shelf, "haus") == ["Deutsch"]
    assert await titles(shelf, "house") == ["English"]
    assert await titles(shelf, "run bridge") == ["Guessed"]
    (hit,) = await found(shelf, "設定方法")
    assert hit.title == "日本語"
    assert "設定方法" in hit.snippet_html.replace("<mark>", "").replace("</mark>", "")
    assert await titles(shelf, "方設") == []
    assert await titles(shelf, "stehen or stand", language="de") == ["Deutsch"]
    assert await titles(shelf, "stand or water", language="en") == ["English", "Guessed"] or await titles(
        shelf, "stand or water", language="en"
    ) == ["Guessed", "English"]


@pytest.mark.spec("LS-21")
async def test_phrases_exclusions_and_alternatives(shelf: Shelf) -> None:
    await shelf.put("One", "red apple and green pear")
    await shelf.put("Two", "green apple and red pear")
    assert await titles(shelf, '"red apple"') == ["One"]
    assert await titles(shelf, 'apple -"red apple"') == ["Two"]
    assert set(await titles(shelf, '"red apple" or "green apple"')) == {"One", "Two"}


@pytest.mark.spec("LS-06", "LS-21", "SE-02")
async def test_nothing_of_another_organization_is_found(new_shelf: NewShelf) -> None:
    mine, theirs = await new_shelf(), await new_shelf()
    await theirs.put("Theirs", "secret words")
    await mine.put("Mine", "secret words")
    assert await titles(mine, "secret") == ["Mine"]
    async with mine.database.organization(mine.organization_id) as connection:
        # Asked for another organization than the transaction's, and by a role that sees them all without one.
        assert await search(connection, theirs.organization_id, "secret") == []
    async with mine.database.direct() as connection:
        assert await search(connection, theirs.organization_id, "secret") == []


@pytest.mark.spec("LS-21")
async def test_discarded_documents_and_other_sources_are_filtered(shelf: Shelf) -> None:
    kept, gone = await shelf.put("Kept", "a word"), await shelf.put("Gone", "a word")
    async with shelf.database.organization(shelf.organization_id) as connection:
        await connection.execute("update knowledge_base_documents set discarded_at = now() where id = $1", gone)
    assert [hit.document_id for hit in await found(shelf, "word")] == [kept]
    assert await titles(shelf, "word", source_id=shelf.source_id) == ["Kept"]
    assert await titles(shelf, "word", source_id=shelf.source_id + 1) == []


async def test_pages_follow_one_another_without_gap_or_repetition(shelf: Shelf) -> None:
    for number in range(7):
        await shelf.put(f"Document {number}", "the same text")
    whole = await titles(shelf, "text")
    assert sorted(whole) == [f"Document {number}" for number in range(7)]
    assert [t for offset in (0, 3, 6) for t in await titles(shelf, "text", limit=3, offset=offset)] == whole
    assert await titles(shelf, "text", offset=7) == []


@pytest.mark.spec("LS-21")
@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("", "at least one"),
        (" \t\n", "at least one"),
        ('"" - |', "at least one"),
        ("\x00", "at least one"),
        ("-only -exclusions", "besides those"),
        ("x" * (MAX_QUERY + 1), "longer than"),
    ],
)
async def test_queries_that_name_nothing_are_refused_in_words(shelf: Shelf, query: str, says: str) -> None:
    with pytest.raises(SearchRefused, match=says):
        await found(shelf, query)


async def test_pages_out_of_bounds_are_refused(shelf: Shelf) -> None:
    for options in ({"limit": 0}, {"limit": 101}, {"offset": -1}, {"offset": 10_001}):
        with pytest.raises(SearchRefused, match="a page has"):
            await found(shelf, "x", **options)


HOSTILE = [
    "'; drop table document_chunks; --",
    "a & b | !c <-> d:*",
    "((((",
    '"unclosed',
    "\\",
    "\\' x",
    "a\\:b",
    "'",
    "''x''",
    "%_",
    "-x y",
    "or or or",
    "the",
    "the of and",
    "\ue000x\ue001",
    "\ud800x",
    "a\x00b",
    "🙂 x",
    "x" * MAX_QUERY,
    "漢" * MAX_QUERY,
    '" ' * 250,
    "http://x/?a=1&b=2",
    "a' | 'b",
    "$1",
    "E'\\x'",
    "x:A",
    '-"a b" c',
    "C:\\dir\\file.txt",
]


@pytest.mark.spec("LS-21", "SE-04")
async def test_hostile_queries_are_only_text(shelf: Shelf) -> None:
    await shelf.put("T", "plain words: a b c x y 'quoted' C:\\dir\\file.txt http://x/?a=1&b=2")
    for query in HOSTILE:
        try:
            await found(shelf, query)
        except SearchRefused:
            continue
    assert await titles(shelf, "plain") == ["T"]


@pytest.mark.spec("LS-21", "RB-04")
async def test_any_query_is_answered_or_refused(shelf: Shelf) -> None:
    await shelf.put("T", "plain words a b c x y")
    dice = random.Random(7)
    alphabet = [
        "a",
        "b",
        " ",
        '"',
        "'",
        "-",
        "|",
        "&",
        "!",
        "(",
        ")",
        ":",
        "*",
        "<",
        ">",
        "\\",
        "漢",
        "\x00",
        "é",
        "0",
        " or ",
    ]
    queries = ["".join(dice.choices(alphabet, k=dice.randrange(30))) for _ in range(300)]
    answered: set[tuple[str, ...]] = set()
    refused = 0
    async with shelf.database.organization(shelf.organization_id) as connection:
        for query in queries:
            try:
                hits = await search(connection, shelf.organization_id, query)
            except SearchRefused:
                refused += 1
            else:
                answered.add(tuple(hit.title for hit in hits))
    assert answered == {(), ("T",)}
    assert 0 < refused < len(queries)


@pytest.mark.spec("LS-13", "LS-21")
async def test_words_are_found_from_a_long_document_s_beginning_middle_and_end(shelf: Shelf) -> None:
    document_id = await shelf.put("Big", " ".join(f"w{number:06x}" for number in range(200_000)))
    for word in ("w000001", "w0186a0", "w030d3f"):
        assert [hit.document_id for hit in await found(shelf, word)] == [document_id]


@pytest.mark.spec("LS-21")
async def test_over_the_candidates_those_with_the_word_in_title_or_heading_are_ranked(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kbsync.library.search.CANDIDATES", 10)
    for number in range(30):
        await shelf.put(f"Filler {number}", "the lever is it's own \\ thing")
    await shelf.put("Lever", "about it")
    assert (await titles(shelf, "lever"))[0] == "Lever"
    assert len(await titles(shelf, "lever or it's or C:\\x", limit=50)) <= 11


async def index_scans(database: Database, index: str) -> int:
    async with database.direct() as connection:
        await connection.execute("select pg_stat_force_next_flush()")
    async with database.direct() as connection:
        return int(
            await connection.fetchval("select idx_scan from pg_stat_user_indexes where indexrelname = $1", index)
        )


@pytest.mark.spec("LS-21", "PF-15")
async def test_the_text_index_is_used_under_row_security(shelf: Shelf) -> None:
    async with shelf.database.fleet() as connection:
        await connection.execute(
            "insert into document_chunks (organization_id, source_type, source_id, content, language, searchable)"
            " select $1, 'KnowledgeBaseDocument', n, 'x', 'english', to_tsvector('english', 'common ' || md5(n::text))"
            " from generate_series(1, 20000) as n",
            shelf.organization_id,
        )
    async with shelf.database.direct() as connection:
        await connection.execute("analyze document_chunks")
    await shelf.put("Rare", "a rarity stands here")
    before = await index_scans(shelf.database, "document_chunks_searchable")
    assert await titles(shelf, "rarity") == ["Rare"]
    assert await index_scans(shelf.database, "document_chunks_searchable") > before
