"""RB-03: the crawl ledger under random sites, crashes at any statement, retries, doubles and an emptied queue.

The queue here is a dict with the real one's rules: an id waits once, a crash puts its job back untouched, a failing attempt
counts, and what an emptied queue lost comes back from `kbsync.unit_requests`."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kbsync.db.pool import Database
from kbsync.domain.errors import ProviderUnreachable
from kbsync.domain.requests import LibraryRequest, Priority, SyncSource, library_request_adapter
from kbsync.library import unit_requests
from kbsync.library.places import Place
from kbsync.providers.contract import CrawledPage, PageGone, PageRefused
from kbsync.queue.jobs import DelayJob, Enqueued, EnqueueOutcome, JobRequest, Unrecoverable
from kbsync.queue.units import job_request
from ratelimits.throttle import ComeBackAt, Go
from tests.sync.crashes import Crashed, DyingDatabase, pass_point, points_left
from tests.sync.pipeline import MAX_ATTEMPTS, Job, Switch, no_scan
from tests.sync.toy import Page, Tenant, ToySite, at, make_tenant, page
from workers.run_unit import UnitRunner
from workers.windows import Windows

KINDS = ("page", "page", "page", "gone", "refused", "flaky", "down", "redirect", "noindex")


@dataclass(frozen=True)
class Site:
    """`links[n]` are the pages that page n links to; `kinds[n]` is what a fetch of it answers."""

    links: tuple[tuple[int, ...], ...]
    kinds: tuple[str, ...]
    seeds: tuple[int, ...]

    def url(self, number: int) -> str:
        return f"https://toy.test/{'abcdefgh'[number]}"

    def as_toy(self) -> ToySite:
        pages = {self.url(number): self._page(number) for number in range(len(self.links))}
        return ToySite(pages, seeds=tuple(self.url(number) for number in self.seeds))

    def _page(self, number: int) -> Page | list[Page]:
        url, links = self.url(number), [self.url(link) for link in self.links[number]]
        down = ProviderUnreachable("answered 502")
        whole = page(url, f"text of {url}", *links)
        match self.kinds[number]:
            case "gone":
                return PageGone(404)
            case "refused":
                return PageRefused("a picture")
            case "flaky":
                return [down, whole]
            case "down":
                return down
            case "redirect" if links:
                return replace(whole, final=at(links[0]))
            case "noindex":
                return replace(whole, content=None)
            case _:
                return whole

    def wanted(self, number: int, outcome: str) -> set[str]:
        """What a URL that ended so must have claimed, or found claimed."""
        answer = self._page(number)
        answer = answer[-1] if isinstance(answer, list) else answer
        if outcome == "failed" or not isinstance(answer, CrawledPage):
            return set()
        if answer.final.url != self.url(number):
            return {answer.final.url}
        return {link.url for link in answer.links}


@st.composite
def sites(draw: st.DrawFn) -> Site:
    size = draw(st.integers(1, 7))
    numbers = st.integers(0, size - 1)
    links = draw(st.lists(st.lists(numbers, max_size=5).map(tuple), min_size=size, max_size=size))
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=size, max_size=size))
    seeds = draw(st.lists(numbers, min_size=1, max_size=3, unique=True))
    return Site(tuple(links), tuple(kinds), tuple(seeds))


class OpenWindows(Windows):
    """No throttle: every slot is free."""

    def __init__(self) -> None: ...

    @asynccontextmanager
    async def acquire(self, request: LibraryRequest, place: Place, job_id: str) -> AsyncIterator[Go | ComeBackAt]:
        yield Go()


@dataclass
class Queue:
    """Waiting jobs by id, with the attempts that failed so far."""

    waiting: dict[str, tuple[JobRequest, int]] = field(default_factory=dict)
    active: set[str] = field(default_factory=set)

    async def enqueue(self, queue: str, requests: list[JobRequest]) -> list[Enqueued]:
        pass_point()
        for request in requests:
            if request.job_id not in self.waiting and request.job_id not in self.active:
                self.waiting[request.job_id] = (request, 1)
        pass_point()
        return [Enqueued(request.job_id, EnqueueOutcome.CREATED) for request in requests]

    async def live_job_ids(self, job_ids: list[str]) -> set[str]:
        return set(job_ids) & (set(self.waiting) | self.active)


@dataclass
class Fleet:
    """Workers over one queue, driven by a seed."""

    tenant: Tenant
    runner: UnitRunner
    queue: Queue
    dice: random.Random
    ended_with: dict[object, int] = field(default_factory=dict)

    async def run_to_the_end(self, crashes: int, wipes: int) -> None:
        for _ in range(400):
            if not self.queue.waiting:
                await self._recover()
                if not self.queue.waiting:
                    return
            together = self.dice.sample(
                sorted(self.queue.waiting), k=min(len(self.queue.waiting), self.dice.choice((1, 1, 2, 3)))
            )
            doubled = self.dice.random() < 0.15
            runs = []
            for job_id in together:
                job, attempt = self.queue.waiting.pop(job_id)
                self.queue.active.add(job_id)
                dies = crashes > 0 and self.dice.random() < 0.5
                crashes -= dies
                runs.append(self._run(job, attempt, self.dice.randrange(40) if dies else None))
                if doubled:
                    runs.append(self._run(job, attempt, None))
            # A task of its own for each: what dies is one worker, not its neighbour.
            await asyncio.gather(*(asyncio.create_task(run) for run in runs))
            if wipes and self.dice.random() < 0.1:
                wipes -= 1
                self.queue.waiting.clear()
            await self.check()
        raise AssertionError("the crawl does not end")

    async def _run(self, job: JobRequest, attempt: int, points: int | None) -> None:
        points_left.set(points)
        try:
            end = await self.runner.run(Job(job, attempt))
        except Crashed:
            again: int | None = attempt
        except Unrecoverable:
            again = None
        except Exception:
            again = attempt + 1 if attempt < MAX_ATTEMPTS else None
        else:
            again = attempt if isinstance(end, DelayJob) else None
        self.queue.active.discard(job.job_id)
        if again is not None:
            self.queue.waiting[job.job_id] = (job, again)

    async def _recover(self) -> None:
        """What the reconciler does: units that are open and have no job are asked for again."""
        rows = await self.tenant.rows(
            "select request from kbsync.unit_requests where ended_at is null or ended_at < requested_at order by job_id"
        )
        for row in rows:
            request = library_request_adapter.validate_python(json.loads(str(row["request"])))
            job = job_request(request, priority=Priority.NORMAL)
            if job.payload.get("organization_id") == self.tenant.organization_id:
                self.queue.waiting.setdefault(job.job_id, (job, 1))

    async def check(self) -> None:
        """What must hold between any two steps. A source sync that comes again after its crawl's end begins another one."""
        tasks = await self.tenant.rows(
            "select id, status, urls_pending, urls_found from knowledge_base_crawl_tasks where organization_id = $1",
            self.tenant.organization_id,
        )
        urls = await self.tenant.rows(
            "select crawl_task_id, finished_at from kbsync.crawl_task_urls where organization_id = $1",
            self.tenant.organization_id,
        )
        assert sum(task["status"] != "completed" for task in tasks) <= 1, "two live crawls"
        for task in tasks:
            finished = [row["finished_at"] for row in urls if row["crawl_task_id"] == task["id"]]
            assert task["urls_pending"] == finished.count(None)
            assert task["urls_found"] == len(finished)
            if task["status"] == "completed":
                assert None not in finished, "completed early"
                assert self.ended_with.setdefault(task["id"], len(finished)) == len(finished), "claimed after the end"


async def a_fleet(database: Database, site: Site, seed: int) -> Fleet:
    tenant = await make_tenant(database, site.as_toy())
    queue = Queue()
    dying = DyingDatabase(database)
    units = replace(tenant.units, database=dying)
    runner = UnitRunner(dying, units, OpenWindows(), Switch(), queue, no_scan)
    return Fleet(tenant, runner, queue, random.Random(seed))


@pytest.mark.spec("RB-03", "LS-15", "LS-14")
@settings(
    max_examples=40,
    deadline=None,
    phases=[
        Phase.explicit,
        Phase.reuse,
        Phase.generate,
    ],  # a failing run names its site and seed; shrinking takes minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(site=sites(), seed=st.integers(0, 2**32), crashes=st.integers(0, 12), wipes=st.integers(0, 2))
async def test_the_ledger_counts_every_url_once_and_always_ends(
    database: Database, site: Site, seed: int, crashes: int, wipes: int
) -> None:
    fleet = await a_fleet(database, site, seed)
    tenant = fleet.tenant
    request = SyncSource(organization_id=tenant.organization_id, source_id=tenant.source_id)
    await fleet.queue.enqueue("", [job_request(request, priority=Priority.NORMAL)])
    async with database.organization(tenant.organization_id) as connection:
        await unit_requests.register(connection, tenant.organization_id, [request])
    await fleet.run_to_the_end(crashes, wipes)
    await fleet.check()
    tasks = await tenant.rows(
        "select id, status, urls_pending from knowledge_base_crawl_tasks where organization_id = $1 order by id",
        tenant.organization_id,
    )
    assert {(task["status"], task["urls_pending"]) for task in tasks} == {("completed", 0)}
    stored = [await stored_in(tenant, site, task["id"]) for task in tasks]
    assert await tenant.open_requests() == set()
    status = await tenant.value("select sync_status from knowledge_base_sources where id = $1", tenant.source_id)
    [start] = await tenant.rows(
        "select start.outcome, exists (select from kbsync.crawl_task_urls child"
        "   where child.crawl_task_id = start.crawl_task_id and child.parent_url = start.url) as has_links"
        " from kbsync.crawl_task_urls start where crawl_task_id = $1 and parent_url is null order by id limit 1",
        tasks[-1]["id"],
    )
    unseen = start["outcome"] in ("refused", "gone", "failed") and not start["has_links"] and not stored[-1]
    assert status == ("failed" if unseen else "synced")  # a site of which nothing was seen is not in sync
    kept = set(await tenant.kept())
    assert stored[-1] <= kept <= set.union(*stored)
    chunked = await tenant.value(
        "select count(distinct source_id) from document_chunks where organization_id = $1", tenant.organization_id
    )
    assert chunked == len(kept)


async def stored_in(tenant: Tenant, site: Site, task_id: object) -> set[str]:
    """The stored pages of an ended crawl, whose ledger must be closed: every link claimed, nothing else claimed."""
    rows = await tenant.rows("select * from kbsync.crawl_task_urls where crawl_task_id = $1", task_id)
    numbers = {site.url(number): number for number in range(len(site.links))}
    claimed = {str(row["url"]) for row in rows}
    assert {site.url(number) for number in site.seeds} <= claimed
    for row in rows:
        wanted = site.wanted(numbers[str(row["url"])], str(row["outcome"]))
        assert wanted <= claimed, "a page's links were lost"
        parent = row["parent_url"]
        if parent is not None:
            assert row["url"] in site.wanted(numbers[str(parent)], "stored"), "a child that nobody linked to"
    return {str(row["url"]) for row in rows if row["outcome"] == "stored"}
