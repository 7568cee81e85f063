"""Documents and search for those whom they are for, and pictures that lead on (LS-25, LS-27)."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from cryptography.fernet import Fernet

from kbsync.dashboard.pages.documents import with_assets
from kbsync.library import data_sources, sources
from kbsync.library.principals import Role
from kbsync.settings import Settings
from tests.dashboard.conftest import Dashboard
from tests.dashboard.knowledge_rows import Shelf, shelf
from tests.providers.fake_api import Fault
from tests.providers.fake_scribe import FakeScribe, ScribeAccount

LOOKS = (Role.VIEWER, Role.READER)


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return Settings(**{**settings.model_dump(), "credentials_keys": Fernet.generate_key().decode()})


@pytest.fixture
async def acme(dashboard: Dashboard) -> Shelf:
    return await shelf(dashboard.runtime.database, "Acme")


async def restrict(acme: Shelf, document: int, audience: str, *groups: str) -> None:
    await acme.run(
        "update knowledge_base_documents set audience = $3, audience_groups = $4 where organization_id = $1 and id = $2"
        " returning id",
        document,
        audience,
        list(groups),
    )


@pytest.mark.spec("LS-27", "OP-06")
async def test_a_text_is_shown_to_those_it_is_for(dashboard: Dashboard, acme: Shelf) -> None:
    document = await acme.document(await acme.source(), "Refund policy", "Refunds over a thousand need Ada.")
    stranger = await dashboard.person(*LOOKS, public_only=True)
    member = await dashboard.person(*LOOKS)
    agent = await dashboard.person(*LOOKS, groups=["Agents"])
    for audience, groups, who, said in (
        ("public", (), (stranger, member, agent), "everybody"),
        ("members", (), (member, agent), "It is for members."),
        ("groups", ("Agents", "<b>Staff</b>"), (agent,), "It is for 2 groups: Agents, &lt;b&gt;Staff&lt;/b&gt;."),
    ):
        await restrict(acme, document, audience, *groups)
        for person in (stranger, member, agent):
            status, text = await person.get(f"/documents/{document}")
            assert (status, "Refund policy" in text) == (200, True)
            assert ("need Ada" in text) is (person in who), (audience, person.name)
            assert (person in who) or said in text
            _, hits = await person.get(f"/search?q=thousand&organization={acme.organization_id}")
            assert ("Refund policy" in hits) is (person in who), (audience, person.name)


@pytest.mark.spec("LS-27")
async def test_a_text_for_nobody_knows_whom_is_shown_to_nobody_and_says_why(dashboard: Dashboard, acme: Shelf) -> None:
    source = await acme.source()
    document = await acme.document(source, "Odd one", "Nobody knows whose words these are.")
    await restrict(acme, document, "unknown")
    admin = await dashboard.person(Role.ADMIN, Role.READER, groups=["Agents"])
    _, text = await admin.get(f"/documents/{document}")
    assert "found by nobody" in text
    assert "did not say who may read it" in text
    assert "Let the connection read permissions" in text
    assert "whose words" not in text
    _, listed = await admin.get(f"/sources/{source}")
    assert "found by nobody" in listed
    _, hits = await admin.get(f"/search?q=words&organization={acme.organization_id}")
    assert "No passage fits" in hits


@pytest.fixture
async def fake() -> AsyncIterator[FakeScribe]:
    async with FakeScribe().served() as served:
        served.pictures = f"{served.url}/pictures"
        yield served


@pytest.mark.spec("LS-25", "LS-27", "OP-06")
async def test_a_picture_is_a_link_that_leads_on_for_who_may_read(
    dashboard: Dashboard, acme: Shelf, fake: FakeScribe
) -> None:
    account = ScribeAccount(fake)
    (item,) = account.fill(1)
    async with acme.database.organization(acme.organization_id) as connection:
        data_source = await data_sources.create(
            connection,
            acme.organization_id,
            provider="scribe",
            sealed_credentials=dashboard.runtime.units.vault.seal(account.credentials()),
        )
        source = await sources.create(
            connection, acme.organization_id, type="scribe", config=account.config(), data_source_id=data_source
        )
    assert source is not None
    document = await acme.document(source, item, f"Press ![it](kbsync-asset:action-a-{item}) now")
    await restrict(acme, document, "groups", "Agents")
    path = f"/documents/{document}/assets/action-a-{item}"
    agent = await dashboard.person(*LOOKS, groups=["Agents"])
    _, text = await agent.get(f"/documents/{document}")
    assert f'href="{path}"' in text
    answer = await agent.raw("GET", path)
    assert answer.status == 302
    assert answer.headers["Location"].startswith(f"{fake.url}/pictures/a-")
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert answer.headers["Cache-Control"] == "no-store"
    assert (await agent.get(f"/documents/{document}/assets/action-b"))[0] == 404
    other = await shelf(dashboard.runtime.database, "Other")
    for person, status in (
        (await dashboard.person(*LOOKS), 404),
        (await dashboard.person(*LOOKS, groups=["Agents"], organization_id=other.organization_id), 404),
        (await dashboard.person(Role.VIEWER, groups=["Agents"]), 403),
    ):
        refused = await person.raw("GET", path)
        assert (refused.status, "Location" in refused.headers) == (status, False)
    fake.fail(account.is_fetch, Fault(429, headers={"Retry-After": "70"}))
    busy = await agent.raw("GET", path)
    assert (busy.status, busy.headers["Retry-After"]) == (503, "70")
    assert "asked to be left alone" in await busy.text()
    async with dashboard.stranger() as nobody:
        assert (await nobody.raw("GET", path)).status in (303, 401)


@pytest.mark.spec("LS-25", "SE-04")
def test_references_become_links_and_everything_around_them_stays_text() -> None:
    shown = with_assets('<b>![x](kbsync-asset:a-1) and [y](kbsync-asset:b%2F\u202e) kbsync-asset:"><i', 7)
    assert shown.count("<a ") == 2
    assert 'href="/documents/7/assets/a-1"' in shown
    assert 'href="/documents/7/assets/b%252F%E2%80%AE"' in shown
    assert "\u202e" not in shown
    assert "<b>" not in shown
    assert "<i" not in shown
