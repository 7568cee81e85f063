"""The pipeline: pause, throttle, perform, record, enqueue; and every way a unit can end badly."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import cast, get_args

import pytest
from redis.asyncio import Redis

from kbsync.db.pool import Database
from kbsync.domain.errors import (
    CredentialsRefused,
    DatabaseUnavailable,
    FlagStoreUnavailable,
    ItemGone,
    ItemUnreadable,
    ProviderBusy,
    ProviderError,
    ProviderRefused,
    ProviderUnreachable,
)
from kbsync.domain.ids import QueueName, job_id
from kbsync.domain.requests import CrawlUrl, LibraryRequest, Priority, Scan, SyncDocument, SyncSource, UnitRequest
from kbsync.providers.contract import ListedDocument, Unchanged
from kbsync.queue.jobs import Completed, DelayJob, JobRequest, SkippedJob, Unrecoverable
from ratelimits.limits import UnitKind
from ratelimits.scope import DataSourceScope
from ratelimits.throttle import Throttle
from tests.sync.pipeline import Job, Pipeline, make_pipeline
from tests.sync.toy import ToyListing, ToySite, page, text
from workers.handlers import abandoned_of, handlers_for
from workers.run_unit import FollowUpsNotEnqueued

HOME, A, B = "https://toy.test/", "https://toy.test/a", "https://toy.test/b"


def source_of(pipeline: Pipeline) -> SyncSource:
    return SyncSource(organization_id=pipeline.tenant.organization_id, source_id=pipeline.tenant.source_id)


async def ended_as(pipeline: Pipeline, request: LibraryRequest) -> object:
    return await pipeline.tenant.value("select ended_as from kbsync.unit_requests where job_id = $1", job_id(request))


async def a_document(pipeline: Pipeline, toy: ToyListing) -> SyncDocument:
    """A listed document whose own sync is asked for."""
    toy.parts = [ListedDocument("a", "A", version="1")]
    await pipeline.run(source_of(pipeline))
    [job] = pipeline.enqueuer.waiting
    pipeline.enqueuer.waiting.clear()
    return SyncDocument(
        organization_id=pipeline.tenant.organization_id, document_id=cast(int, job.payload["document_id"])
    )


@pytest.mark.spec("LS-05")
async def test_from_source_to_chunks(database: Database, redis: Redis) -> None:
    toy = ToyListing([ListedDocument("a", "A"), ListedDocument("b", "B")])
    toy.contents = {"a": text("# Alpha\n\nabout alpha"), "b": text("# Beta\n\nabout beta")}
    pipeline = await make_pipeline(database, redis, toy)
    end = await pipeline.run(source_of(pipeline))
    assert isinstance(end, Completed)
    assert await pipeline.drain() == []
    assert await pipeline.tenant.open_requests() == set()
    assert await pipeline.tenant.value("select count(distinct source_id) from document_chunks") == 2
    assert await pipeline.tenant.value("select count(*) from pg_search_documents") == 2


@pytest.mark.spec("LS-05")
async def test_a_failed_enqueue_fails_the_attempt_and_the_retry_derives_the_same(
    database: Database, redis: Redis
) -> None:
    toy = ToyListing(contents={"a": text("hello")})
    pipeline = await make_pipeline(database, redis, toy)
    request = await a_document(pipeline, toy)
    pipeline.enqueuer.refuses = 1
    with pytest.raises(FollowUpsNotEnqueued):
        await pipeline.run(request)
    assert await pipeline.tenant.open_requests() == {f"kb-document-chunks-{request.document_id}"}
    toy.contents["a"] = Unchanged()
    await pipeline.run(request, attempt=2)
    assert [job.job_id for job in pipeline.enqueuer.waiting] == [f"kb-document-chunks-{request.document_id}"]


@pytest.mark.spec("LS-05", "LS-15")
async def test_a_failed_enqueue_of_children_is_made_good_without_fetching(database: Database, redis: Redis) -> None:
    site = ToySite({HOME: page(HOME, "home", A, B), A: page(A, "a"), B: page(B, "b")})
    pipeline = await make_pipeline(database, redis, site)
    await pipeline.run(source_of(pipeline))
    start = pipeline.enqueuer.waiting.popleft()
    await pipeline.runner.run(Job(start))
    home = pipeline.enqueuer.waiting.popleft()
    pipeline.enqueuer.refuses = 1
    with pytest.raises(FollowUpsNotEnqueued):
        await pipeline.runner.run(Job(home))
    await pipeline.runner.run(Job(home, attempt=2))
    assert site.fetched == [HOME]
    assert sorted(job.kind for job in pipeline.enqueuer.waiting) == ["crawl_url", "crawl_url", "document_chunks"]
    assert await pipeline.drain() == []
    assert await pipeline.tenant.value("select status from knowledge_base_crawl_tasks") == "completed"
    assert await pipeline.tenant.open_requests() == set()


@pytest.mark.spec("KS-01", "KS-02")
async def test_a_paused_unit_is_skipped_and_touches_nothing(database: Database, redis: Redis) -> None:
    toy = ToyListing([ListedDocument("a", "A")])
    pipeline = await make_pipeline(database, redis, toy)
    pipeline.switch.is_on = True
    end = await pipeline.run(source_of(pipeline))
    assert end == SkippedJob({"status": "skipped", "reason": "paused"})
    assert await pipeline.tenant.value("select sync_status from knowledge_base_sources") == "pending"
    assert await pipeline.tenant.kept() == []
    assert pipeline.enqueuer.calls == 0


@pytest.mark.spec("QR-08")
async def test_a_skip_is_an_ending(database: Database, redis: Redis) -> None:
    toy = ToyListing(contents={"a": text("hello")})
    pipeline = await make_pipeline(database, redis, toy)
    request = await a_document(pipeline, toy)
    pipeline.switch.is_on = True
    await pipeline.run(request)
    assert await ended_as(pipeline, request) == "skipped"
    assert await pipeline.tenant.open_requests() == set()
    assert toy.fetched == []


@pytest.mark.spec("KS-05")
async def test_an_unreachable_flag_store_delays(database: Database, redis: Redis) -> None:
    pipeline = await make_pipeline(database, redis, ToyListing())
    pipeline.switch.error = FlagStoreUnavailable("the flag store is away")
    end = await pipeline.run(source_of(pipeline))
    assert isinstance(end, DelayJob)
    assert end.until - datetime.now(UTC) < timedelta(seconds=10)
    assert await pipeline.tenant.value("select sync_status from knowledge_base_sources") == "pending"


@pytest.mark.spec("LS-06")
async def test_a_missing_record_completes_so_and_takes_no_slot(database: Database, redis: Redis) -> None:
    pipeline = await make_pipeline(database, redis, ToyListing())
    for request in (
        SyncSource(organization_id=pipeline.tenant.organization_id, source_id=999),
        SyncSource(organization_id=999, source_id=pipeline.tenant.source_id),
        SyncDocument(organization_id=pipeline.tenant.organization_id, document_id=999),
        CrawlUrl(organization_id=pipeline.tenant.organization_id, crawl_task_id=999, url=HOME),
    ):
        end = await pipeline.run(request)
        assert isinstance(end, Completed)
        assert end.result["status"] == "record-missing"
    assert await Throttle(redis).windows() == []


@pytest.mark.spec("RL-03")
async def test_a_full_window_delays_and_uses_no_attempt(database: Database, redis: Redis) -> None:
    toy = ToyListing([ListedDocument("a", "A")])
    pipeline = await make_pipeline(database, redis, toy)
    tenant = pipeline.tenant
    data_source = await tenant.value(
        "insert into data_sources (organization_id, provider, limits) "
        """values ($1, 'toy', '{"source_sync": {"count": 1, "window_s": 600}}') returning id""",
        tenant.organization_id,
    )
    await tenant.execute("update knowledge_base_sources set data_source_id = $1", data_source)
    assert isinstance(await pipeline.run(source_of(pipeline)), Completed)
    end = await pipeline.run(source_of(pipeline))
    assert isinstance(end, DelayJob)
    assert UnitKind.SOURCE_SYNC in end.reason
    assert toy.closed == 1


@pytest.mark.spec("RL-08")
async def test_without_redis_nothing_is_fetched_and_no_attempt_counts(database: Database, redis: Redis) -> None:
    toy = ToyListing([ListedDocument("a", "A")])
    away: Redis = Redis.from_url("redis://127.0.0.1:1")
    pipeline = await make_pipeline(database, away, toy)
    assert isinstance(await pipeline.run(source_of(pipeline)), DelayJob)
    assert toy.closed == 0


@pytest.mark.spec("RL-05")
async def test_a_stated_wait_closes_the_data_source_for_every_unit(database: Database, redis: Redis) -> None:
    toy = ToyListing(contents={"a": ProviderBusy("slow down", retry_after_s=120)})
    pipeline = await make_pipeline(database, redis, toy)
    request = await a_document(pipeline, toy)
    end = await pipeline.run(request)
    assert isinstance(end, DelayJob)
    assert timedelta(seconds=100) < end.until - datetime.now(UTC) <= timedelta(seconds=121)
    other = await pipeline.run(source_of(pipeline))
    assert isinstance(other, DelayJob)
    assert "slow down" in other.reason
    scope = DataSourceScope("toy", pipeline.tenant.organization_id, None)
    assert await pipeline.runner.windows.throttle.reopen(scope)


@pytest.mark.spec("RL-05")
async def test_a_busy_provider_that_states_no_wait_is_a_failing_attempt_and_closes_for_the_backoff(
    database: Database, redis: Redis
) -> None:
    toy = ToyListing(contents={"a": ProviderBusy("busy")})
    pipeline = await make_pipeline(database, redis, toy)
    request = await a_document(pipeline, toy)
    with pytest.raises(ProviderBusy):
        await pipeline.run(request)
    scope = DataSourceScope("toy", pipeline.tenant.organization_id, None)
    closed = await pipeline.runner.windows.throttle.closed_until(scope)
    assert closed is not None
    assert timedelta(seconds=50) < closed[0] - datetime.now(UTC) < timedelta(seconds=62)


@pytest.mark.spec("RL-05")
async def test_waits_end(database: Database, redis: Redis) -> None:
    toy = ToyListing(contents={"a": ProviderBusy("slow down", retry_after_s=1)})
    pipeline = await make_pipeline(database, redis, toy)
    request = await a_document(pipeline, toy)
    throttle = pipeline.runner.windows.throttle
    scope = DataSourceScope("toy", pipeline.tenant.organization_id, None)
    for delays in range(100):
        assert isinstance(await pipeline.run(request, delays=delays), DelayJob)
        await throttle.reopen(scope)
    with pytest.raises(ProviderBusy):
        await pipeline.run(request, delays=100)


@pytest.mark.spec("RL-05")
async def test_a_spent_quota_is_shown_on_the_source(database: Database, redis: Redis) -> None:
    toy = ToyListing([ProviderBusy("monthly quota is spent", retry_after_s=3 * 24 * 3600, quota=True)])
    pipeline = await make_pipeline(database, redis, toy)
    assert isinstance(await pipeline.run(source_of(pipeline)), DelayJob)
    assert str(await pipeline.tenant.value("select sync_error from knowledge_base_sources")).startswith("quota spent")


@pytest.mark.spec("LS-07", "LS-12")
@pytest.mark.parametrize(
    "error", [ProviderRefused("The space was archived.", 400), CredentialsRefused("The token has expired.")]
)
async def test_a_hopeless_error_fails_the_source_at_once(
    database: Database, redis: Redis, error: ProviderError
) -> None:
    pipeline = await make_pipeline(database, redis, ToyListing([error]))
    with pytest.raises(Unrecoverable):
        await pipeline.run(source_of(pipeline))
    [row] = await pipeline.tenant.rows("select sync_status, sync_error, sync_error_at from knowledge_base_sources")
    assert (row["sync_status"], row["sync_error"]) == ("failed", str(error))
    assert row["sync_error_at"] is not None


@pytest.mark.spec("LS-07")
async def test_an_unknown_type_is_hopeless(database: Database, redis: Redis) -> None:
    pipeline = await make_pipeline(database, redis, ToyListing())
    await pipeline.tenant.execute("update knowledge_base_sources set type = 'pigeon'")
    with pytest.raises(Unrecoverable):
        await pipeline.run(source_of(pipeline))
    assert "pigeon" in str(await pipeline.tenant.value("select sync_error from knowledge_base_sources"))


@pytest.mark.spec("LS-07", "LS-12")
async def test_a_retryable_error_fails_the_source_with_its_last_attempt_only(database: Database, redis: Redis) -> None:
    pipeline = await make_pipeline(database, redis, ToyListing([ProviderUnreachable("answered 502")]))
    for attempt, status in ((1, "syncing"), (2, "syncing"), (3, "failed")):
        with pytest.raises(ProviderUnreachable):
            await pipeline.run(source_of(pipeline), attempt=attempt)
        assert await pipeline.tenant.value("select sync_status from knowledge_base_sources") == status


@pytest.mark.spec("LS-07")
async def test_what_a_provider_says_of_one_document(database: Database, redis: Redis) -> None:
    toy = ToyListing(contents={"a": text("hello")})
    pipeline = await make_pipeline(database, redis, toy)
    request = await a_document(pipeline, toy)
    await pipeline.run(request)
    await pipeline.drain()
    toy.contents["a"] = ItemUnreadable("You may not see this page.")
    await pipeline.run(request)
    [row] = await pipeline.tenant.rows("select content, unreadable_reason from knowledge_base_documents")
    assert row == {"content": "hello", "unreadable_reason": "You may not see this page."}
    unreadable = "select counts -> 'unreadable' from knowledge_base_sources"
    assert await pipeline.tenant.value(unreadable) == "1"
    await pipeline.run(request)
    assert await pipeline.tenant.value(unreadable) == "1"
    toy.contents["a"] = ItemGone("404")
    await pipeline.run(request)
    assert await pipeline.tenant.kept() == []
    assert await pipeline.tenant.value("select count(*) from document_chunks") == 0
    assert await pipeline.tenant.value("select count(*) from pg_search_documents") == 0
    assert await pipeline.tenant.value("select sync_status from knowledge_base_sources") == "synced"
    assert await pipeline.tenant.value(unreadable) == "0"


@pytest.mark.spec("LS-07")
async def test_refused_credentials_of_a_document_fail_its_source(database: Database, redis: Redis) -> None:
    toy = ToyListing(contents={"a": CredentialsRefused("The token was revoked.")})
    pipeline = await make_pipeline(database, redis, toy)
    request = await a_document(pipeline, toy)
    with pytest.raises(Unrecoverable):
        await pipeline.run(request)
    assert await pipeline.tenant.value("select sync_status from knowledge_base_sources") == "failed"
    assert await ended_as(pipeline, request) == "failed"


@pytest.mark.spec("LS-14")
async def test_the_final_attempt_counts_a_crawl_url(database: Database, redis: Redis) -> None:
    site = ToySite({HOME: page(HOME, "home", A), A: ProviderUnreachable("answered 502")})
    pipeline = await make_pipeline(database, redis, site)
    await pipeline.run(source_of(pipeline))
    failed = await pipeline.drain()
    assert len(failed) == 1
    assert site.fetched == [HOME, A, A, A]
    [task] = await pipeline.tenant.rows("select status, urls_pending from knowledge_base_crawl_tasks")
    assert task == {"status": "completed", "urls_pending": 0}
    assert await pipeline.tenant.open_requests() == set()


async def test_a_payload_that_is_no_request_is_unrecoverable(database: Database, redis: Redis) -> None:
    pipeline = await make_pipeline(database, redis, ToyListing())
    for payload in (
        {},
        {"type": "sync_source"},
        {"type": "sync_source", "organization_id": 1, "source_id": 1, "version": 2},
        {"type": "crawl_url", "organization_id": 1, "crawl_task_id": 1, "url": "https://a\x00b"},
    ):
        job = Job(JobRequest("x", "sync_source", payload, "org-1", Priority.NORMAL))
        with pytest.raises(Unrecoverable, match="no request that this version can run"):
            await pipeline.runner.run(job)


async def test_each_queue_has_its_kinds(database: Database, redis: Redis) -> None:
    runner = (await make_pipeline(database, redis, ToyListing())).runner
    kinds = [kind for queue in QueueName for kind in handlers_for(runner, queue)]
    assert sorted(kinds) == sorted(
        get_args(model.model_fields["type"].annotation)[0] for model in get_args(UnitRequest)
    )
    assert abandoned_of(runner) == runner.abandoned


async def test_a_scan_is_handed_on(database: Database, redis: Redis) -> None:
    pipeline = await make_pipeline(database, redis, ToyListing())
    end = await pipeline.run(Scan(date=date(2026, 11, 30)))
    assert end == Completed({"status": "done", "scanned": "2026-11-30"})


@pytest.mark.spec("QU-31")
async def test_an_end_that_nobody_saw_is_written_down(database: Database, redis: Redis) -> None:
    site = ToySite({HOME: page(HOME, "home", A, B), A: page(A, "a"), B: page(B, "b")})
    pipeline = await make_pipeline(database, redis, site)
    await pipeline.run(source_of(pipeline))
    for _ in range(2):  # the start and the home page
        await pipeline.runner.run(Job(pipeline.enqueuer.waiting.popleft()))
    a, b = (job for job in pipeline.enqueuer.waiting if job.kind == "crawl_url")
    await pipeline.runner.abandoned(a.job_id, a.kind, a.payload, "stalled_too_often")
    await pipeline.runner.abandoned(a.job_id, a.kind, a.payload, "stalled_too_often")
    assert await pipeline.tenant.value("select urls_pending from knowledge_base_crawl_tasks") == 1
    await pipeline.runner.abandoned(b.job_id, b.kind, None, "payload_refused")  # found by its id
    [task] = await pipeline.tenant.rows("select status, urls_pending from knowledge_base_crawl_tasks")
    assert task == {"status": "completed", "urls_pending": 0}
    assert "incomplete" in str(await pipeline.tenant.value("select counts from knowledge_base_sources"))
    request = source_of(pipeline)
    await pipeline.runner.abandoned(job_id(request), "sync_source", request.model_dump(mode="json"), "removed")
    assert await pipeline.tenant.value("select sync_status from knowledge_base_sources") == "failed"
    await pipeline.runner.abandoned("kb-scan-2026-11-30", "scan", None, "removed")


async def test_a_failure_that_cannot_be_written_down_is_no_attempt(database: Database, redis: Redis) -> None:
    """Postgres goes away between the provider's refusal and its record: the job comes back to it."""
    pipeline = await make_pipeline(database, redis, ToyListing([ProviderRefused("archived")]))

    original = pipeline.runner.units.build_provider

    def build(*arguments: object) -> object:
        raise DatabaseUnavailable("Postgres is away")

    object.__setattr__(pipeline.runner.units, "build_provider", build)
    assert isinstance(await pipeline.run(source_of(pipeline), attempt=3), DelayJob)
    object.__setattr__(pipeline.runner.units, "build_provider", original)
    with pytest.raises(Unrecoverable):
        await pipeline.run(source_of(pipeline), attempt=3)
