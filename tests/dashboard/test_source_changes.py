"""The source's page: what its runs came to, and the acts that edit, disable and remove it (LS-26, OP-06)."""

from __future__ import annotations

import pytest

from kbsync.domain.ids import QueueName
from kbsync.library import source_runs
from kbsync.library.principals import Role
from tests.dashboard.conftest import Dashboard
from tests.dashboard.knowledge_rows import EVIL, Shelf, shelf


@pytest.fixture
async def acme(dashboard: Dashboard) -> Shelf:
    return await shelf(dashboard.runtime.database, "Acme")


@pytest.fixture
async def globex(dashboard: Dashboard) -> Shelf:
    return await shelf(dashboard.runtime.database, "Globex")


async def stored(acme: Shelf, source: int, what: str) -> object:
    return await acme.run(f"select {what} from knowledge_base_sources where organization_id = $1 and id = $2", source)


@pytest.mark.spec("OP-05", "LS-12")
async def test_the_page_shows_what_the_last_runs_came_to_and_every_unreadable_document(
    dashboard: Dashboard, acme: Shelf
) -> None:
    person = await dashboard.person(Role.VIEWER)
    source = await acme.source(name="Docs")
    database, organization = dashboard.runtime.database, acme.organization_id
    async with database.organization(organization) as connection:
        await source_runs.begin(connection, organization, source, removed=4)
        await source_runs.settle(
            connection, organization, source, listing=1, reads_later=False, removed=3, reason=f"Not complete: {EVIL}"
        )
        await source_runs.begin(connection, organization, source)
        await source_runs.fail(connection, organization, source, "Scribe refused the API key (401).")
        await source_runs.begin(connection, organization, source)
        await source_runs.begin(connection, organization, source)
    await acme.run(
        "with made as (insert into knowledge_base_documents (organization_id, source_id, external_id, title, "
        "unreadable_reason) values ($1, $2, 'x', 'Locked page', 'it is locked for us') returning 1) "
        "select count(*) from made",
        source,
    )
    status, text = await person.get(f"/sources/{source}")
    assert status == 200
    for said in ("Runs", "Scribe refused the API key (401).", "under way", "attempt 2", "Not complete: "):
        assert said in text, said
    assert "<img src=x" not in text
    row = text.split("Not complete: ")[1].split("</tr>")[0]
    assert ">7<" in row  # removed: four with an approval, three by the run
    _, unreadable = await person.get(f"/sources/{source}?state=unreadable")
    assert "Locked page" in unreadable
    assert "it is locked for us" in unreadable.lower()
    for act in ("Edit…", "Disable…", "Remove…"):
        assert act not in text


@pytest.mark.spec("LS-26", "OP-06")
async def test_an_edit_is_checked_as_a_new_source_is(dashboard: Dashboard, acme: Shelf) -> None:
    person = await dashboard.person(Role.OPERATOR)
    source = await acme.source("website", "Docs", {"start_url": "https://x.test/", "password": "hunter2"})
    page = f"/sources/{source}"
    _, text = await person.get(page)
    assert "start_url=https://x.test/" in text
    assert "hunter2" not in text
    settings = "start_url=https://x.test/docs\ninclude_paths=/docs,/faq\nmax_urls=50\n"
    form = {"name": "Manual", "every": "21600", "daily": "no", "settings": settings}
    _, said = await person.post(f"{page}/edit", form)
    assert "It is saved. 3 settings changed." in said
    assert "every 6 hours" in said
    assert await stored(acme, source, "name") == "Manual"
    assert await stored(acme, source, "sync_every_s") == 21_600
    assert await stored(acme, source, "config ->> 'include_paths'") == '["/docs", "/faq"]'
    assert await stored(acme, source, "config ->> 'password'") == "hunter2"
    for wrong, why in (
        (
            {**form, "settings": "max_urls=many\nstart_url=https://x.test/"},
            "must be a whole number. Nothing was changed.",
        ),
        ({**form, "settings": "colour=red"}, "no setting"),
        ({**form, "settings": "nothing"}, "one setting a line"),
        ({**form, "every": "7"}, "can’t be chosen"),
        ({**form, "daily": "maybe"}, "can’t be chosen"),
    ):
        _, refused = await person.post(f"{page}/edit", wrong)
        assert why in refused, why
    assert await stored(acme, source, "config ->> 'max_urls'") == "50"
    assert await dashboard.audit() == [(person.name, "source.edit", f"source:{source}")]


@pytest.mark.spec("LS-26", "OP-06")
async def test_a_disabled_source_says_so_and_takes_no_sync(dashboard: Dashboard, acme: Shelf) -> None:
    person = await dashboard.person(Role.OPERATOR)
    source = await acme.source(name="Docs")
    page = f"/sources/{source}"
    _, said = await person.post(f"{page}/disable", {"why": "they complain"})
    assert "It is disabled: nobody asks its provider." in said
    assert "Disabled" in said
    assert "This source is disabled: enable it first" in said
    assert "disabled already" in (await person.post(f"{page}/disable"))[1]
    assert "enable it first" in (await person.post(f"{page}/sync"))[1]
    assert (await dashboard.fleet.queue(QueueName.SYNC).counts()).waiting == 0
    assert "It is enabled" in (await person.post(f"{page}/enable"))[1]
    assert "Its sync is in line" in (await person.post(f"{page}/sync"))[1]
    done = {entry[1] for entry in await dashboard.audit()}
    assert done == {"source.disable", "source.enable", "source.sync"}


@pytest.mark.spec("LS-26", "OP-06")
async def test_a_removal_takes_what_the_page_showed_and_no_other(dashboard: Dashboard, acme: Shelf) -> None:
    person = await dashboard.person(Role.OPERATOR)
    source, other = await acme.source(name="Docs"), await acme.source(name="Others")
    for one in (source, other):
        for number in range(3):
            await acme.document(one, f"page {number}")
    _, text = await person.get(f"/sources/{source}")
    assert "3 documents with" in text
    await acme.run(
        "update knowledge_base_sources set counts = '{\"documents\": 2}' where organization_id = $1 and id = $2 returning id",
        source,
    )
    assert "3 documents (1 of them removed before) with" in (await person.get(f"/sources/{source}"))[1]
    stale = await person.post(f"/sources/{source}/remove", {"documents": "2"})
    assert "has changed since you looked" in stale[1]
    _, said = await person.post(f"/sources/{source}/remove", {"documents": "3"})
    assert "It is removed, with 3 documents" in said
    assert (await person.get(f"/sources/{source}"))[0] == 404
    assert await acme.run("select count(*) from knowledge_base_documents where organization_id = $1") == 3
    assert await dashboard.audit() == [(person.name, "source.remove", f"source:{source}")]


@pytest.mark.spec("SE-02", "OP-06")
async def test_nobody_changes_what_is_not_theirs(dashboard: Dashboard, acme: Shelf, globex: Shelf) -> None:
    ours = await dashboard.person(Role.OPERATOR, name="ours", organization_id=acme.organization_id)
    viewer = await dashboard.person(Role.VIEWER)
    source = await globex.source(name="Docs")
    for act in ("edit", "disable", "enable", "remove"):
        assert (await ours.post(f"/sources/{source}/{act}", {"documents": "0"}))[0] == 404, act
        assert (await viewer.post(f"/sources/{source}/{act}"))[0] == 403, act
    assert await dashboard.audit() == []
