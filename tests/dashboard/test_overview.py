"""The overview: what needs a person first, then how the fleet stands, at a cost that does not grow (OP-05)."""

from __future__ import annotations

import json

import pytest
from redis.asyncio import Redis

from kbsync.domain.ids import QueueName
from kbsync.library.counters import RECOVERY, Counted, add_many
from kbsync.library.principals import Role
from kbsync.queue.operators import QueueOperator
from kbsync.recovery.layers import RecoveryPass
from kbsync.recovery.reconciler import Reconciler
from ratelimits.limits import Limit, UnitKind
from ratelimits.scope import DataSourceScope, ThrottleScope
from tests.dashboard.conftest import Dashboard, Person
from tests.dashboard.jobs import failed, kept, stored, waiting
from tests.dashboard.looking import (
    EVIL,
    Cost,
    a_connection,
    an_organization,
    beat,
    commands_so_far,
    counted_statements,
    execute,
)
from tests.queue.support import Recorder, a_worker, running, until

SYNC, CHUNKS = QueueName.SYNC, QueueName.CHUNKS


async def seen_by(dashboard: Dashboard) -> tuple[Person, str]:
    person = await dashboard.person(Role.VIEWER)
    status, text = await person.get("/")
    assert status == 200, text
    return person, text


@pytest.mark.spec("OP-05")
async def test_a_quiet_fleet_needs_nobody(dashboard: Dashboard) -> None:
    await beat(dashboard.runtime.database)
    _, text = await seen_by(dashboard)
    assert "Nothing needs a person." in text
    assert "None in force" in text
    assert "No worker is alive" in text
    assert "<title>Overview · kbsync</title>" in text


@pytest.mark.spec("OP-05")
async def test_what_needs_a_person_is_said_with_its_cause_and_where_to_go(dashboard: Dashboard) -> None:
    database, fleet = dashboard.runtime.database, dashboard.fleet
    await beat(database)
    for id, name in ((1, "Acme"), (2, "Initech"), (3, "Globex")):
        await an_organization(database, id, name)
    await failed(
        fleet.queue(SYNC), 198, error="Notion refused the token (401)", name="CredentialsRefused", tenant="org-2"
    )
    await waiting(fleet.queue(CHUNKS), 3, head="kb-document-chunks-")
    held = json.dumps({"count": 412, "of": 500, "run": 1, "since": "2026-08-25T10:00:00+00:00"})
    insert = (
        "insert into knowledge_base_sources (organization_id, type, name, sync_status, sync_error, sync_error_at, "
        "held_removal) values ($1, 'website', $2, $3, $4, now(), $5::jsonb)"
    )
    await execute(database, insert, 1, "docs.acme.example", "failed", "robots.txt was not readable", None)
    await execute(database, insert, 3, "support.globex.example", "synced", None, held)
    quota = DataSourceScope("zendesk", 3, 9)
    await dashboard.runtime.throttle.close(quota, 6 * 86_400, "monthly quota is spent")

    _, text = await seen_by(dashboard)
    for words in (
        "5 things need a person. Everything else is moving.",
        "No worker serves knowledge-base-chunks.",
        "3 jobs wait",
        "kbsync worker knowledge-base-chunks",
        "198 jobs of Initech failed for good.",
        "Notion refused the token (401)",
        "docs.acme.example, Acme: the last sync failed.",
        "robots.txt was not readable.",
        "support.globex.example, Globex: a removal waits for approval.",
        "412 of 500 documents",
        "Zendesk, Globex: the quota is spent until",
        "Overview: 5 things need a person",
    ):
        assert words in text, words
    assert f"/queues/{SYNC}?state=failed&amp;tenant=org-2&amp;error=" in text


async def test_only_five_things_stand_open_and_the_others_are_one_click_away(dashboard: Dashboard) -> None:
    await beat(dashboard.runtime.database)
    for n in range(8):
        await failed(dashboard.fleet.queue(SYNC), 1, head=f"kb-{n}-", tenant=f"org-{n + 1}")
    _, text = await seen_by(dashboard)
    assert "8 things need a person" in text
    assert "and 3 more" in text


async def test_a_sources_own_failed_job_is_not_said_twice(dashboard: Dashboard) -> None:
    await beat(dashboard.runtime.database)
    queue = dashboard.fleet.queue(SYNC)
    await kept(queue, "f", [stored("kb-source-sync-7", kind="sync_source")], kind="sync_source")
    _, text = await seen_by(dashboard)
    assert "Nothing needs a person." in text


@pytest.mark.spec("OP-05")
async def test_queues_show_their_rates_their_workers_and_who_paused_them(dashboard: Dashboard) -> None:
    await beat(dashboard.runtime.database)
    queue = dashboard.fleet.queue(SYNC)
    await waiting(queue, 7)
    worker = a_worker(queue.redis, {"unit": Recorder()}, SYNC, concurrency=12, host="kb-eu-1", version="9.9.9")
    async with running(worker):
        await until(lambda: _has_worker(dashboard))
        await QueueOperator(queue).pause()
        _, text = await seen_by(dashboard)
    for words in ("kb-eu-1", "9.9.9", "of 12", "paused", "1 alive on 1 host"):
        assert words in text, words
    assert "No worker serves" not in text


async def _has_worker(dashboard: Dashboard) -> bool:
    return bool(await dashboard.fleet.queue(SYNC).workers())


@pytest.mark.spec("RL-07", "OP-05")
async def test_throttles_in_force_are_shown_by_name(dashboard: Dashboard) -> None:
    database, throttle = dashboard.runtime.database, dashboard.runtime.throttle
    await beat(database)
    await an_organization(database, 1, "Acme")
    connection = await a_connection(database, 1, source="Company wiki")
    scope = ThrottleScope("notion", UnitKind.DOCUMENT_SYNC, 1, connection)
    for n in range(6):
        await throttle.take(scope, Limit(2, 600), f"job-{n}")
    _, text = await seen_by(dashboard)
    assert "Notion document sync, Acme" in text
    assert "2/2 used, 4 reserved" in text
    assert "Nothing needs a person." in text  # a delay goes on by itself


@pytest.mark.spec("QR-07", "OP-05")
async def test_a_recovery_pass_shows_when_it_ran_and_what_it_brought_back(dashboard: Dashboard) -> None:
    database = dashboard.runtime.database
    await beat(database, seconds_ago=400)
    _, text = await seen_by(dashboard)
    assert "Recovery is silent for 6 min" in text

    await execute(
        database,
        "insert into kbsync.unit_requests (job_id, organization_id, kind, request, requested_at) values "
        """('kb-document-sync-5', 1, 'sync_document', '{"type": "sync_document", "organization_id": 1, "document_id": 5}', """
        "now() - interval '1 hour')",
    )
    reconciler = Reconciler(database, dashboard.fleet, dashboard.runtime.kill_switch)

    async def two() -> int:
        return 2

    await RecoveryPass(reconciler, [two]).once()
    async with database.fleet() as connection:
        await add_many(connection, {("sync_document", Counted.STALLS): 3})
        rows = await connection.fetch(
            "select name, amount from kbsync.hourly_counters where kind = $1 order by name", RECOVERY
        )
    assert [(row["name"], row["amount"]) for row in rows] == [("lease_recovered", 2), ("reconciled", 1)]
    _, text = await seen_by(dashboard)
    assert "Recovery is silent" not in text
    assert "last 24 h: 6 in all" in text


async def test_hostile_names_are_shown_as_text(dashboard: Dashboard) -> None:
    database, queue = dashboard.runtime.database, dashboard.fleet.queue(SYNC)
    await beat(database)
    await an_organization(database, 1, EVIL)
    await execute(
        database,
        "insert into knowledge_base_sources (organization_id, type, name, sync_status, sync_error, sync_error_at) "
        "values (1, $1, $1, 'failed', $1, now())",
        EVIL,
    )
    await failed(queue, 2, error=EVIL, name=EVIL, tenant=EVIL)
    await dashboard.runtime.throttle.close(DataSourceScope(EVIL, 1, None), 600, EVIL)
    _, text = await seen_by(dashboard)
    assert "<script>alert" not in text
    assert "\u202e" not in text
    assert "U+202E" in text


@pytest.mark.spec("OP-05")
async def test_a_look_costs_the_same_with_a_thousand_jobs_and_with_a_hundred_thousand(
    dashboard: Dashboard, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = dashboard.fleet.queue(SYNC)
    await beat(dashboard.runtime.database)
    await failed(queue, 300)
    await waiting(queue, 700)
    person, _ = await seen_by(dashboard)

    async def cost_of_a_load() -> Cost:
        cost = Cost()
        before = await commands_so_far(redis)
        with counted_statements(monkeypatch, cost):
            assert (await person.get("/"))[0] == 200
        cost.commands = await commands_so_far(redis) - before
        return cost

    few = await cost_of_a_load()
    for n in range(33):
        await waiting(queue, 3_000, head=f"kb-many-{n}-")
    await failed(queue, 700, head="kb-more-")
    await person.get("/")
    many = await cost_of_a_load()
    assert abs(few.statements - many.statements) <= 3  # a runner of the same process may look in between
    assert many.statements <= 45
    assert abs(few.commands - many.commands) <= 5
    assert many.commands <= 130
