"""`/documents/{id}`: where it comes from, and its text for those who may read it."""

from __future__ import annotations

import pytest

from kbsync.dashboard.pages.documents import TEXT_SHOWN, shown_text
from kbsync.library.principals import Role
from tests.dashboard.conftest import Dashboard
from tests.dashboard.knowledge_rows import EVIL, Shelf, shelf


@pytest.fixture
async def acme(dashboard: Dashboard) -> Shelf:
    return await shelf(dashboard.runtime.database, "Acme")


@pytest.mark.spec("OP-05", "OP-06")
async def test_text_and_chunks_are_for_readers_and_the_rest_for_everybody_who_looks(
    dashboard: Dashboard, acme: Shelf
) -> None:
    source = await acme.source(name="Docs")
    document = await acme.document(source, "Returns", "# Returns\n\nWithin thirty days.", "https://docs.example.test/r")
    section = await acme.run(
        "insert into knowledge_base_sections (organization_id, source_id, external_id, title)"
        " values ($1, $2, 'orders', 'Orders') returning id",
        source,
    )
    await acme.run(
        "insert into knowledge_base_document_sections (organization_id, document_id, section_id)"
        " values ($1, $2, $3) returning id",
        document,
        section,
    )
    viewer = await dashboard.person(Role.VIEWER)
    reader = await dashboard.person(Role.VIEWER, Role.READER)
    for person, reads in ((viewer, False), (reader, True)):
        status, text = await person.get(f"/documents/{document}")
        assert status == 200
        for said in ("Returns", "Orders", "Docs", "searchable", 'href="https://docs.example.test/r"'):
            assert said in text, said
        assert ("Within thirty days." in text) is reads
        assert ("Its text is not for you to see." in text) is not reads
    only_reader = await dashboard.person(Role.READER)
    assert (await only_reader.get(f"/documents/{document}"))[0] == 403


@pytest.mark.spec("SE-04")
async def test_hostile_text_is_text(dashboard: Dashboard, acme: Shelf) -> None:
    reader = await dashboard.person(Role.VIEWER, Role.READER)
    document = await acme.document(
        await acme.source(name=EVIL), EVIL, f"# {EVIL}\n\n</pre><script>alert(1)</script>", "javascript:alert(1)"
    )
    status, text = await reader.get(f"/documents/{document}")
    assert status == 200
    for markup in ("<img src=x", "<script>alert", "</pre><script", 'href="javascript:', "\u202e"):
        assert markup not in text, markup
    assert "&lt;/pre&gt;&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "U+202E" in text
    assert "Open the original" not in text


async def test_a_long_text_is_cut_with_a_way_to_all_of_it(dashboard: Dashboard, acme: Shelf) -> None:
    reader = await dashboard.person(Role.VIEWER, Role.READER)
    words = "\n\n".join(f"## Part {number}\n\n{'word ' * 300}" for number in range(60)) + "\n\nthe very end of it"
    document = await acme.document(await acme.source(), "Long", words)
    _, text = await reader.get(f"/documents/{document}")
    shown = text.split('aria-label="Text of the document">')[1].split("</pre>")[0]
    assert f"The first {TEXT_SHOWN:,} of" in text
    assert "the very end" not in shown
    _, whole = await reader.get(f"/documents/{document}?text=all")
    assert "the very end of it" in whole.split('aria-label="Text of the document">')[1].split("</pre>")[0]
    assert text.count('class="code passage-text"') == 20
    assert "Part 0" in text.split('id="chunks"')[1]
    more = text.split('rel="next"')[0].rsplit('href="', 1)[1].split('"')[0]
    _, second = await reader.get(more.split("#")[0])
    assert "Chunks 21 to 40 of" in second


async def test_a_removed_document_says_so_and_shows_nothing_of_its_text(dashboard: Dashboard, acme: Shelf) -> None:
    reader = await dashboard.person(Role.VIEWER, Role.READER)
    document = await acme.document(await acme.source(), "Old", "Secret of old.")
    await acme.run(
        "update knowledge_base_documents set discarded_at = now() where organization_id = $1 and id = $2 returning id",
        document,
    )
    status, text = await reader.get(f"/documents/{document}")
    assert (status, "It was removed" in text, "Secret of old" in text) == (200, True, False)


async def test_what_is_no_document_is_not_here(dashboard: Dashboard) -> None:
    person = await dashboard.person(Role.VIEWER)
    for path in ("/documents/1", "/documents/x", "/documents/999999999999999999", "/sources/77", "/crawls/77"):
        assert (await person.get(path))[0] == 404, path


async def test_a_text_of_five_million_characters_is_escaped_line_by_line() -> None:
    text = shown_text("<b>\tword</b>\n" * 200_000 + "a\u202eb\x07")
    assert text.endswith('a<span class="escape">U+202E</span>b<span class="escape">U+0007</span></bdi>')
    assert "<b>" not in text
    assert text.count("&lt;b&gt;") == 200_000
