"""Who finds what: the rule as a model, each statement that reads texts with swapped audiences, and no page that tells of
what it leaves out (LS-27, SE-02)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence

import asyncpg
import pytest

from kbsync.db.pool import Connection
from kbsync.domain.audience import ANYBODY, MEMBER, PUBLIC, Asker, Audience, AudienceKind
from kbsync.library import assets, document_pages
from kbsync.library.search import search
from migrations import ROUTINES
from tests.search.conftest import NewShelf, Shelf

MEMBERS = Audience(AudienceKind.MEMBERS)
UNKNOWN = Audience(AudienceKind.UNKNOWN)
AGENTS = Audience(AudienceKind.GROUPS, ("Agents", "Admins"))
NO_GROUP = Audience(AudienceKind.GROUPS)
AUDIENCES = (PUBLIC, MEMBERS, AGENTS, NO_GROUP, UNKNOWN)
AN_AGENT = Asker(is_member=True, groups=("Support", "Agents"))
ASKERS = (ANYBODY, MEMBER, AN_AGENT, Asker(is_member=True, groups=("agents",)), Asker(groups=("Agents",)))


async def set_audience(shelf: Shelf, document_id: int, audience: Audience) -> None:
    async with shelf.database.organization(shelf.organization_id) as connection:
        await connection.execute(
            "update knowledge_base_documents set audience = $2, audience_groups = $3 where id = $1",
            document_id,
            audience.kind,
            list(audience.groups),
        )


async def put(shelf: Shelf, title: str, text: str, audience: Audience) -> int:
    document_id = await shelf.put(title, text)
    await set_audience(shelf, document_id, audience)
    return document_id


async def found(shelf: Shelf, query: str, asker: Asker, **options: object) -> list[tuple[str, float, str]]:
    async with shelf.database.organization(shelf.organization_id) as connection:
        hits = await search(connection, shelf.organization_id, query, asker=asker, **options)  # type: ignore[arg-type]
    return [(hit.title, hit.score, hit.snippet) for hit in hits]


async def titles(shelf: Shelf, query: str, asker: Asker, **options: object) -> list[str]:
    return [title for title, _, _ in await found(shelf, query, asker, **options)]


@pytest.mark.spec("LS-27")
def test_who_may_find_what() -> None:
    table = {asker: [asker.may_find(audience) for audience in AUDIENCES] for asker in ASKERS}
    assert list(table.values()) == [
        [True, False, False, False, False],
        [True, True, False, False, False],
        [True, True, True, False, False],
        [True, True, False, False, False],
        [True, False, True, False, False],
    ]


@pytest.mark.spec("LS-27")
async def test_the_rule_in_sql_is_the_rule_and_closed_to_what_it_does_not_know(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    allows = "select kbsync.audience_allows($1, $2, $3, $4)"
    for audience in AUDIENCES:
        for asker in ASKERS:
            said = await connection.fetchval(
                allows, audience.kind, list(audience.groups), asker.is_member, list(asker.groups)
            )
            assert said is asker.may_find(audience), (audience, asker)
    odds: list[tuple[str | None, list[str] | None]] = [
        (None, []),
        ("", []),
        ("of a newer version", ["Agents"]),
        ("groups", None),
    ]
    for odd in odds:
        assert await connection.fetchval(allows, *odd, True, ["Agents"]) is False
    assert await connection.fetchval(allows, "members", [], None, None) is False
    await connection.close()


@pytest.mark.spec("LS-27", "SE-02")
async def test_search_answers_each_asker_what_is_for_them(shelf: Shelf) -> None:
    named = {"Public": PUBLIC, "Members": MEMBERS, "Agents": AGENTS, "No group": NO_GROUP, "Unknown": UNKNOWN}
    for title, audience in named.items():
        await put(shelf, title, "the same handbook text", audience)
    for asker in ASKERS:
        expected = [title for title, audience in named.items() if asker.may_find(audience)]
        assert sorted(await titles(shelf, "handbook", asker)) == sorted(expected), asker
    async with shelf.database.organization(shelf.organization_id) as connection:
        nobody_said = await search(connection, shelf.organization_id, "handbook")
    assert [hit.title for hit in nobody_said] == ["Public"]


@pytest.mark.spec("LS-27", "SE-02")
async def test_pages_are_what_they_were_if_the_hidden_documents_did_not_exist(new_shelf: NewShelf) -> None:
    """Two libraries, one without the hidden documents: every page, its order, scores and passages are the same."""
    with_hidden, without = await new_shelf(), await new_shelf()
    dice = random.Random(3)
    words = ["lever", "pump", "valve", "gasket", "oil"]
    for number in range(60):
        text = "\n\n".join(f"# Part {part}\n\n{' '.join(dice.choices(words, k=12))}" for part in range(3))
        title = f"{dice.choice(words)} {number}"
        audience = dice.choice(AUDIENCES)
        await put(with_hidden, title, text, audience)
        if AN_AGENT.may_find(audience):
            await put(without, title, text, audience)
    for query in ("lever", "pump valve", '"oil lever"', "gasket -pump", "oil or valve"):
        for offset in (0, 5, 10, 40):
            options = {"limit": 5, "offset": offset}
            assert await found(with_hidden, query, AN_AGENT, **options) == await found(
                without, query, AN_AGENT, **options
            ), (query, offset)


@pytest.mark.spec("LS-27")
async def test_hidden_documents_take_no_room_among_the_candidates(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kbsync.library.search.CANDIDATES", 10)
    for number in range(40):
        await put(shelf, f"Lever {number}", "# Lever\n\nlever, lever and lever", UNKNOWN if number % 2 else AGENTS)
    await put(shelf, "Ours", "a lever at last", PUBLIC)
    assert await titles(shelf, "lever", MEMBER) == ["Ours"]
    of_agents = await titles(shelf, "lever", AN_AGENT, limit=50)
    assert len(of_agents) >= 5
    assert all(title == "Ours" or int(title.split()[1]) % 2 == 0 for title in of_agents)


@pytest.mark.spec("LS-27")
@pytest.mark.parametrize(
    ("hidden", "asker"),
    [(MEMBERS, ANYBODY), (AGENTS, MEMBER), (UNKNOWN, AN_AGENT)],
    ids=["members", "groups", "unknown"],
)
async def test_one_kind_alone_takes_no_room_either(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch, hidden: Audience, asker: Asker
) -> None:
    monkeypatch.setattr("kbsync.library.search.CANDIDATES", 4)
    for number in range(12):
        await put(shelf, f"Lever {number}", "# Lever\n\nlever", hidden)
    await put(shelf, "Ours", "a lever at last", PUBLIC)
    assert await titles(shelf, "lever", asker) == ["Ours"]


@pytest.mark.spec("LS-27")
async def test_an_audience_that_changes_counts_for_the_next_search(shelf: Shelf) -> None:
    document_id = await put(shelf, "Moves", "a salary table", PUBLIC)
    assert await titles(shelf, "salary", ANYBODY) == ["Moves"]
    for audience in (MEMBERS, AGENTS, UNKNOWN, PUBLIC):
        await set_audience(shelf, document_id, audience)
        for asker in ASKERS:
            assert (await titles(shelf, "salary", asker) == ["Moves"]) is asker.may_find(audience)


Reads = Callable[[Connection, Shelf, int, Asker], Awaitable[object]]


async def _text(connection: Connection, shelf: Shelf, document_id: int, asker: Asker) -> object:
    text, characters = await document_pages.document_text(connection, shelf.organization_id, document_id, 1_000, asker)
    return text or characters


async def _chunks(connection: Connection, shelf: Shelf, document_id: int, asker: Asker) -> object:
    lines, more = await document_pages.document_chunks(connection, shelf.organization_id, document_id, asker)
    return lines or more


async def _asset(connection: Connection, shelf: Shelf, document_id: int, asker: Asker) -> object:
    return await assets.place_of_asset(connection, shelf.organization_id, document_id, "kbsync-asset:a", asker)


async def _search(connection: Connection, shelf: Shelf, document_id: int, asker: Asker) -> object:
    return await search(connection, shelf.organization_id, "picture", asker=asker)


@pytest.mark.spec("LS-27", "SE-02")
@pytest.mark.parametrize("reads", [_text, _chunks, _asset, _search])
async def test_each_statement_that_reads_a_text_keeps_to_its_audience(shelf: Shelf, reads: Reads) -> None:
    """As the owner of the tables as well: row security has no part in it, the statement's own condition holds."""
    document_id = await shelf.put("T", "A picture: ![a](kbsync-asset:a)")
    for audience in AUDIENCES:
        await set_audience(shelf, document_id, audience)
        for asker in ASKERS:
            async with shelf.database.organization(shelf.organization_id) as connection:
                assert bool(await reads(connection, shelf, document_id, asker)) is asker.may_find(audience)
            if reads is not _search:  # which asks whose transaction it is
                async with shelf.database.direct() as connection:
                    assert bool(await reads(connection, shelf, document_id, asker)) is asker.may_find(audience)


@pytest.mark.spec("LS-27")
async def test_a_search_and_a_change_of_audience_at_once_end_in_one_or_the_other(shelf: Shelf) -> None:
    """A search is one snapshot: it answers as before or as after, never half."""
    document_id = await put(shelf, "T", "a rare word", MEMBERS)
    async with shelf.database.organization(shelf.organization_id) as writing:
        await writing.execute("update knowledge_base_documents set audience = 'unknown' where id = $1", document_id)
        before = await asyncio.wait_for(titles(shelf, "rare", MEMBER), 10)
    assert (before, await titles(shelf, "rare", MEMBER)) == (["T"], [])


async def scans(shelf: Shelf) -> Sequence[int]:
    """Of the text index, and of whole tables."""
    async with shelf.database.direct() as connection:
        await connection.execute("select pg_stat_force_next_flush()")
    async with shelf.database.direct() as connection:
        return (
            await connection.fetchval(
                "select idx_scan from pg_stat_user_indexes where indexrelname = 'document_chunks_searchable'"
            ),
            await connection.fetchval("select seq_scan from pg_stat_user_tables where relname = 'document_chunks'"),
            await connection.fetchval(
                "select seq_scan from pg_stat_user_tables where relname = 'knowledge_base_documents'"
            ),
        )


@pytest.mark.spec("LS-27", "PF-15")
@pytest.mark.parametrize("asker", [ANYBODY, AN_AGENT], ids=["anybody", "an agent"])
async def test_the_text_index_leads_whatever_is_restricted(shelf: Shelf, asker: Asker) -> None:
    async with shelf.database.fleet() as connection:
        await connection.execute(
            "insert into knowledge_base_documents (id, organization_id, source_id, external_id, audience, audience_groups)"
            " select 100000 + n, $1, $2, n, (array['public', 'members', 'groups', 'unknown'])[1 + n % 4],"
            " case when n % 4 = 2 then '{Agents}'::text[] else '{}' end from generate_series(1, 20000) as n",
            shelf.organization_id,
            shelf.source_id,
        )
        await connection.execute(
            "insert into document_chunks (organization_id, source_type, source_id, content, language, searchable)"
            " select $1, 'KnowledgeBaseDocument', 100000 + n, 'x', 'english',"
            " to_tsvector('english', 'common ' || md5(n::text) || case when n % 1000 = 0 then ' rarity' else '' end)"
            " from generate_series(1, 20000) as n",
            shelf.organization_id,
        )
    async with shelf.database.direct() as connection:
        await connection.execute("analyze document_chunks, knowledge_base_documents")
    await put(shelf, "Rare", "a rarity stands here", AGENTS)
    before = await scans(shelf)
    hits = await titles(shelf, "rarity", asker, limit=50)
    after = await scans(shelf)
    assert ("Rare" in hits) is asker.may_find(AGENTS)
    assert after[0] > before[0]
    assert after[1:] == before[1:]


@pytest.mark.spec("LS-27", "OP-11")
async def test_a_process_of_an_older_version_finds_public_documents_alone_and_no_old_door_stays_open(
    shelf: Shelf, database_url: str
) -> None:
    await put(shelf, "Public", "the handbook", PUBLIC)
    await put(shelf, "Members", "the handbook", MEMBERS)
    old = "bigint, text, bigint, text, text, integer, integer, integer"
    connection = await asyncpg.connect(database_url)
    await connection.execute("drop function kbsync.search_chunks")
    await connection.execute(f"create function kbsync.search_chunks({old}) returns integer language sql as 'select 1'")
    await connection.execute((ROUTINES / "search_chunks.sql").read_text(encoding="utf-8"))
    assert await connection.fetchval("select count(*) from pg_proc where proname = 'search_chunks'") == 1
    await connection.close()
    async with shelf.database.organization(shelf.organization_id) as transaction:
        rows = await transaction.fetch(
            "select title from kbsync.search_chunks($1, 'handbook', null, null, null, 2000, 10, 0)",
            shelf.organization_id,
        )
    assert [row["title"] for row in rows] == ["Public"]
