"""`/search`: what a product would be answered, for those who may ask it."""

from __future__ import annotations

import pytest

from kbsync.library.principals import Role
from tests.dashboard.conftest import Dashboard
from tests.dashboard.knowledge_rows import EVIL, Shelf, shelf


@pytest.fixture
async def acme(dashboard: Dashboard) -> Shelf:
    return await shelf(dashboard.runtime.database, "Acme")


@pytest.fixture
async def globex(dashboard: Dashboard) -> Shelf:
    return await shelf(dashboard.runtime.database, "Globex")


@pytest.mark.spec("LS-21", "OP-05")
async def test_it_shows_passages_and_where_they_come_from(dashboard: Dashboard, acme: Shelf, globex: Shelf) -> None:
    source = await acme.source(name="Handbook")
    url = "https://docs.example.test/refunds"
    document = await acme.document(source, "Refunds", "# Refunds\n\nA refund is paid within thirty days.", url)
    await globex.document(await globex.source(name="Other"), "Refunds elsewhere", "A refund of theirs.")
    person = await dashboard.person(Role.VIEWER, Role.READER)
    assert "choose the organization" in (await person.get("/search"))[1]
    assert "Choose an organization" in (await person.get("/search?q=refund"))[1]
    status, text = await person.get(f"/search?q=refund&organization={acme.organization_id}")
    assert status == 200
    for said in (
        f'<a href="/documents/{document}">',
        "<mark>refund</mark>",
        "“<bdi>Handbook</bdi>”",
        f'href="{url}',
        "1 document of",
        f'value="{source}"',
    ):
        assert said in text, said
    assert "elsewhere" not in text
    assert "No passage fits" in (await person.get(f"/search?q=zebra&organization={acme.organization_id}"))[1]
    elsewhere = await person.get(f"/search?q=refund&organization={acme.organization_id}&source=999")
    assert "No passage fits" in elsewhere[1]


@pytest.mark.spec("SE-02", "OP-06")
async def test_search_is_for_readers_and_within_their_organization(
    dashboard: Dashboard, acme: Shelf, globex: Shelf
) -> None:
    await acme.document(await acme.source(), "Ours", "A refund of ours.")
    await globex.document(await globex.source(), "Theirs", "A refund of theirs.")
    viewer = await dashboard.person(Role.VIEWER)
    assert (await viewer.get("/search?q=refund"))[0] == 403
    ours = await dashboard.person(Role.READER, organization_id=acme.organization_id)
    _, text = await ours.get("/search?q=refund")
    assert ("Ours" in text, "Theirs" in text, "Globex" in text) == (True, False, False)
    assert "/documents/" not in text  # a reader alone has no page of documents to go to
    _, refused = await ours.get(f"/search?q=refund&organization={globex.organization_id}")
    assert "can search that one only" in refused
    assert ("Theirs" in refused, "Ours" in refused) == (False, False)


@pytest.mark.spec("LS-21")
async def test_a_query_that_says_nothing_is_refused_in_words(dashboard: Dashboard, acme: Shelf) -> None:
    ours = await dashboard.person(Role.READER, organization_id=acme.organization_id)
    for query, said in (
        ("%21%21", "at least one word"),
        ("-refund", "besides those to leave out"),
        ("a" * 600, "longer than"),
    ):
        status, text = await ours.get(f"/search?q={query}")
        assert (status, said in text) == (200, True), query
    assert "no such organization" in (await (await dashboard.person(Role.READER)).get("/search?q=a&organization=99"))[1]


@pytest.mark.spec("SE-04")
async def test_hostile_passages_are_text(dashboard: Dashboard, acme: Shelf) -> None:
    await acme.document(
        await acme.source(name=EVIL),
        f"{EVIL} refund",
        f"{EVIL} <script>refund</script> A refund here.",
        "javascript:alert(1)",
    )
    ours = await dashboard.person(Role.VIEWER, Role.READER, organization_id=acme.organization_id)
    for query in ("refund", "refund%22%3E%3Cscript%3Ealert(1)%3C/script%3E"):
        status, text = await ours.get(f"/search?q={query}")
        assert status == 200
        for markup in ("<img src=x", "<script>refund", "<script>alert", 'href="javascript:', "\u202e"):
            assert markup not in text, markup
    assert "<mark>refund</mark>" in (await ours.get("/search?q=refund"))[1]
