"""Finding by id, name or address: one hit opens, several are listed, and each person finds what is theirs (OP-05)."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from redis.asyncio import Redis

from kbsync.db.statements import Statements
from kbsync.domain.ids import QueueName
from kbsync.library import finding
from kbsync.library.principals import Role
from tests.dashboard.conftest import Dashboard, Person
from tests.dashboard.jobs import waiting
from tests.dashboard.looking import EVIL, Cost, an_organization, commands_so_far, counted_statements, execute, value_of

SYNC = QueueName.SYNC


async def a_source(dashboard: Dashboard, organization_id: int, name: str) -> int:
    id: int = await value_of(
        dashboard.runtime.database,
        "insert into knowledge_base_sources (organization_id, type, name) values ($1, 'website', $2) returning id",
        organization_id,
        name,
    )
    return id


async def a_document(dashboard: Dashboard, organization_id: int, title: str, url: str | None = None) -> int:
    id: int = await value_of(
        dashboard.runtime.database,
        "insert into knowledge_base_documents (organization_id, external_id, title, url) "
        "values ($1, gen_random_uuid()::text, $2, $3) returning id",
        organization_id,
        title,
        url,
    )
    return id


async def goes_to(person: Person, words: str) -> str:
    """Where the answer sends a browser, "" when it lists."""
    async with person.http.get(
        person.url + "/find", params={"q": words}, headers={"Accept": "text/html"}, allow_redirects=False
    ) as answer:
        assert answer.status in (200, 303), await answer.text()
        return answer.headers.get("Location", "")


@pytest.mark.spec("OP-05")
async def test_one_hit_is_opened_at_once(dashboard: Dashboard) -> None:
    for id, name in ((901, "Acme"), (902, "Globex")):
        await an_organization(dashboard.runtime.database, id, name)
    source = await a_source(dashboard, 901, "Company wiki")
    document = await a_document(dashboard, 901, "Refund policy (EU)", "https://docs.acme.example/refund?a=1&b=2")
    await waiting(dashboard.fleet.queue(SYNC), 3)
    person = await dashboard.person(Role.VIEWER)
    for words, to in (
        ("kb-document-sync-2", f"/queues/{SYNC}/job?id=kb-document-sync-2"),
        ("wiki", f"/sources/{source}"),
        ("COMPANY", f"/sources/{source}"),
        ("refund pol", f"/documents/{document}"),
        ("  Refund policy (EU) ", f"/documents/{document}"),
        ("https://docs.acme.example/refund?a=1&b=2", f"/documents/{document}"),
        ("902", "/sources?organization=902"),
        ("globex", "/sources?organization=902"),
    ):
        assert await goes_to(person, words) == to, words


@pytest.mark.spec("OP-05")
async def test_several_hits_are_listed_by_what_they_are(dashboard: Dashboard) -> None:
    await an_organization(dashboard.runtime.database, 1, "Help Desk Ltd")
    for n in range(12):
        await a_source(dashboard, 1, f"Help centre {n}")
    await a_document(dashboard, 1, "Help with refunds")
    person = await dashboard.person(Role.VIEWER, Role.READER)
    _, text = await person.get("/find?q=help")
    for words in (
        "12 things for",
        "Sources",
        "The first 10; more words find fewer.",
        "Help with refunds",
        "Help Desk Ltd",
    ):
        assert words in text, words
    assert "/search?q=help" in text
    viewer = await dashboard.person(Role.VIEWER)
    assert "/search?q=help" not in (await viewer.get("/find?q=help"))[1]


async def test_nothing_found_says_what_can_be_found(dashboard: Dashboard) -> None:
    person = await dashboard.person(Role.VIEWER)
    for words in (
        "nosuch",
        "kb-document-sync-1",
        "99999",
        "9" * 30,
        "%",
        "_",
        "\\",
        "'; drop table",
        "\0",
        "\ud800",
        "a" * 3_000,
    ):
        status, text = await person.get("/find?q=" + _quoted(words))
        assert status == 200, words
        assert "Nothing for" in text or "Look for a job" in text, words
    assert "Look for a job by its id" in (await person.get("/find"))[1]


def _quoted(words: str) -> str:
    return quote(words.encode("utf-8", "surrogatepass"))


@pytest.mark.spec("SE-02", "OP-06")
async def test_who_belongs_to_one_organization_finds_that_alone(dashboard: Dashboard) -> None:
    for id, name in ((1, "Acme"), (2, "Acme Rival")):
        await an_organization(dashboard.runtime.database, id, name)
    ours, theirs = await a_source(dashboard, 1, "Acme wiki"), await a_source(dashboard, 2, "Acme wiki, theirs")
    secret = await a_document(dashboard, 2, "Acme secrets", "https://rival.example/")
    await waiting(dashboard.fleet.queue(SYNC), 1)
    person = await dashboard.person(Role.VIEWER, organization_id=1)
    _, text = await person.get("/find?q=acme")
    assert f"/sources/{ours}" in text
    for hidden in (f"/sources/{theirs}", f"/documents/{secret}", "Rival", "/sources?organization=2"):
        assert hidden not in text, hidden
    assert await goes_to(person, "https://rival.example/") == ""
    assert await goes_to(person, "kb-document-sync-1") == ""
    assert (await (await dashboard.person(Role.READER)).get("/find?q=acme"))[0] == 403


async def test_hostile_names_and_words_are_shown_as_text(dashboard: Dashboard) -> None:
    await an_organization(dashboard.runtime.database, 1, EVIL)
    for _ in range(2):
        await a_source(dashboard, 1, EVIL)
        await a_document(dashboard, 1, EVIL, "javascript:alert(1)")
    person = await dashboard.person(Role.VIEWER, Role.READER)
    _, text = await person.get("/find?q=" + _quoted(EVIL))
    assert "5 things for" in text
    assert "<script>alert" not in text
    assert "\u202e" not in text
    assert 'href="javascript' not in text


@pytest.mark.spec("OP-05")
async def test_finding_costs_a_few_looks_whatever_there_is(
    dashboard: Dashboard, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = dashboard.runtime.database
    await an_organization(database, 1, "Acme")
    await execute(
        database,
        "insert into knowledge_base_documents (organization_id, external_id, title, url, source_type) "
        "select 1, n::text, 'Title ' || md5(n::text), 'https://docs.example/' || n, 'website' "
        "from generate_series(1, 20000) n",
    )
    await execute(database, "analyze knowledge_base_documents")
    await waiting(dashboard.fleet.queue(SYNC), 2_000)
    person = await dashboard.person(Role.VIEWER)
    cost = Cost()
    before = await commands_so_far(redis)
    with counted_statements(monkeypatch, cost):
        assert await goes_to(person, "https://docs.example/777") != ""
    assert cost.statements <= 15
    assert await commands_so_far(redis) - before <= 40
    async with database.direct() as connection:
        sql = Statements.beside(finding.__file__)["documents_by_title_or_url"]
        for number, value in (
            (5, "10"),
            (4, "'https://docs.example/777'"),
            (3, "'title ab~'"),
            (2, "'title ab'"),
            (1, "null"),
        ):
            sql = sql.replace(f"${number}", value)
        plan = "\n".join(row[0] for row in await connection.fetch(f"explain {sql}"))
    assert "Seq Scan on knowledge_base_documents" not in plan, plan
