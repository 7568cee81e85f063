"""The crawl ledger, driven by a toy website."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import replace

import pytest

from kbsync.db.pool import Database
from kbsync.domain.errors import ProviderUnreachable
from kbsync.domain.ids import job_id, url_digest
from kbsync.domain.outcomes import Done, Outcome, RecordMissing
from kbsync.domain.requests import CrawlUrl, DocumentChunks, LibraryRequest, StartCrawl, SyncDocument, SyncSource
from kbsync.domain.states import UnitEnd
from kbsync.providers.contract import CrawledPage, CrawlPlan, PageGone, PageRefused, PageUnchanged
from kbsync.sync.chunks import document_chunks
from kbsync.sync.crawl_start import start_crawl
from kbsync.sync.crawl_url import crawl_url, fail_url
from kbsync.sync.document import sync_document
from kbsync.sync.failure import record_failure
from kbsync.sync.source import sync_source
from tests.sync.crashes import Crashed, DyingDatabase, points_left
from tests.sync.toy import Tenant, ToySite, at, follow_ups, make_tenant, page

HOME, A, B, C = (f"https://toy.test/{path}" for path in ("", "a", "b", "c"))


async def perform(tenant: Tenant, request: LibraryRequest) -> Outcome:
    match request:
        case SyncSource():
            return await sync_source(tenant.units, request, tenant.run(request))
        case StartCrawl():
            return await start_crawl(tenant.units, request, tenant.run(request))
        case CrawlUrl():
            return await crawl_url(tenant.units, request, tenant.run(request))
        case DocumentChunks():
            return await document_chunks(tenant.units, request, tenant.run(request))
        case _:
            raise AssertionError(request)


async def crawl(tenant: Tenant, *, with_chunks: bool = False) -> int:
    """Runs a whole crawl, one unit after another, and answers its task. A unit that fails three times is given up."""
    waiting: deque[LibraryRequest] = deque(
        [SyncSource(organization_id=tenant.organization_id, source_id=tenant.source_id)]
    )
    attempts: dict[LibraryRequest, int] = {}
    while waiting:
        request = waiting.popleft()
        attempts[request] = attempts.get(request, 0) + 1
        try:
            outcome = await perform(tenant, request)
        except ProviderUnreachable as error:
            assert isinstance(request, CrawlUrl)
            if attempts[request] < 3:
                waiting.append(request)
            else:
                await fail_url(tenant.units, request, tenant.run(request), str(error), UnitEnd.FAILED)
            continue
        waiting += [
            asked for asked in await follow_ups(outcome) if with_chunks or not isinstance(asked, DocumentChunks)
        ]
    task = await tenant.value("select max(id) from knowledge_base_crawl_tasks")
    assert isinstance(task, int)
    return task


async def outcomes(tenant: Tenant, task: int) -> dict[str, str]:
    rows = await tenant.rows("select url, outcome from kbsync.crawl_task_urls where crawl_task_id = $1", task)
    return {str(row["url"]): str(row["outcome"]) for row in rows}


async def task_row(tenant: Tenant, task: int) -> dict[str, object]:
    [row] = await tenant.rows("select * from knowledge_base_crawl_tasks where id = $1", task)
    return dict(row)


async def source_row(tenant: Tenant) -> dict[str, object]:
    [row] = await tenant.rows("select * from knowledge_base_sources where id = $1", tenant.source_id)
    return dict(row)


@pytest.mark.spec("LS-14", "LS-12")
async def test_a_site_is_crawled_stored_and_counted(database: Database) -> None:
    site = ToySite({HOME: page(HOME, "home", A, B), A: page(A, "a", B, HOME), B: page(B, "b", C), C: page(C, "c")})
    tenant = await make_tenant(database, site)
    task = await crawl(tenant, with_chunks=True)
    assert await outcomes(tenant, task) == dict.fromkeys([HOME, A, B, C], "stored")
    assert sorted(site.fetched) == sorted([HOME, A, B, C])
    row = await task_row(tenant, task)
    assert (row["status"], row["urls_pending"], row["urls_found"]) == ("completed", 0, 4)
    source = await source_row(tenant)
    assert source["sync_status"] == "synced"
    assert source["last_synced_at"] is not None
    assert await tenant.value("select count(*) from document_chunks") == 4
    depths = await tenant.rows("select url, depth, parent_url from kbsync.crawl_task_urls order by url")
    assert [(r["url"], r["depth"], r["parent_url"]) for r in depths] == [
        (HOME, 0, None), (A, 1, HOME), (B, 1, HOME), (C, 2, B),
    ]  # fmt: skip


@pytest.mark.spec("LS-15")
async def test_a_finished_url_replays_its_follow_ups_without_fetching_or_counting(database: Database) -> None:
    site = ToySite({HOME: page(HOME, "home", A, B), A: page(A, "a"), B: page(B, "b")})
    tenant = await make_tenant(database, site)
    task = await crawl_until_home_is_read(tenant)
    home = CrawlUrl(organization_id=tenant.organization_id, crawl_task_id=task, url=HOME)
    before = await task_row(tenant, task)
    again = await follow_ups(await perform(tenant, home))
    document = await tenant.document_id(HOME)
    chunks = DocumentChunks(organization_id=tenant.organization_id, document_id=document)
    children = {CrawlUrl(organization_id=tenant.organization_id, crawl_task_id=task, url=url) for url in (A, B)}
    assert (again[0], set(again[1:])) == (chunks, children)
    assert site.fetched == [HOME]
    assert await task_row(tenant, task) == before


async def crawl_until_home_is_read(tenant: Tenant) -> int:
    source = SyncSource(organization_id=tenant.organization_id, source_id=tenant.source_id)
    [start] = await follow_ups(await perform(tenant, source))
    assert isinstance(start, StartCrawl)
    [home] = await follow_ups(await perform(tenant, start))
    await perform(tenant, home)
    return start.crawl_task_id


@pytest.mark.spec("LS-14")
async def test_a_retryable_failure_counts_nothing_and_the_final_one_counts_once(database: Database) -> None:
    down = ProviderUnreachable("answered 502")
    site = ToySite({HOME: page(HOME, "home", A, B), A: [down, page(A, "a")], B: down})
    tenant = await make_tenant(database, site)
    task = await crawl(tenant)
    assert await outcomes(tenant, task) == {HOME: "stored", A: "stored", B: "failed"}
    row = await task_row(tenant, task)
    assert (row["status"], row["urls_pending"]) == ("completed", 0)
    assert row["incomplete_reasons"] == ["a page could not be read"]
    failed = CrawlUrl(organization_id=tenant.organization_id, crawl_task_id=task, url=B)
    await fail_url(tenant.units, failed, tenant.run(failed), "again", UnitEnd.ABANDONED)
    assert (await task_row(tenant, task))["urls_pending"] == 0


@pytest.mark.spec("LS-14", "LS-07")
async def test_permanent_answers_finish_a_url(database: Database) -> None:
    site = ToySite({HOME: page(HOME, "home", A, B), A: PageGone(410), B: PageRefused("is a picture")})
    tenant = await make_tenant(database, site)
    task = await crawl(tenant)
    assert await outcomes(tenant, task) == {HOME: "stored", A: "gone", B: "refused"}
    assert (await task_row(tenant, task))["incomplete_reasons"] == []


@pytest.mark.spec("LS-09")
async def test_a_complete_crawl_removes_what_is_gone_and_a_failed_page_keeps_everything(database: Database) -> None:
    site = ToySite({HOME: page(HOME, "home", A, B), A: page(A, "a"), B: page(B, "b")})
    tenant = await make_tenant(database, site)
    await crawl(tenant)
    site.pages[HOME] = page(HOME, "home", A)
    site.pages[A] = ProviderUnreachable("answered 500")
    await crawl(tenant)
    assert await tenant.kept() == [HOME, A, B]
    assert "incomplete" in str((await source_row(tenant))["counts"])
    site.pages[A] = page(A, "a")
    await crawl(tenant)
    assert await tenant.kept() == [HOME, A]


@pytest.mark.spec("LS-09")
async def test_a_start_page_that_is_refused_proves_nothing(database: Database) -> None:
    site = ToySite({HOME: page(HOME, "home", A), A: page(A, "a")}, seeds=(HOME, A))
    tenant = await make_tenant(database, site)
    await crawl(tenant)
    site.pages[HOME] = PageRefused("robots.txt forbids it")
    await crawl(tenant)
    assert await tenant.kept() == [HOME, A]
    assert "start page" in str((await source_row(tenant))["counts"])


async def test_a_blocked_plan_fails_the_source_in_its_own_words(database: Database) -> None:
    site = ToySite({}, plan=CrawlPlan((), blocked="robots.txt forbids every page of this site."))
    tenant = await make_tenant(database, site)
    await crawl(tenant)
    source = await source_row(tenant)
    assert (source["sync_status"], source["sync_error"]) == (
        "failed", "robots.txt forbids every page of this site.",
    )  # fmt: skip


@pytest.mark.spec("LS-05", "LS-14")
async def test_what_a_page_asks_for_is_owed_from_the_moment_it_is_stored(database: Database) -> None:
    """Nobody enqueues what the unit returns: its links and its chunks are owed all the same."""
    site = ToySite({HOME: page(HOME, "home", A, B)})
    tenant = await make_tenant(database, site)
    source = SyncSource(organization_id=tenant.organization_id, source_id=tenant.source_id)
    [start] = await follow_ups(await perform(tenant, source))
    [home] = await follow_ups(await perform(tenant, start))
    returned = await follow_ups(await perform(tenant, home))
    owed = await tenant.rows("select job_id from kbsync.unit_requests where ended_at is null and kind <> 'sync_source'")
    assert {str(row["job_id"]) for row in owed} >= {job_id(request) for request in returned}
    assert [request.type for request in returned] == ["document_chunks", "crawl_url", "crawl_url"]


@pytest.mark.spec("LS-15")
async def test_a_start_that_fails_for_good_leaves_nothing_pending_and_a_running_crawl_alone(database: Database) -> None:
    site = ToySite({HOME: page(HOME, "home", A), A: page(A, "a")})
    tenant = await make_tenant(database, site)
    source = SyncSource(organization_id=tenant.organization_id, source_id=tenant.source_id)
    [start] = await follow_ups(await perform(tenant, source))
    assert isinstance(start, StartCrawl)
    died = replace(tenant.units, database=DyingDatabase(database))
    for points in range(20):
        points_left.set(points)
        with pytest.raises(Crashed):
            await start_crawl(died, start, tenant.run(start))
        points_left.set(None)
        if await outcomes(tenant, start.crawl_task_id):
            break
    await record_failure(tenant.units, start, tenant.run(start), ProviderUnreachable("the site does not answer"))
    row = await task_row(tenant, start.crawl_task_id)
    assert (row["status"], row["urls_pending"]) == ("failed", 0)
    assert await outcomes(tenant, start.crawl_task_id) == {HOME: "failed"}

    [again] = await follow_ups(await perform(tenant, source))
    assert isinstance(again, StartCrawl)
    urls = deque(await follow_ups(await perform(tenant, again)))
    await record_failure(tenant.units, again, tenant.run(again), ProviderUnreachable("a second start of it failed"))
    assert (await task_row(tenant, again.crawl_task_id))["status"] == "running"
    while urls:
        urls += [ask for ask in await follow_ups(await perform(tenant, urls.popleft())) if isinstance(ask, CrawlUrl)]
    assert (await task_row(tenant, again.crawl_task_id))["status"] == "completed"


async def test_a_crawl_without_seeds_ends_at_once_and_removes_nothing(database: Database) -> None:
    site = ToySite({HOME: page(HOME, "home")})
    tenant = await make_tenant(database, site)
    await crawl(tenant)
    site.plan = CrawlPlan(())
    task = await crawl(tenant)
    assert (await task_row(tenant, task))["status"] == "completed"
    assert await tenant.kept() == [HOME]


async def test_a_live_crawl_is_taken_up_again(database: Database) -> None:
    site = ToySite({HOME: page(HOME, "home")})
    tenant = await make_tenant(database, site)
    request = SyncSource(organization_id=tenant.organization_id, source_id=tenant.source_id)
    first = await follow_ups(await perform(tenant, request))
    assert await follow_ups(await perform(tenant, request)) == first
    [start] = first
    seeds = await follow_ups(await perform(tenant, start))
    assert seeds == await follow_ups(await perform(tenant, start))
    assert await tenant.value("select urls_pending from knowledge_base_crawl_tasks") == 1


@pytest.mark.spec("LS-15")
async def test_304_follows_the_stored_links(database: Database) -> None:
    site = ToySite({HOME: page(HOME, "home", A, etag='"1"'), A: page(A, "a")})
    tenant = await make_tenant(database, site)
    await crawl(tenant)
    site.pages[HOME] = PageUnchanged()
    task = await crawl(tenant)
    assert await outcomes(tenant, task) == {HOME: "unchanged", A: "stored"}
    assert ('"1"', None) in site.validators
    assert await tenant.kept() == [HOME, A]


@pytest.mark.spec("LS-15")
async def test_a_page_that_was_read_outside_a_crawl_is_asked_for_its_links(database: Database) -> None:
    site = ToySite({HOME: page(HOME, "home", A, etag='"1"'), A: page(A, "a"), B: page(B, "b")})
    tenant = await make_tenant(database, site)
    await crawl(tenant)
    site.pages[HOME] = page(HOME, "home, with another link", A, B, etag='"2"')
    request = SyncDocument(organization_id=tenant.organization_id, document_id=await tenant.document_id(HOME))
    await sync_document(tenant.units, request, tenant.run(request))
    site.validators.clear()
    task = await crawl(tenant)
    assert site.validators[0] == (None, None)
    assert set(await outcomes(tenant, task)) == {HOME, A, B}


async def test_a_redirect_and_a_canonical_name_belong_to_the_other_row(database: Database) -> None:
    named = CrawledPage(None, (at(C),), at(B), canonical=at(C))
    site = ToySite({HOME: page(HOME, "home", A, B), A: page(C, "c"), B: named, C: page(C, "c")})
    tenant = await make_tenant(database, site)
    task = await crawl(tenant)
    assert await outcomes(tenant, task) == {HOME: "stored", A: "duplicate", B: "duplicate", C: "stored"}
    assert await tenant.kept() == [HOME, C]


async def test_caps_are_said(database: Database) -> None:
    urls = [f"https://toy.test/page-{name}" for name in ("one", "two", "three", "four")]
    site = ToySite({HOME: page(HOME, "home", *urls), **{url: page(url, url) for url in urls}}, max_urls=3)
    tenant = await make_tenant(database, site)
    task = await crawl(tenant)
    row = await task_row(tenant, task)
    assert (row["urls_found"], row["incomplete_reasons"]) == (3, ["the limit of 3 URLs was reached"])
    deep = ToySite({HOME: page(HOME, "home", A), A: page(A, "a", B), B: page(B, "b")}, max_depth=1)
    tenant = await make_tenant(database, deep)
    task = await crawl(tenant)
    row = await task_row(tenant, task)
    assert (row["urls_found"], row["incomplete_reasons"]) == (2, ["the depth limit of 1 was reached"])


@pytest.mark.spec("LS-06")
async def test_another_organizations_crawl_is_missing(database: Database) -> None:
    site = ToySite({HOME: page(HOME, "home", A), A: page(A, "a")})
    ours, theirs = await make_tenant(database, site), await make_tenant(database, ToySite({}))
    task = await crawl_until_home_is_read(ours)
    for request in (
        StartCrawl(organization_id=theirs.organization_id, crawl_task_id=task),
        CrawlUrl(organization_id=theirs.organization_id, crawl_task_id=task, url=A),
    ):
        assert isinstance(await perform(theirs, request), RecordMissing)
    stranger = CrawlUrl(organization_id=ours.organization_id, crawl_task_id=task, url="https://toy.test/never")
    assert await perform(ours, stranger) == RecordMissing("crawl URL")
    assert site.fetched == [HOME]


@pytest.mark.spec("LS-15")
async def test_two_runs_of_one_url_at_once_count_it_once(database: Database) -> None:
    site = ToySite({HOME: page(HOME, "home", A, B), A: page(A, "a"), B: page(B, "b")})
    tenant = await make_tenant(database, site)
    source = SyncSource(organization_id=tenant.organization_id, source_id=tenant.source_id)
    [start] = await follow_ups(await perform(tenant, source))
    [home] = await follow_ups(await perform(tenant, start))
    both_fetched = asyncio.Barrier(2)

    async def wait_for_the_other(url: str) -> None:
        await both_fetched.wait()

    site.on_fetch = wait_for_the_other
    first, second = await asyncio.gather(perform(tenant, home), perform(tenant, home))
    assert {str(r) for r in await follow_ups(first)} == {str(r) for r in await follow_ups(second)}
    assert await tenant.value("select urls_pending from knowledge_base_crawl_tasks") == 2


async def test_long_addresses_are_rows_of_their_own(database: Database) -> None:
    """E02: keys are over a hash, so addresses that differ only in their last character are two rows."""
    stem = "https://toy.test/" + "".join(url_digest(str(n)) for n in range(110))
    links = [stem + "1", stem + "2", "https://toy.test/" + "x" * 9_000]
    site = ToySite({HOME: page(HOME, "home", *links), **{url: page(url, url) for url in links}})
    tenant = await make_tenant(database, site)
    task = await crawl(tenant)
    assert set(await outcomes(tenant, task)) == {HOME, *links[:2]}
    assert isinstance(await perform(tenant, CrawlUrl(organization_id=1, crawl_task_id=task, url=links[0])), Done)


@pytest.mark.spec("LS-14")
async def test_seeds_that_finish_before_the_last_one_is_claimed_do_not_end_the_crawl(database: Database) -> None:
    """A start that dies between two batches of seeds leaves URLs that recovery may run before the start comes back."""
    site = ToySite({HOME: page(HOME, "home"), A: page(A, "a")}, seeds=(HOME, A))
    tenant = await make_tenant(database, site)
    source = SyncSource(organization_id=tenant.organization_id, source_id=tenant.source_id)
    [start] = await follow_ups(await perform(tenant, source))
    assert isinstance(start, StartCrawl)
    died = replace(tenant.units, database=DyingDatabase(database))
    task = start.crawl_task_id
    for points in range(20):  # it dies a little later each time, until the start page is claimed and no more
        points_left.set(points)
        with pytest.raises(Crashed):
            await start_crawl(died, start, tenant.run(start))
        points_left.set(None)
        if await outcomes(tenant, task):
            break
    assert set(await outcomes(tenant, task)) == {HOME}
    home = CrawlUrl(organization_id=tenant.organization_id, crawl_task_id=task, url=HOME)
    await perform(tenant, home)
    row = await task_row(tenant, task)
    assert (row["status"], row["urls_pending"]) == ("pending", 0)
    again = await follow_ups(await perform(tenant, start))
    await perform(tenant, again[-1])
    assert await outcomes(tenant, task) == {HOME: "stored", A: "stored"}
    assert (await task_row(tenant, task))["status"] == "completed"
