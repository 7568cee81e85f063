"""QR-01 to QR-08 for the library's kinds: what is given back to Redis, and what is left alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from uuid import UUID

import pytest
from redis.asyncio import Redis

from kbsync.db.pool import Connection, Database
from kbsync.domain.errors import PayloadTooLarge
from kbsync.domain.ids import job_id, url_digest
from kbsync.domain.requests import CrawlUrl, DocumentChunks, Priority, Scan, SyncDocument, SyncSource, UnitRequest
from kbsync.domain.states import UnitEnd
from kbsync.library import due
from kbsync.queue.fleet import Fleet
from kbsync.queue.units import enqueue_units
from kbsync.recovery.kinds import OPEN_UNITS, Candidate, DurableKind
from kbsync.recovery.layers import PassDone, RecoveryPass, Step
from kbsync.recovery.reconciler import KindCount, Reconciler, totals
from ops.embedded.redis import EmbeddedRedis
from producers.recovery_tick import run_recovery
from tests.producers.doubles import MemoryQueue, Switch, redis_is_down
from tests.producers.library_rows import a_source, an_organization, owed

SOURCE = SyncSource(organization_id=7, source_id=1)
DOCUMENT = SyncDocument(organization_id=7, document_id=2)
CHUNKS = DocumentChunks(organization_id=8, document_id=2)


async def accepted(database: Database, *requests: UnitRequest, age_s: float = 120) -> None:
    async with database.fleet() as connection:
        await due.register_many(connection, requests, asked_s_ago=age_s)


async def ended(database: Database, request: UnitRequest, how: UnitEnd) -> None:
    async with database.fleet() as connection:
        now = await connection.fetchval("select clock_timestamp()")
        await due.end_if_open(connection, job_id(request), now, how)


async def a_crawl(database: Database, *, status: str = "running", organization_id: int = 7) -> int:
    source_id = await a_source(database, organization_id, type="website")
    async with database.direct() as connection:
        task: int = await connection.fetchval(
            "insert into knowledge_base_crawl_tasks (organization_id, source_id, start_url, status) "
            "values ($1, $2, 'https://a.example/', $3) returning id",
            organization_id, source_id, status,
        )  # fmt: skip
    return task


async def a_url(
    database: Database, task: int, url: str, *, finished: bool = False, age_s: float = 120, organization_id: int = 7
) -> CrawlUrl:
    async with database.direct() as connection:
        await connection.execute(
            "insert into kbsync.crawl_task_urls (organization_id, crawl_task_id, url, url_key, fetch_url, depth, "
            "claimed_at, finished_at, outcome) values ($1, $2, $3, $4, $3, 0, now() - make_interval(secs => $6), "
            "case when $5 then now() end, case when $5 then 'stored' end)",
            organization_id, task, url, url_digest(url), finished, age_s,
        )  # fmt: skip
    return CrawlUrl(organization_id=organization_id, crawl_task_id=task, url=url)


def reconciler(
    database: Database,
    queue: MemoryQueue,
    switch: Switch | None = None,
    grace_s: float = 60,
    kinds: Sequence[DurableKind] | None = None,
) -> Reconciler:
    if kinds is None:
        return Reconciler(database, queue, switch or Switch(), grace_s)
    return Reconciler(database, queue, switch or Switch(), grace_s, kinds)


@pytest.mark.spec("QR-01", "QR-08", "QU-20")
async def test_what_was_accepted_and_lost_comes_back_once(database: Database) -> None:
    queue = MemoryQueue()
    await accepted(database, SOURCE, DOCUMENT, CHUNKS)
    await enqueue_units(queue, [DOCUMENT], priority=Priority.NORMAL)
    done = await reconciler(database, queue).once()
    assert done.kinds["units"] == KindCount(looked_at=3, live=1, requeued=2)
    assert queue.created == {job_id(request): 1 for request in (SOURCE, DOCUMENT, CHUNKS)}
    assert queue.jobs[job_id(CHUNKS)].payload["organization_id"] == 8
    assert not any(job.rerun_if_active for job in queue.jobs.values())
    again = await reconciler(database, queue).once()
    assert again.kinds["units"] == KindCount(looked_at=3, live=3)


@pytest.mark.spec("QR-08", "QR-07")
async def test_young_and_ended_units_are_left_alone(database: Database) -> None:
    queue = MemoryQueue()
    await accepted(database, SOURCE, age_s=30)
    await accepted(database, DOCUMENT, CHUNKS)
    await ended(database, DOCUMENT, UnitEnd.SKIPPED)
    await ended(database, CHUNKS, UnitEnd.FAILED)
    done = await reconciler(database, queue).once()
    assert done.kinds["units"] == KindCount()
    assert queue.created == {}
    assert (await reconciler(database, queue, grace_s=10).once()).requeued == 1
    # Asked for again after it ended: owed again.
    await accepted(database, DOCUMENT, age_s=0)
    assert (await owed(database))[job_id(DOCUMENT)]
    assert (await reconciler(database, queue, grace_s=0).once()).requeued == 1


@pytest.mark.spec("QR-02")
async def test_a_unit_that_ends_while_it_is_looked_at_is_not_run_again(database: Database) -> None:
    queue = MemoryQueue()
    await accepted(database, SOURCE, DOCUMENT)
    await enqueue_units(queue, [SOURCE], priority=Priority.NORMAL)

    class EndsMeanwhile(MemoryQueue):
        """The job is live when its row is read; it ends, row first, before its queue is asked."""

        async def live_job_ids(self, job_ids: list[str]) -> set[str]:
            await ended(database, SOURCE, UnitEnd.DONE)
            queue.finish(job_id(SOURCE))
            return await queue.live_job_ids(job_ids)

        enqueue = queue.enqueue

    done = await reconciler(database, EndsMeanwhile()).once()
    assert done.kinds["units"] == KindCount(looked_at=2, settled=1, requeued=1)
    assert queue.created == {job_id(SOURCE): 1, job_id(DOCUMENT): 1}


@pytest.mark.spec("QR-08", "KS-01")
async def test_under_the_kill_switch_nothing_is_looked_at(database: Database) -> None:
    queue = MemoryQueue()
    await a_source(database, status="syncing", started_s_ago=600)
    await accepted(database, SOURCE, CHUNKS)
    done = await reconciler(database, queue, Switch(everybody=True)).once()
    assert (done.stood_down, done.kinds, done.interrupted_sources) == (True, {}, 0)
    assert (queue.lookups, queue.created) == ([], {})
    done = await reconciler(database, queue, Switch(organizations={7})).once()
    assert done.kinds["units"] == KindCount(looked_at=2, paused=1, requeued=1)
    assert list(queue.created) == [job_id(CHUNKS)]


@pytest.mark.spec("QR-01", "QR-08", "LS-15")
async def test_unfinished_urls_of_running_crawls_come_back(database: Database) -> None:
    queue = MemoryQueue()
    running, pending = await a_crawl(database), await a_crawl(database, status="pending")
    lost = await a_url(database, running, "https://a.example/lost")
    live = await a_url(database, running, "https://a.example/live")
    skipped = await a_url(database, running, "https://a.example/skipped")
    await a_url(database, running, "https://a.example/finished", finished=True)
    await a_url(database, running, "https://a.example/young", age_s=5)
    await a_url(database, pending, "https://a.example/not-started")
    await accepted(database, skipped)
    await ended(database, skipped, UnitEnd.SKIPPED)
    await enqueue_units(queue, [live], priority=Priority.NORMAL)
    done = await reconciler(database, queue).once()
    assert done.kinds["crawl_urls"] == KindCount(looked_at=3, live=1, settled=1, requeued=1)
    assert queue.created == {job_id(live): 1, job_id(lost): 1}
    # Given back means owed: if the switch skips it now, the skip is recorded and it is left alone.
    assert (await owed(database))[job_id(lost)]


@pytest.mark.spec("KS-03", "QR-08")
async def test_a_redrive_asks_for_skipped_units_urls_and_crawls_that_never_began(database: Database) -> None:
    queue = MemoryQueue()
    running, pending = await a_crawl(database), await a_crawl(database, status="pending")
    url = await a_url(database, running, "https://a.example/skipped", age_s=0)
    await accepted(database, url, SOURCE, DOCUMENT)
    for request in (url, SOURCE):
        await ended(database, request, UnitEnd.SKIPPED)
    await ended(database, DOCUMENT, UnitEnd.DONE)
    done = await reconciler(database, queue).redrive()
    assert done.requeued == 3
    assert set(queue.created) == {job_id(url), job_id(SOURCE), f"kb-crawl-start-{pending}"}
    open_units = await owed(database)
    assert all(open_units[each] for each in queue.created)
    again = await reconciler(database, queue).redrive()
    assert again.requeued == 0


@pytest.mark.spec("LS-12")
async def test_a_source_that_syncs_with_no_job_is_interrupted(database: Database) -> None:
    queue = MemoryQueue()
    gone = await a_source(database, status="syncing", started_s_ago=600)
    live = await a_source(database, status="syncing", started_s_ago=600)
    young = await a_source(database, status="syncing", started_s_ago=5)
    open_unit = await a_source(database, status="syncing", started_s_ago=600)
    synced = await a_source(database, status="synced", started_s_ago=600)
    crawling = await a_source(database, type="website", status="syncing", started_s_ago=600)
    async with database.direct() as connection:
        await connection.execute(
            "insert into knowledge_base_crawl_tasks (organization_id, source_id, start_url, status) "
            "values (7, $1, 'https://a.example/', 'running')",
            crawling,
        )
    await enqueue_units(queue, [SyncSource(organization_id=7, source_id=live)], priority=Priority.NORMAL)
    await accepted(database, SyncSource(organization_id=7, source_id=open_unit), age_s=1)
    done = await reconciler(database, queue).once()
    assert done.interrupted_sources == 1
    async with database.fleet() as connection:
        rows = await connection.fetch("select id, sync_status, sync_error from knowledge_base_sources order by id")
    assert {row["id"]: (row["sync_status"], row["sync_error"]) for row in rows} == {
        gone: ("failed", "interrupted"),
        live: ("syncing", None),
        young: ("syncing", None),
        open_unit: ("syncing", None),
        synced: ("synced", None),
        crawling: ("syncing", None),
    }


@pytest.mark.spec("LS-12")
async def test_a_run_that_began_since_is_not_called_interrupted(database: Database) -> None:
    source = await a_source(database, status="syncing", started_s_ago=600)

    class BeginsMeanwhile(MemoryQueue):
        async def live_job_ids(self, job_ids: list[str]) -> set[str]:
            async with database.direct() as connection:
                await connection.execute(
                    "update knowledge_base_sources set sync_started_at = clock_timestamp() where id = $1", source
                )
            return set()

    assert (await reconciler(database, BeginsMeanwhile()).once()).interrupted_sources == 0


@pytest.mark.spec("QR-01")
async def test_a_request_of_a_newer_version_stays_where_it_is(database: Database) -> None:
    queue = MemoryQueue()
    await accepted(database, SOURCE, DOCUMENT)
    async with database.fleet() as connection:
        await connection.execute(
            "update kbsync.unit_requests set request = jsonb_set(request, '{version}', '2') where job_id = $1",
            job_id(SOURCE),
        )
    done = await reconciler(database, queue).once()
    assert done.kinds["units"] == KindCount(looked_at=2, requeued=1, refused=1)
    assert (await owed(database))[job_id(SOURCE)]


@pytest.mark.spec("QR-01")
async def test_a_unit_that_the_queue_will_not_take_holds_back_nobody(database: Database) -> None:
    queue = MemoryQueue()
    queue.fail = lambda jobs: PayloadTooLarge("no") if job_id(SOURCE) in {job.job_id for job in jobs} else None
    await accepted(database, SOURCE, DOCUMENT, CHUNKS)
    done = await reconciler(database, queue).once()
    assert done.kinds["units"].refused == 1
    assert set(queue.created) == {job_id(DOCUMENT), job_id(CHUNKS)}


@pytest.mark.spec("QR-01", "LS-04")
async def test_a_lost_scan_by_hand_comes_back_and_one_that_failed_does_not(database: Database) -> None:
    queue = MemoryQueue()
    scan = Scan.model_validate({"date": "2026-11-30", "manual_id": str(UUID(int=1))})
    await accepted(database, scan)
    assert (await reconciler(database, queue).once()).requeued == 1
    queue.finish(job_id(scan))  # it failed, and its row says nothing
    assert (await reconciler(database, queue).once()).requeued == 0


@pytest.mark.spec("QR-02", "QR-07")
async def test_reconcilers_side_by_side_make_one_job_each(database: Database) -> None:
    queue = MemoryQueue()
    await accepted(database, *(SyncSource(organization_id=7, source_id=n) for n in range(1, 51)))
    done = await asyncio.gather(*(reconciler(database, queue).once() for _ in range(4)))
    assert sum(each.requeued for each in done) == 50
    assert set(queue.created.values()) == {1}


@pytest.mark.spec("QR-07")
async def test_the_layers_run_in_their_order_and_an_outage_costs_one_pass(database: Database) -> None:
    queue, order, stop = MemoryQueue(), list[str](), asyncio.Event()
    await accepted(database, SOURCE)

    def step(name: str) -> Step:
        async def run() -> int:
            order.append(name)
            return 2

        return run

    async def pages(database: Database, grace_s: float) -> AsyncIterator[list[Candidate]]:
        order.append("reconcile")
        async for page in OPEN_UNITS.pages(database, grace_s):
            yield page

    async def wanted(connection: Connection, candidates: Sequence[Candidate]) -> list[Candidate]:
        return await OPEN_UNITS.still_wanted(connection, candidates)

    recovery = RecoveryPass(
        reconciler(database, queue, kinds=[DurableKind("units", pages, wanted)]), [step("lease")], [step("transport")]
    )
    queue.fail = redis_is_down
    passes: list[PassDone] = []

    def report(done: PassDone) -> None:
        passes.append(done)
        stop.set()

    async def heal() -> None:
        while len(order) < 6:  # two passes that failed at the queue
            await asyncio.sleep(0.005)
        queue.fail = lambda _: None

    await asyncio.wait_for(asyncio.gather(run_recovery(recovery, stop, interval_s=0.01, report=report), heal()), 10)
    assert order[:6] == ["lease", "transport", "reconcile"] * 2
    [done] = passes
    assert (done.lease_recovered, done.reclaimed) == (2, 2)
    assert totals(done.reconciled)["units_requeued"] == 1


@pytest.mark.spec("QR-03", "QR-08")
async def test_flushall_loses_nothing_and_doubles_nothing(
    database: Database, redis: Redis, redis_server: EmbeddedRedis
) -> None:
    fleet = Fleet(redis_server.url)
    documents = [SyncDocument(organization_id=7, document_id=n) for n in range(1, 501)]
    await enqueue_units(fleet, documents, priority=Priority.NORMAL)
    await accepted(database, *documents, age_s=1)
    for document in documents[:100]:
        await ended(database, document, UnitEnd.DONE)
    await redis.flushall()
    first = Reconciler(database, fleet, Switch(), grace_s=0)
    assert (await first.once()).requeued == 400
    assert (await first.once()).requeued == 0
    live = await fleet.live_job_ids([job_id(document) for document in documents])
    assert live == {job_id(document) for document in documents[100:]}
    await fleet.close()


@pytest.mark.spec("QR-05", "PF-13")
async def test_a_hundred_thousand_live_rows_take_about_a_hundred_look_ups(
    database: Database, redis: Redis, redis_server: EmbeddedRedis
) -> None:
    fleet = Fleet(redis_server.url)
    await an_organization(database)
    async with database.fleet() as connection:
        await connection.execute(
            "insert into kbsync.unit_requests (job_id, organization_id, kind, request, requested_at) "
            "select 'kb-source-sync-' || n, 1 + n % 500, 'sync_source', jsonb_build_object('type', 'sync_source', "
            "'organization_id', 1 + n % 500, 'source_id', n), now() - interval '1 hour' from generate_series(1, 100000) n"
        )
        plan = await connection.fetch(
            "explain select job_id from kbsync.unit_requests where (ended_at is null or ended_at < requested_at) "
            "and requested_at < clock_timestamp() - interval '1 minute' and (requested_at, job_id) > ($1, '') "
            "order by requested_at, job_id limit 1000",
            due.LONG_AGO,
        )
    assert "unit_requests_open" in "\n".join(row[0] for row in plan)

    class OnlyLookUps:
        """Every row counts as live, so that the pass reads all and enqueues nothing."""

        enqueue = fleet.enqueue

        async def live_job_ids(self, job_ids: list[str]) -> set[str]:
            await fleet.live_job_ids(job_ids)
            return set(job_ids)

    scripts_before = await _script_calls(redis)
    done = await Reconciler(database, OnlyLookUps(), Switch(), grace_s=60).once()
    assert done.kinds["units"].looked_at == 100_000
    assert await _script_calls(redis) - scripts_before <= 110
    await fleet.close()


async def _script_calls(redis: Redis) -> int:
    stats = await redis.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("evalsha", "eval"))
