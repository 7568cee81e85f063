"""Sites without end (D09), and batches that meet in opposite order (B03)."""

from __future__ import annotations

import asyncio

import pytest

from kbsync.db.pool import Database
from kbsync.domain.crawl_text import same_text_key
from kbsync.library import crawl_tasks, crawl_urls, documents
from kbsync.library.crawl_urls import Link
from kbsync.library.documents import NewDocument
from kbsync.providers.contract import FoundUrl, PageResult
from kbsync.sync.crawl_claim import Caps
from tests.sync.test_crawl import crawl, outcomes, source_row, task_row
from tests.sync.toy import ToyListing, ToySite, make_tenant, page

SITE = "https://toy.test"
REAL = [f"{SITE}/docs/{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(50)]


class Traps(ToySite):
    """50 real pages beside a query that grows, a calendar and a folder below itself; all of the trap pages say the same."""

    async def crawl_page(
        self, found: FoundUrl, *, etag: str | None = None, last_modified: str | None = None
    ) -> PageResult:
        url = found.url
        self.fetched.append(url)
        if url == f"{SITE}/":
            return page(url, "home", f"{SITE}/t?q=", f"{SITE}/cal?m=2026-01", f"{SITE}/a/", *REAL)
        if url.startswith(f"{SITE}/t?"):
            return page(url, "The same text every time.", f"{url}&q=")
        if url.startswith(f"{SITE}/cal?m="):
            year, month = divmod(int(url[-7:-3]) * 12 + int(url[-2:]), 12)
            return page(url, f"Appointments of {url[-7:]}", f"{SITE}/cal?m={year:04}-{month + 1:02}")
        if url.startswith(f"{SITE}/a/"):
            return page(url, f"The same text every time. [deeper]({url}a/)", f"{url}a/")
        return page(url, f"A real page: {url}", f"{SITE}/")


@pytest.mark.spec("LS-16", "LS-12")
async def test_traps_end_and_real_pages_are_all_there(database: Database) -> None:
    site = Traps({}, max_urls=200, max_depth=1_000, max_urls_per_pattern=100)
    tenant = await make_tenant(database, site)
    task = await crawl(tenant)
    row = await task_row(tenant, task)
    assert (row["status"], row["urls_pending"]) == ("completed", 0)
    found = await outcomes(tenant, task)
    assert {url for url in REAL if found.get(url) == "stored"} == set(REAL)
    for start, bound in ((f"{SITE}/t?", 50), (f"{SITE}/cal", 10), (f"{SITE}/a/", 60)):
        assert sum(url.startswith(start) for url in found) <= bound, start
    assert row["incomplete_reasons"]
    assert (await source_row(tenant))["sync_status"] == "synced"
    assert "no end" in str((await source_row(tenant))["counts"])


def test_pages_of_one_text_are_known_by_their_words() -> None:
    assert same_text_key("The [same](https://a.test/1)\n text") == same_text_key("The [same](https://a.test/2) text")
    assert same_text_key("one") != same_text_key("two")
    assert same_text_key(" \n") is None


def test_bounds_of_a_pattern_are_shares_of_the_crawl() -> None:
    caps = Caps(max_urls=200, max_depth=3, urls_per_pattern=1_000)
    assert caps.of_pattern("https://a.test/post/17") == 1_000
    assert caps.of_pattern("https://a.test/list?page=17") == 50
    assert caps.of_pattern("https://a.test/cal?month=3") == 5
    assert Caps(10, 3, 1_000).of_pattern("https://a.test/x?y=1") == 10


async def test_batches_in_opposite_order_do_not_deadlock(database: Database) -> None:
    """B03: two workers upsert the same rows, one in page order and one reversed."""
    tenant = await make_tenant(database, ToyListing())
    organization_id, source_id = tenant.organization_id, tenant.source_id
    new = [NewDocument(str(number), "T") for number in range(200)]
    links = [Link.of(f"{SITE}/{number}", f"{SITE}/{number}") for number in range(200)]
    async with database.organization(organization_id) as connection:
        made = await crawl_tasks.create_or_find_live(connection, organization_id, source_id, SITE)
    assert made is not None

    async def write(rows: list[NewDocument], found: list[Link]) -> None:
        for run in range(15):
            async with database.organization(organization_id) as connection:
                await documents.upsert_listed(connection, organization_id, source_id, "toy", run, rows)
                await crawl_tasks.lock(connection, organization_id, made[0])
                await crawl_urls.claim(
                    connection, organization_id, made[0], found, parent_url=None, depth=0, patterns={}
                )

    before = await tenant.value("select deadlocks from pg_stat_database where datname = current_database()")
    await asyncio.gather(write(new, links), write(new[::-1], links[::-1]))
    assert await tenant.value("select deadlocks from pg_stat_database where datname = current_database()") == before
    assert len(await tenant.kept()) == 200
    assert await tenant.value("select count(*) from kbsync.crawl_task_urls") == 200
