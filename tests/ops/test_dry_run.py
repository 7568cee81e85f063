"""A look at what a sync would bring, which writes nothing (OP-03)."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from kbsync.domain.requests import SyncSource
from kbsync.providers.contract import SourceSetup
from kbsync.settings import Settings
from ops.dry_run import SHOWN, Known, Preview, preview
from tests.acceptance.deployment import Deployment, deployed, until
from tests.ops.source_verbs import Verbs, kbsync
from tests.providers.fake_api import Fault
from tests.providers.fake_scribe import KEY, FakeScribe, ScribeAccount
from tests.providers.fake_zendesk import FakeZendesk, ZendeskAccount
from tests.providers.listings import provider_of
from tests.providers.syncs import add_source, settled, with_keys
from tests.website.fake_site import FakeSite

__all__ = ["kbsync"]


@pytest.fixture
async def account() -> AsyncIterator[ScribeAccount]:
    async with FakeScribe().served() as fake:
        yield ScribeAccount(fake)


async def rows_written(fleet: Deployment) -> object:
    query = (
        "select array[(select count(*) from knowledge_base_documents), (select count(*) from knowledge_base_sections), "
        "(select count(*) from kbsync.unit_requests), (select sum(sync_run) from knowledge_base_sources)]"
    )
    return await fleet.fetchval(query)


@pytest.mark.spec("OP-03")
async def test_a_new_source_brings_everything_that_it_lists(account: ScribeAccount) -> None:
    account.fill(250)
    async with provider_of(account) as provider:
        found = await preview(provider, None, content_cap=1_000)
    assert (found.documents, found.added, found.sections, found.complete) == (250, 250, 3, True)
    assert (found.removed, found.changed, found.unchanged) == (None, 0, 0)
    assert len(found.examples["added"]) == SHOWN


@pytest.mark.spec("OP-03", "LS-09")
async def test_a_source_that_is_there_is_compared_and_not_touched(account: ScribeAccount, settings: Settings) -> None:
    ids = account.fill(20)
    async with deployed(with_keys(settings)) as fleet:
        organization = await fleet.organization()
        source = await add_source(fleet, account, organization)
        await fleet.ask(SyncSource(organization_id=organization, source_id=source))
        await until(lambda: settled(fleet, source), "the first sync")
        account.change(ids[:3])
        account.fill(3)
        account.delete(ids[3:5])
        before = await rows_written(fleet)
        found = await _look(fleet, account, organization, source)
        assert (found.added, found.changed, found.unchanged, found.removed) == (3, 3, 15, 2)
        assert found.complete
        assert found.held is None
        assert len(found.examples["missing"]) == 2
        account.delete(list(account.fake.documents)[:14])
        assert "would go at once" in str((await _look(fleet, account, organization, source)).held)
        account.repeat_cursor()
        account.fill(200)
        incomplete = await _look(fleet, account, organization, source)
        assert (incomplete.complete, incomplete.removed) == (False, 0)
        assert incomplete.why
        assert any("they stay" in note for note in incomplete.notes)
        assert await rows_written(fleet) == before


@pytest.mark.spec("OP-03", "LS-12")
async def test_what_can_t_be_read_or_was_not_read_yet_is_not_called_changed(
    account: ScribeAccount, settings: Settings
) -> None:
    ids = account.fill(6)
    account.fake.locked.update(ids[:2])
    async with deployed(with_keys(settings)) as fleet:
        organization = await fleet.organization()
        source = await add_source(fleet, account, organization)
        await fleet.ask(SyncSource(organization_id=organization, source_id=source))
        await until(lambda: settled(fleet, source), "the first sync")
        await fleet.fetchval(
            "update knowledge_base_documents set last_synced_at = null, content = null, content_hash = null,"
            " synced_version = null where external_id = $1 returning id",
            ids[5],
        )
        found = await _look(fleet, account, organization, source)
        assert (found.documents, found.changed, found.unchanged, found.unreadable) == (6, 0, 4, 2)
        assert len(found.examples["unreadable"]) == 2


async def _look(fleet: Deployment, account: ScribeAccount | ZendeskAccount, organization: int, source: int) -> Preview:
    from kbsync.library import sources

    database = fleet.runtime.database
    async with database.organization(organization) as connection:
        row = await sources.get(connection, organization, source)
    assert row is not None
    async with provider_of(account) as provider:
        return await preview(provider, Known(database, row), content_cap=fleet.runtime.settings.content_cap)


@pytest.mark.spec("OP-03")
async def test_where_the_listing_brings_the_text_it_is_compared_by_its_hash(settings: Settings) -> None:
    async with FakeZendesk().served() as fake, deployed(with_keys(settings)) as fleet:
        account = ZendeskAccount(fake)
        ids = account.fill(12)
        organization = await fleet.organization()
        source = await add_source(fleet, account, organization)
        await fleet.ask(SyncSource(organization_id=organization, source_id=source))
        await until(lambda: settled(fleet, source), "the first sync")
        account.change(ids[:2])
        found = await _look(fleet, account, organization, source)
        assert (found.added, found.changed, found.unchanged, found.removed) == (0, 2, 10, 0)


@pytest.mark.spec("OP-03")
async def test_a_website_shows_where_its_crawl_would_begin() -> None:
    async with FakeSite() as site:
        site.page("/", "<a href='/a'>a</a>", title="Front")
        site.sitemap([site.at("/b"), site.at("/c")])
        client = site.client()
        from kbsync.providers.website.provider import WebsiteProvider

        provider = WebsiteProvider(SourceSetup(1, 1, {"start_url": site.at("/")}), client)
        found = await preview(provider, None, content_cap=1_000)
        await client.close()
    assert (found.added, found.complete) == (3, False)
    assert "by its crawl" in str(found.why)


@pytest.mark.spec("OP-03")
async def test_the_verbs_print_counts_and_titles_and_fail_as_a_sync_would(
    kbsync: Verbs, account: ScribeAccount, settings: Settings
) -> None:
    account.fill(30)
    setup = [f"{name}={value}" for name, value in account.config().items() if name != "types"] + ["types=scribe"]
    words = [word for pair in setup for word in ("--config", pair)]
    new = ("source", "add", "scribe", *words, "--credentials", "-", "--dry-run")
    said = await kbsync(*new, typed=f'{{"api_key": "{KEY}"}}')
    assert said.code == 0, said
    assert "added       30" in said.out
    assert "the listing is complete" in said.out
    assert len(said.out.splitlines()) < 40
    made = (await kbsync(*new[:-1], "--new-organization", "A", "--json", typed=f'{{"api_key": "{KEY}"}}')).json
    of = (str(made["source_id"]), "--organization", str(made["organization_id"]))
    there = (await kbsync("source", "sync", *of, "--dry-run", "--json")).json
    assert (there["added"], there["removed"]) == (30, 0)
    account.fake.fail(account.is_page, Fault(500))
    assert (await kbsync("source", "sync", *of, "--dry-run")).code == 1
