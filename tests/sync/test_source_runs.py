"""The ledger of a source's runs: what each came to, bounded by count, whatever it took (LS-12)."""

from __future__ import annotations

import json

import pytest

from kbsync.db.pool import Database
from kbsync.domain.requests import SyncDocument, SyncSource
from kbsync.library import data_sources, source_runs, sources
from kbsync.library.source_runs import KEPT, SourceRun
from kbsync.providers.contract import Content, ListedDocument, ListingEnd, Provider, SourceSetup, UnreadableItem
from kbsync.settings import Settings
from tests.acceptance.deployment import Deployment, deployed, until
from tests.producers.library_rows import a_source
from tests.providers.fake_api import Fault
from tests.providers.fake_scribe import FakeScribe, ScribeAccount
from tests.providers.syncs import add_source, settled, status_is, with_keys
from tests.sync.test_refused_credentials import all_ended
from tests.website.fake_site import FakeSite


async def runs(fleet: Deployment, organization: int, source: int) -> list[SourceRun]:
    async with fleet.runtime.database.organization(organization) as connection:
        return await source_runs.newest(connection, organization, source)


def counts(run: SourceRun) -> tuple[int, int, int, int, int]:
    return run.added, run.changed, run.unchanged, run.removed, run.unreadable


@pytest.mark.spec("LS-12", "LS-08")
async def test_each_run_says_what_came_changed_stayed_and_went(settings: Settings) -> None:
    async with FakeScribe().served() as fake, deployed(with_keys(settings, sync_concurrency=8)) as fleet:
        account = ScribeAccount(fake)
        ids = account.fill(20)
        organization = await fleet.organization()
        source = await add_source(fleet, account, organization)
        sync = SyncSource(organization_id=organization, source_id=source)
        await fleet.ask(sync)
        await until(lambda: settled(fleet, source), "the first sync")
        account.change(ids[:3])
        account.fill(2)
        account.delete(ids[3:5])
        await fleet.ask(sync)
        await until(lambda: all_ended(fleet), "the second sync")
        await until(lambda: settled(fleet, source), "the second sync's documents")
        second, first = await runs(fleet, organization, source)
        assert counts(first) == (20, 0, 0, 0, 0)
        assert counts(second) == (2, 3, 15, 2, 0)
        assert (second.outcome, second.attempts, second.reason) == ("synced", 1, None)
        fake.fail(account.is_page, Fault(500))
        await fleet.ask(sync)
        await until(lambda: status_is(fleet, source, "failed"), "the third run to fail")
        failed = (await runs(fleet, organization, source))[0]
        assert (failed.outcome, failed.attempts) == ("failed", 3)
        assert "500" in str(failed.reason)
        assert failed.ended_at is not None


@pytest.mark.spec("LS-12", "LS-08")
async def test_what_reading_finds_after_the_listing_is_counted_with_its_run(settings: Settings) -> None:
    """The listing says added and changed; the documents' own reading finds some locked, open again, or gone."""
    async with FakeScribe().served() as fake, deployed(with_keys(settings, sync_concurrency=8)) as fleet:
        account = ScribeAccount(fake)
        ids = account.fill(12)
        fake.locked.update(ids[:3])
        fake.fail(lambda asked: asked.path.strip("/").endswith(ids[11]), Fault(404))
        organization = await fleet.organization()
        source = await add_source(fleet, account, organization)

        async def counted() -> tuple[list[tuple[int, int, int, int, int]], dict[str, object]]:
            await fleet.ask(SyncSource(organization_id=organization, source_id=source))
            await until(lambda: all_ended(fleet), "the sync")
            await until(lambda: settled(fleet, source), "its documents")
            stored = await fleet.fetchval("select counts from knowledge_base_sources where id = $1", source)
            about = json.loads(str(stored))
            found = [counts(run) for run in await runs(fleet, organization, source)]
            return found, {name: about[name] for name in ("documents", "unreadable", "removed")}

        assert await counted() == ([(8, 0, 0, 1, 3)], {"documents": 11, "unreadable": 3, "removed": 1})
        fake.locked.discard(ids[0])
        account.lock(ids[5:6])
        (second, _), about = await counted()
        # What was gone is listed again (and gone again): it counts as removed, and as nothing else.
        assert (second, about) == ((0, 1, 7, 1, 3), {"documents": 11, "unreadable": 3, "removed": 1})


@pytest.mark.spec("LS-12")
async def test_what_waits_for_its_first_reading_has_not_changed(settings: Settings) -> None:
    async with FakeScribe().served() as fake, deployed(with_keys(settings)) as fleet:
        account = ScribeAccount(fake)
        account.fill(5)
        organization = await fleet.organization()
        source = await add_source(fleet, account, organization)
        async with fleet.runtime.database.organization(organization) as connection:
            once = {"source_sync": {"count": 100, "window_s": 1}, "document_sync": {"count": 1, "window_s": 3_600}}
            row = await sources.get(connection, organization, source)
            assert row is not None
            assert row.data_source_id is not None
            await data_sources.set_limits(connection, organization, row.data_source_id, once)
        sync = SyncSource(organization_id=organization, source_id=source)
        await fleet.ask(sync)
        await until(lambda: _ended_runs(fleet, organization, source, 1), "the first run")
        await until(lambda: _read(fleet, source, 1), "the one reading that has room")
        await fleet.ask(sync)
        await until(lambda: _ended_runs(fleet, organization, source, 2), "the second run")
        second, first = await runs(fleet, organization, source)
    assert (counts(first), counts(second)) == ((5, 0, 0, 0, 0), (0, 0, 5, 0, 0))


async def _ended_runs(fleet: Deployment, organization: int, source: int, many: int) -> bool:
    return sum(run.ended_at is not None for run in await runs(fleet, organization, source)) == many


async def _read(fleet: Deployment, source: int, many: int) -> bool:
    read = "select count(*) from knowledge_base_documents where source_id = $1 and last_synced_at is not null"
    return await fleet.fetchval(read, source) == many


@pytest.mark.spec("LS-12", "LS-09")
async def test_what_can_t_be_read_and_why_nothing_went_is_kept_with_the_run(settings: Settings) -> None:
    parts = [
        ListedDocument("a", "A", content=Content("text", "A")),
        UnreadableItem("b", "B", "is locked"),
        ListingEnd(False, "a page was missing"),
    ]

    class Listing:
        name, listing_brings_content, crawls = "toy", True, False

        async def list_items(self):  # type: ignore[no-untyped-def]
            for part in parts:
                yield part

        async def close(self) -> None:
            return None

    def build(source_type: str, setup: SourceSetup) -> Provider:
        return Listing()  # type: ignore[return-value]

    async with deployed(settings, build_provider=build) as fleet:
        organization = await fleet.organization()
        source = await fleet.source(organization, "toy", {})
        for text in ("text", "other text"):
            parts[0] = ListedDocument("a", "A", content=Content(text, "A"))
            await fleet.ask(SyncSource(organization_id=organization, source_id=source))
            await until(lambda: all_ended(fleet), "a sync")
            await until(lambda: settled(fleet, source), "its chunks")
        second, first = await runs(fleet, organization, source)
        assert (counts(first), counts(second)) == ((1, 0, 0, 0, 1), (0, 1, 0, 0, 1))
        assert second.reason == "Not complete: a page was missing"


@pytest.mark.spec("LS-12", "LS-16")
async def test_a_crawl_is_one_run_with_its_source(settings: Settings) -> None:
    async with FakeSite() as site, deployed(settings) as fleet:
        site.page("/", "<p>One.</p><a href='/a'>a</a><a href='/b'>b</a>", title="Front")
        site.page("/a", "<p>First words.</p>", title="A")
        site.page("/b", "<p>Words of b.</p>", title="B")
        organization = await fleet.organization()
        source = await fleet.source(organization, "website", {"start_url": site.at("/")})
        sync = SyncSource(organization_id=organization, source_id=source)
        await fleet.ask(sync)
        await until(lambda: settled(fleet, source), "the first crawl")
        site.page("/a", "<p>Other words.</p>", title="A")
        await fleet.ask(sync)

        async def two_ended() -> bool:
            return sum(run.ended_at is not None for run in await runs(fleet, organization, source)) == 2

        await until(two_ended, "the second crawl")
        second, first = await runs(fleet, organization, source)
        assert (counts(first), counts(second)) == ((3, 0, 0, 0, 0), (0, 1, 2, 0, 0))


@pytest.mark.spec("LS-12")
async def test_only_the_newest_are_kept_and_an_open_one_is_taken_up(database: Database) -> None:
    source = await a_source(database)
    other = await a_source(database)
    async with database.organization(7) as connection:
        for number in range(KEPT + 5):
            await source_runs.begin(connection, 7, source)
            await source_runs.begin(connection, 7, source, removed=1)
            await source_runs.fail(connection, 7, source, f"run {number}")
        await source_runs.begin(connection, 7, other)
        found = await source_runs.newest(connection, 7, source, 1_000)
        assert len(await source_runs.newest(connection, 7, other)) == 1
    assert [run.reason for run in found] == [f"run {number}" for number in range(KEPT + 4, 4, -1)]
    assert {(run.attempts, run.removed) for run in found} == {(2, 1)}


@pytest.mark.spec("LS-26")
async def test_a_disabled_source_s_units_ask_nobody(settings: Settings) -> None:
    from kbsync.library import source_setup

    async with FakeScribe().served() as fake, deployed(with_keys(settings, sync_concurrency=8)) as fleet:
        account = ScribeAccount(fake)
        account.fill(3)
        organization = await fleet.organization()
        source = await add_source(fleet, account, organization)
        sync = SyncSource(organization_id=organization, source_id=source)
        await fleet.ask(sync)
        await until(lambda: settled(fleet, source), "the first sync")
        async with fleet.runtime.database.organization(organization) as connection:
            assert await source_setup.set_disabled(connection, organization, source, True)
            assert not await source_setup.set_disabled(connection, organization, source, True)
        fake.log.clear()
        documents = [SyncDocument(organization_id=organization, document_id=one) for one in range(1, 4)]
        await fleet.ask(sync, *documents)
        await until(lambda: all_ended(fleet), "units that end without asking")
        assert fake.log == []
        assert await status_is(fleet, source, "synced")
        async with fleet.runtime.database.organization(organization) as connection:
            assert await source_setup.set_disabled(connection, organization, source, False)
        await fleet.ask(sync)
        await until(lambda: all_ended(fleet), "a sync again")
        assert fake.asked_for(account.is_page) > 0
