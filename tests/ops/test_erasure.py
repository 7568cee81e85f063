"""An organization is erased from Postgres and Redis, and the proof would find what was forgotten (LS-26)."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis

from kbsync.db.pool import Database
from kbsync.domain.ids import QueueName
from kbsync.domain.requests import DocumentChunks, LibraryRequest, Priority, SyncDocument, SyncSource
from kbsync.domain.states import JobState
from kbsync.flags.flipper_tables import FlipperTables
from kbsync.queue.fleet import Fleet
from kbsync.queue.units import enqueue_units
from kbsync.recovery.promises import accept_units
from kbsync.settings import Settings
from ops import erasure
from ops.erasure import erase, look
from ratelimits.limits import UnitKind, limit_for
from ratelimits.scope import ThrottleScope
from ratelimits.throttle import Throttle
from ratelimits.waits import ProviderWaits
from tests.looking.rows import execute, fleet_of
from tests.ops.source_verbs import Verbs, kbsync
from tests.ops.test_source_life import a_full_source

__all__ = ["kbsync"]


def quiet(what: str, went: int) -> None:
    return None


async def an_organization_of_everything(database: Database, fleet: Fleet, settings: Settings, organization: int) -> int:
    """Library rows, ledgers, people, a pause, and jobs of every state, with throttles and waits. Answers its source."""
    source = await a_full_source(database, 5, organization)
    for sql in (
        "insert into kbsync.outbox (organization_id, request) values ($1, '{}')",
        "insert into kbsync.audit_entries (actor, action, target, organization_id, reason) "
        "select 'ada', 'source.edit', 'source:1', $1, 'their secret plans' from generate_series(1, 5)",
        "with one as (insert into kbsync.principals (name, kind, roles, organization_id) "
        "values ('ada of ' || $1::bigint, 'human', '{viewer}', $1) returning id), "
        "token as (insert into kbsync.tokens (principal_id, digest, hint) "
        "select id, sha256(($1::bigint)::text::bytea), 'x' from one returning id) "
        "insert into kbsync.dashboard_sessions (digest, token_id) select sha256(('s' || $1::bigint)::bytea), id from token",
        "insert into kbsync.bulk_actions (queue, action, state, tenant, actor) "
        "values ('q', 'retry', 'failed', 'org-' || $1::bigint, 'ada')",
    ):
        await execute(database, sql, organization)
    await FlipperTables(database).set_actor("pause_api2_knowledge_base_sync", organization, True)
    first = organization * 1_000
    requests: list[LibraryRequest] = [SyncSource(organization_id=organization, source_id=source)]
    requests += [SyncDocument(organization_id=organization, document_id=first + n) for n in range(4)]
    requests += [DocumentChunks(organization_id=organization, document_id=first + n) for n in range(3)]
    await accept_units(database, fleet, requests, priority=Priority.NORMAL)
    delayed = [SyncDocument(organization_id=organization, document_id=first + 99)]
    await enqueue_units(fleet, delayed, priority=Priority.URGENT)
    redis = fleet.client_at(settings.redis_url or "")
    scope = ThrottleScope("notion", UnitKind.DOCUMENT_SYNC, organization, 3)
    throttle = Throttle(redis)
    await throttle.take(scope, limit_for("notion", UnitKind.DOCUMENT_SYNC, {}), "kb-document-sync-1")
    await throttle.close(scope.data_source, 60, "asked to wait")
    await ProviderWaits(redis).note_wait(f"kb-document-sync-{first}", 5)
    return source


async def dump(redis: Redis) -> bytes:
    """Everything that Redis holds, as far as it can be read."""
    whole = b""
    async for key in redis.scan_iter():
        kind = await redis.type(key)
        whole += key + b"\n"
        match kind:
            case b"string":
                whole += await redis.get(key) or b""
            case b"hash":
                found = await redis.hgetall(key)  # type: ignore[misc]
                whole += b" ".join(part for pair in found.items() for part in pair)
            case b"zset":
                whole += b" ".join(await redis.zrange(key, 0, -1))
            case b"list":
                whole += b" ".join(await redis.execute_command("LRANGE", key, 0, -1))  # type: ignore[no-untyped-call]
            case b"stream":
                whole += repr(await redis.xrange(key)).encode()
    return whole


@pytest.mark.spec("LS-26")
async def test_nothing_of_it_is_left_and_its_neighbour_is_untouched(
    settings: Settings, database: Database, redis: Redis
) -> None:
    async with fleet_of(settings) as fleet:
        for organization in (7, 77):
            await an_organization_of_everything(database, fleet, settings, organization)
        before = await look(database, fleet, redis, 77)
        found = await look(database, fleet, redis, 7)
        assert all(found.postgres.values()), found.postgres
        assert found.redis["arq:job:*"] == 9
        assert found.redis["kbsync:closed:*:7:*"] == 1
        assert not found.nothing_is_left
        proof = await erase(database, fleet, redis, 7, actor="grace", progress=quiet)
        assert proof.nothing_is_left, proof
        assert proof.went > 50
        after = await look(database, fleet, redis, 77)
        assert (after.postgres, after.redis) == (before.postgres, before.redis)
    left = await dump(redis)
    for trace in (b'"org-7"', b":7:", b'"organization_id":7}', b"kb-document-sync-7000", b"kb-document-chunks-7000"):
        assert trace not in left
    async with database.fleet() as connection:
        entries = await connection.fetch("select * from kbsync.audit_entries where coalesce(organization_id, 0) <> 77")
    assert [(row["action"], row["target"], row["organization_id"]) for row in entries] == [
        ("organization.erase", "organization:7", None)
    ]
    assert "secret" not in str(entries)


@pytest.mark.spec("LS-26")
async def test_one_that_stopped_goes_on(
    settings: Settings, database: Database, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasure, "BATCH", 2)

    def stop(what: str, went: int) -> None:
        if what == "knowledge_base_documents":
            raise KeyboardInterrupt

    async with fleet_of(settings) as fleet:
        await an_organization_of_everything(database, fleet, settings, 7)
        with pytest.raises(KeyboardInterrupt):
            await erase(database, fleet, redis, 7, actor="grace", progress=stop)
        half = await look(database, fleet, redis, 7)
        assert half.postgres["document_chunks"] == 0
        assert half.postgres["knowledge_base_documents"] == 3
        assert (await erase(database, fleet, redis, 7, actor="grace", progress=quiet)).nothing_is_left


@pytest.mark.spec("LS-26")
async def test_what_runs_is_stopped_first(settings: Settings, database: Database, redis: Redis) -> None:
    from kbsync.queue.worker import FleetWorker

    began = asyncio.Event()

    async def endless(job: object) -> object:
        began.set()
        await asyncio.sleep(3_600)
        return None

    async with fleet_of(settings) as fleet:
        await an_organization_of_everything(database, fleet, settings, 7)
        worker = FleetWorker(
            fleet.queue(QueueName.SYNC).redis,
            QueueName.SYNC,
            {"sync_source": endless, "sync_document": endless},  # type: ignore[dict-item]
            concurrency=2,
            job_timeout_s=600,
            lease_s=2,
        )
        task = asyncio.create_task(worker.run())
        await began.wait()
        proof = await erase(database, fleet, redis, 7, actor="grace", progress=quiet)
        worker.request_stop()
        worker.request_stop()
        await task
        assert proof.nothing_is_left, proof
        page = await fleet.queue(QueueName.SYNC).page(JobState.CANCELLED)
        assert page.jobs == []


@pytest.mark.spec("LS-26")
async def test_every_table_that_names_an_organization_is_looked_through(database: Database) -> None:
    async with database.direct() as connection:
        rows = await connection.fetch(
            "select case when table_schema = 'public' then '' else table_schema || '.' end || table_name as place "
            "from information_schema.columns join information_schema.tables using (table_schema, table_name) "
            "where column_name = 'organization_id' and table_schema in ('public', 'kbsync') and table_type = 'BASE TABLE'"
        )
        from kbsync.library.erasure import rows_left

        looked = set(await rows_left(connection, 7))
    assert {row["place"] for row in rows} <= looked


@pytest.mark.spec("LS-26", "OP-03")
async def test_the_verb_counts_first_and_proves_afterwards(
    kbsync: Verbs, settings: Settings, database: Database
) -> None:
    async with fleet_of(settings) as fleet:
        await an_organization_of_everything(database, fleet, settings, 7)
    counted = await kbsync("organization", "erase", "7")
    assert "nothing was changed" in counted.out
    assert (await kbsync("organization", "erase", "7", "--json")).json["nothing_is_left"] is False
    done = (await kbsync("organization", "erase", "7", "--yes", "--json")).json
    assert done["nothing_is_left"] is True
    assert set(done["postgres"].values()) | set(done["redis"].values()) == {0}
    assert "nothing is left" in (await kbsync("organization", "erase", "7", "--yes")).out
