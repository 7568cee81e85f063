"""`/sources` and `/sources/{id}`: what they show, who sees it, and what the two acts do."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbsync.db.statements import Statements
from kbsync.domain.ids import QueueName
from kbsync.domain.requests import Priority
from kbsync.domain.states import JobState
from kbsync.library import source_pages
from kbsync.library.principals import Role
from kbsync.settings import Settings
from tests.acceptance.deployment import until
from tests.dashboard.conftest import Dashboard
from tests.dashboard.knowledge_rows import EVIL, Shelf, most_rows, shelf, working


@pytest.fixture
async def acme(dashboard: Dashboard) -> Shelf:
    return await shelf(dashboard.runtime.database, "Acme")


@pytest.fixture
async def globex(dashboard: Dashboard) -> Shelf:
    return await shelf(dashboard.runtime.database, "Globex")


@pytest.fixture
def settings(settings: Settings, tmp_path: Path) -> Settings:
    return settings.model_copy(update={"files_roots": [str(tmp_path)]})


@pytest.mark.spec("OP-05")
async def test_the_list_says_how_each_source_stands(dashboard: Dashboard, acme: Shelf, globex: Shelf) -> None:
    person = await dashboard.person(Role.VIEWER)
    assert "kbsync source add website" in (await person.get("/sources"))[1]
    failed = await acme.source("notion", "Company wiki")
    await acme.failed(failed, "Notion refused the token (401).")
    held = await globex.source("website", "Manual")
    await globex.hold(held)
    status, text = await person.get("/sources")
    assert status == 200
    assert "1 source failed and needs a person; 1 removal waits for an approval." in text
    for said in (
        "Company wiki",
        "Notion refused the token (401).",
        "Give the source new credentials",
        "Acme",
        "Globex",
    ):
        assert said in text, said
    assert "The removal of 12 documents waits for an approval" in text
    assert "Manual" not in (await person.get("/sources?status=failed"))[1]
    assert "Company wiki" not in (await person.get("/sources?status=held"))[1]
    assert "Manual" not in (await person.get(f"/sources?organization={acme.organization_id}"))[1]
    assert "Manual" in (await person.get("/sources?text=MANU"))[1]
    assert "No source fits" in (await person.get("/sources?text=%25"))[1]


@pytest.mark.spec("OP-05")
async def test_the_list_is_paged_by_key_and_looks_at_a_bounded_number(dashboard: Dashboard, acme: Shelf) -> None:
    person = await dashboard.person(Role.VIEWER)
    await acme.run(
        "with made as (insert into knowledge_base_sources (organization_id, type, name)"
        " select $1, 'website', 'site ' || n from generate_series(1, 20100) n returning id) select count(*) from made"
    )
    status, text = await person.get("/sources")
    assert (status, text.count('class="lead-cell"')) == (200, 50)
    assert "1,000" in text or "in order" in text
    after = text.split('rel="next"')[0].rsplit("after=", 1)[1].split('"')[0]
    _, second = await person.get(f"/sources?after={after}")
    assert second.count('class="lead-cell"') == 50
    assert "site 1<" not in second
    # What fits is beyond the 20,000 that one page looks at: the page says so and leads on.
    _, none = await person.get("/sources?text=site+20099")
    assert "20,000 were looked at" in none
    onwards = none.split("Look on")[0].rsplit('href="', 1)[1].split('"')[0].replace("&amp;", "&")
    assert "site 20099" in (await person.get(onwards))[1]


@pytest.mark.spec("SE-02", "OP-06")
async def test_who_is_bound_to_one_organization_reaches_no_other(
    dashboard: Dashboard, acme: Shelf, globex: Shelf
) -> None:
    roles = (Role.OPERATOR, Role.READER)
    ours = await dashboard.person(*roles, name="ours", organization_id=acme.organization_id)
    paths = {}
    for one in (acme, globex):
        source = await one.source(name=f"source of {one.organization_id}")
        document = await one.document(source, f"document of {one.organization_id}")
        crawl = await one.crawl(source, found=1)
        await one.url(crawl, "https://docs.example.test/", document_id=document)
        await one.hold(source)
        paths[one.organization_id] = (f"/sources/{source}", f"/documents/{document}", f"/crawls/{crawl}")
    for path in paths[acme.organization_id]:
        assert (await ours.get(path))[0] == 200, path
    for path in paths[globex.organization_id]:
        status, text = await ours.get(path)
        assert (status, f"of {globex.organization_id}" in text) == (404, False), path
    other_source = paths[globex.organization_id][0]
    for act, form in (("sync", {}), ("approve-removal", {"run": "4", "count": "12"})):
        assert (await ours.post(f"{other_source}/{act}", form))[0] == 404, act
    assert await dashboard.audit() == []
    assert (await dashboard.fleet.queue(QueueName.SYNC).counts()).waiting == 0
    for lists in ("/sources", "/crawls", f"/sources?organization={globex.organization_id}", "/sources?text=source"):
        assert f"of {globex.organization_id}" not in (await ours.get(lists))[1], lists
    assert f"of {acme.organization_id}" in (await ours.get("/sources"))[1]


@pytest.mark.spec("OP-06")
async def test_who_only_looks_can_do_nothing(dashboard: Dashboard, acme: Shelf) -> None:
    viewer = await dashboard.person(Role.VIEWER)
    source = await acme.source(name="Docs")
    await acme.hold(source)
    _, text = await viewer.get(f"/sources/{source}")
    assert "A removal waits" in text
    assert "Sync now…" not in text
    assert "Approve removal…" not in text
    assert (await viewer.post(f"/sources/{source}/sync"))[0] == 403
    assert (await viewer.post(f"/sources/{source}/approve-removal", run="4", count="12"))[0] == 403
    assert await dashboard.audit() == []


@pytest.mark.spec("LS-19", "SE-04")
async def test_a_source_shows_no_secret_and_no_markup_of_others(dashboard: Dashboard, acme: Shelf) -> None:
    person = await dashboard.person(Role.OPERATOR)
    config: dict[str, object] = {"start_url": "javascript:alert(1)", "password": "hunter2", "include_paths": [EVIL]}
    source = await acme.source("website", EVIL, config, sealed="sealed-words")
    await acme.hold(source, titles=[EVIL])
    await acme.document(source, EVIL, url="javascript:alert(2)")
    await acme.failed(source, EVIL)
    status, text = await person.get(f"/sources/{source}")
    assert status == 200
    for secret in ("hunter2", "sealed-words", "<img src=x"):
        assert secret not in text
    assert 'href="javascript:' not in text
    assert "&lt;img src=x onerror=alert(1)&gt;" in text
    assert "\u202e" not in text
    assert "has credentials; they are shown nowhere" in text
    assert "1 not shown" in text


@pytest.mark.spec("LS-04", "OP-06")
async def test_sync_now_really_syncs(dashboard: Dashboard, acme: Shelf, tmp_path: Path) -> None:
    (tmp_path / "guide").mkdir()
    (tmp_path / "guide" / "returns.md").write_text("# Returns\n\nWithin 30 days.")
    person = await dashboard.person(Role.OPERATOR, Role.READER)
    source = await acme.source("files", "Handbook", {"path": str(tmp_path)})
    _, before = await person.get(f"/sources/{source}")
    assert "No sync has run yet." in before
    assert f"One job, kb-source-sync-{source}, goes ahead of everything that no person waits for" in before
    status, text = await person.post(f"/sources/{source}/sync")
    assert (status, "Its sync is in line" in text) == (200, True)
    queue = dashboard.fleet.queue(QueueName.SYNC)
    job = await queue.detail(f"kb-source-sync-{source}")
    assert job is not None
    assert (job.view.priority, job.view.state) == (Priority.URGENT, JobState.WAITING)
    assert "was in line already" in (await person.post(f"/sources/{source}/sync"))[1]
    assert await dashboard.audit() == [(person.name, "source.sync", f"source:{source}")] * 2

    async def is_searchable() -> bool:
        return "Returns" in (await person.get(f"/sources/{source}?state=searchable"))[1]

    async with working(dashboard.runtime):
        await until(is_searchable, "the folder's document to be synced and chunked")
    _, after = await person.get(f"/sources/{source}")
    for said in ("Returns", "synced", "guide", f"by <bdi>{person.name}"):
        assert said in after, said


@pytest.mark.spec("LS-09", "LS-04")
async def test_a_held_removal_goes_when_a_person_approves_just_that(
    dashboard: Dashboard, acme: Shelf, tmp_path: Path
) -> None:
    files = [tmp_path / f"page-{number:02}.md" for number in range(20)]
    for file in files:
        file.write_text(f"# {file.stem}\n\nWords.")
    person = await dashboard.person(Role.OPERATOR)
    source = await acme.source("files", "Handbook", {"path": str(tmp_path)})
    page = f"/sources/{source}"

    async def kept() -> int:
        return await acme.run(
            "select count(*) from knowledge_base_documents where organization_id = $1 and source_id = $2"
            " and discarded_at is null",
            source,
        )

    async def runs(number: int) -> bool:
        return bool(
            await acme.run(
                "select (sync_run >= $3 and sync_status = 'synced')::integer from knowledge_base_sources"
                " where organization_id = $1 and id = $2",
                source,
                number,
            )
        )

    async with working(dashboard.runtime):
        await person.post(f"{page}/sync")
        await until(lambda: runs(1), "the first sync")
        for file in files[3:]:
            file.unlink()
        await person.post(f"{page}/sync")
        await until(lambda: runs(2), "the second sync")
        assert await kept() == 20
        _, text = await person.get(page)
        assert "17 of 20 documents were not found" in text
        assert "page-03" in text
        assert "Remove 17 of 20 documents?" in text
        assert "More than 10 documents and more than 30 % of a source never go at once." in text
        run = text.split('name="run" value="', 1)[1].split('"')[0]

        stale = await person.post(f"{page}/approve-removal", run=run, count="16")
        assert "What waits has changed since you looked" in stale[1]
        assert await kept() == 20

        _, said = await person.post(f"{page}/approve-removal", run=run, count="17", why="the shop closed")
        assert "The removal of 17 documents is approved." in said
        await until(lambda: runs(3), "the third sync")
    assert await kept() == 3
    entries = await dashboard.audit("source.approve_removal")
    assert entries == [(person.name, "source.approve_removal", f"source:{source}")]
    assert "the shop closed" in (await person.get(page))[1]
    assert "No removal waits any more" in (await person.post(f"{page}/approve-removal", run=run, count="17"))[1]


async def test_a_paused_organization_is_not_asked_for_a_sync_that_would_be_skipped(
    dashboard: Dashboard, acme: Shelf
) -> None:
    person = await dashboard.person(Role.OPERATOR)
    source = await acme.source(name="Docs")
    await dashboard.runtime.kill_switch.pause("Priya", "rollback", acme.organization_id)
    _, text = await person.get(f"/sources/{source}")
    assert 'popovertarget="sync" disabled title="The kill switch is on for this organization' in text


async def test_what_waits_for_its_first_reading_is_not_called_empty(dashboard: Dashboard, acme: Shelf) -> None:
    """Listed by the last run, and its text comes with a unit of its own that waits for the provider's throttle."""
    person = await dashboard.person(Role.VIEWER)
    source = await acme.source("notion", "Notes", {"base_url": "https://notion.test/v1"})
    await acme.document(source, "Read")
    await acme.run(
        "insert into knowledge_base_documents (organization_id, source_id, source_type, external_id, title, seen_in_run)"
        " values ($1, $2, 'notion', 'u', 'Unread', 1) returning id",
        source,
    )
    await acme.run(
        "update knowledge_base_sources set sync_status = 'synced', sync_run = 1, last_synced_at = now(),"
        " counts = '{\"documents\": 2}', disabled_at = now() where organization_id = $1 and id = $2 returning id",
        source,
    )
    _, text = await person.get(f"/sources/{source}")
    assert "It has no text" not in text
    assert "Its text has not been read yet" in text
    assert '<a href="?state=unread">1 still to be read</a>' in text
    assert "https://notion.test/v1" in text
    _, found = await person.get("/sources?text=notion.test")
    assert f'href="/sources/{source}"' in found
    assert "Disabled: nobody asks its provider." in found


async def test_a_large_source_is_read_a_page_at_a_time(dashboard: Dashboard, acme: Shelf, database_url: str) -> None:
    person = await dashboard.person(Role.VIEWER)
    source = await acme.source(name="Large")
    await acme.run(
        "with made as (insert into knowledge_base_documents (organization_id, source_id, external_id, title)"
        " select $1, $2, n, 'page ' || n from generate_series(1, 25000) n returning id) select count(*) from made",
        source,
    )
    status, text = await person.get(f"/sources/{source}")
    assert (status, text.count('class="lead-cell"')) == (200, 25)
    _, second = await person.get(text.split('rel="next"')[0].rsplit('href="', 1)[1].split('"')[0].replace("&amp;", "&"))
    assert second.count('class="lead-cell"') == 25
    statement = Statements.beside(source_pages.__file__)["source_documents"]
    first = (acme.organization_id, source, 0, None, None, source_pages.LOOKED_AT, 26)
    nothing_fits = (acme.organization_id, source, 0, "%nothing like it%", None, source_pages.LOOKED_AT, 26)
    cost_of_first, cost_of_none = await most_rows(database_url, (statement, first), (statement, nothing_fits))
    assert cost_of_first <= 100
    assert cost_of_none == source_pages.LOOKED_AT
