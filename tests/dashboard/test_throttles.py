"""Throttles at the dashboard: what is shown of a window, changing a limit, lifting a closure (RL-05, RL-07)."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from redis.asyncio import Redis

from kbsync.dashboard.throttle_rows import Names, lead, limit_words, rows_of, rows_of_quota
from kbsync.library.principals import Role
from kbsync.library.quotas import Quota
from kbsync.queue.operators import QueueOperator
from ratelimits.host import HostGate
from ratelimits.host_views import read_hosts
from ratelimits.limits import Limit, UnitKind
from ratelimits.scope import DataSourceScope, HostScope, ThrottleScope
from ratelimits.throttle import Closure, ComeBackAt, Go, WindowView
from tests.dashboard.conftest import Dashboard
from tests.dashboard.looking import EVIL, a_connection, an_organization, execute, value_of

NOW = datetime(2026, 8, 25, 14, 2, 31, tzinfo=UTC)
ENDS = datetime(2026, 8, 25, 14, 3, tzinfo=UTC)
SCOPE = ThrottleScope("notion", UnitKind.DOCUMENT_SYNC, 1, 7)
NAMES = Names({1: "Acme"}, {7: Quota(7, 1, "notion", "", "Company wiki", {}, None, None)})


def window(used: int, reserved: int, limit: int | None = 4, **changes: object) -> WindowView:
    shown = {
        "scope": SCOPE, "window_s": 60.0, "limit": limit, "used": used, "reserved": reserved, "ends_at": ENDS,
        "closed_until": None, "closed_reason": None, **changes,
    }  # fmt: skip
    return WindowView(**shown)  # type: ignore[arg-type]


# --- rows, pure ----------------------------------------------------------------------------------------------------


@pytest.mark.spec("RL-07")
def test_a_full_window_reads_as_one_line() -> None:
    [row] = rows_of([window(4, 37)], [], NAMES)
    assert (row.name, row.note) == ("Notion document sync, Acme", "source “Company wiki”")
    assert (row.used, row.reserved, row.resumes_at, row.full) == (4, 37, ENDS, True)
    # 37 at 4 a window: nine full windows and one of a quarter; the last begins nine minutes after the next one.
    assert row.ahead == (1.0,) * 10 + (0.25,)
    assert row.last_at == ENDS + timedelta(minutes=9)
    assert lead([row]) == "1 in force: 37 jobs wait for a reserved slot and go on by themselves"


def test_slots_reserved_in_the_window_that_runs_are_not_drawn_later() -> None:
    [row] = rows_of([window(1, 5)], [], NAMES)
    assert row.full  # its four slots are given: one that comes now has to wait
    assert row.here == 3
    assert row.ahead == (1.0, 0.5)
    assert row.last_at == ENDS


def test_a_window_with_room_is_open_and_an_unknown_limit_is_not_made_up() -> None:
    quiet, odd = rows_of(
        [window(2, 0), window(2, 0, limit=None, scope=ThrottleScope("x", UnitKind.SOURCE_SYNC, 2, None))], [], NAMES
    )
    assert not quiet.in_force
    assert not odd.in_force
    assert {quiet.name, odd.name} == {"Notion document sync, Acme", "X source sync, organization 2"}
    assert lead([quiet, odd]) == "None in force: every window that is used has room."
    assert lead([]) == "None in force: every window that is used has room."


def test_closed_comes_first_then_the_longest_line() -> None:
    closed = Closure(DataSourceScope("zendesk", 1, 9), NOW + timedelta(minutes=3), "Zendesk answered 429")
    other = ThrottleScope("scribe", UnitKind.DOCUMENT_SYNC, 1, 8)
    rows = rows_of([window(2, 0), window(50, 3, limit=50, scope=other)], [closed], NAMES)
    assert [row.name for row in rows] == ["Zendesk, Acme", "Scribe document sync, Acme", "Notion document sync, Acme"]
    assert (rows[0].reason, rows[0].kind, rows[0].note) == (
        "Zendesk answered 429",
        None,
        "connection 9, not kept any more",
    )


def test_a_closed_source_with_windows_is_one_row_a_kind() -> None:
    until = NOW + timedelta(minutes=3)
    closed = Closure(SCOPE.data_source, until, "wait")
    rows = rows_of([window(1, 2, closed_until=until, closed_reason="wait")], [closed], NAMES)
    assert [(row.kind, row.closed_until) for row in rows] == [(UnitKind.DOCUMENT_SYNC, until)]


def test_limits_read_as_people_say_them() -> None:
    assert [limit_words(Limit(4, 60)), limit_words(Limit(3_000, 60)), limit_words(Limit(20, 1))] == [
        "4 a minute", "3,000 a minute", "20 a second"
    ]  # fmt: skip
    assert limit_words(Limit(10, 90)) == "10 in 1 min 30 s"


def test_a_quota_has_both_kinds_and_knows_who_changed_it() -> None:
    quota = Quota(7, 1, "notion", "", None, {"document_sync": {"count": 30, "window_s": 60}}, "Jonas Weber", NOW)
    source, document = rows_of_quota(quota, Names({1: "Acme"}, {7: quota}))
    assert (source.own, source.limit, source.changed_by) == (False, Limit(4, 60), None)
    assert (document.own, document.limit, document.usual) == (True, Limit(30, 60), Limit(4, 60))
    assert document.changed_by == "Jonas Weber"


# --- the page ------------------------------------------------------------------------------------------------------


async def acme(dashboard: Dashboard, limits: str = "{}") -> int:
    await an_organization(dashboard.runtime.database, 1, "Acme")
    return await a_connection(dashboard.runtime.database, 1, source="Company wiki", limits=limits)


@pytest.mark.spec("RL-07", "OP-05")
async def test_each_window_shows_used_limit_reserved_and_closed_until(dashboard: Dashboard, redis: Redis) -> None:
    connection, throttle = await acme(dashboard), dashboard.runtime.throttle
    for n in range(5):
        await throttle.take(ThrottleScope("notion", UnitKind.DOCUMENT_SYNC, 1, connection), Limit(2, 600), f"j{n}")
    for n in range(20):
        await throttle.take(ThrottleScope("notion", UnitKind.SOURCE_SYNC, 1, connection), Limit(50, 600), f"s{n}")
    await throttle.close(DataSourceScope("zendesk", 1, None), 900, "Zendesk answered 429, Retry-After: 900 s")
    await QueueOperator(dashboard.fleet.queue("knowledge-base-chunks")).set_limiter(60)
    person = await dashboard.person(Role.VIEWER)
    _, text = await person.get("/throttles")
    for words in (
        "Notion document sync, Acme", "source “Company wiki”", "2/2", "3 reserved", "20/50", "2 in 10 min",
        "Zendesk, Acme", "Zendesk answered 429, Retry-After: 900 s", "2 in force", "3 jobs wait for a reserved slot",
        "60 a minute", "You can look; operators can act.",
    ):  # fmt: skip
        assert words in text, words
    assert "Change…" not in text  # a viewer sees no actions
    assert "/throttles/reopen" not in text


@pytest.mark.spec("RL-07", "OP-06")
async def test_an_operator_changes_a_limit_and_workers_take_it_with_the_next_slot(dashboard: Dashboard) -> None:
    connection, database = await acme(dashboard), dashboard.runtime.database
    person = await dashboard.person(Role.OPERATOR, name="Priya Raman")
    _, text = await person.get(f"/throttles?data_source={connection}")
    assert "Counts from the next window on." in text
    form = {
        "organization": "1",
        "data_source": str(connection),
        "kind": "document_sync",
        "count": "30",
        "per": "minute",
    }
    _, text = await person.post("/throttles/limit", {**form, "why": "A bigger plan"})
    assert "The limit of notion document sync is 30 a minute now, 4 a minute before." in text
    assert "instead of 4 a minute, <bdi>Priya Raman</bdi>" in text
    stored = await value_of(database, "select limits from data_sources where id = $1", connection)
    assert json.loads(stored) == {"document_sync": {"count": 30, "window_s": 60.0}}
    row = await value_of(
        database,
        "select reason || '|' || (detail ->> 'kind') from kbsync.audit_entries where action = $1",
        "data_source.limits",
    )
    assert row == "A bigger plan|document_sync"
    assert ("Priya Raman", "data_source.limits", f"data_source:{connection}") in await dashboard.audit()

    _, text = await person.post("/throttles/limit", {**form, "limit": "usual"})
    assert "is 4 a minute now, 30 a minute before" in text
    assert json.loads(await value_of(database, "select limits from data_sources where id = $1", connection)) == {}


@pytest.mark.spec("RL-07", "OP-06")
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"count": "0"}, "A limit is a whole number from 1 to"),
        ({"count": "-4"}, "A limit is a whole number from 1 to"),
        ({"count": "4.5"}, "A limit is a whole number from 1 to"),
        ({"count": "9" * 30}, "A limit is a whole number from 1 to"),
        ({"per": "nan"}, "A limit is a whole number from 1 to"),
        ({"per": "fortnight"}, "A limit is a whole number from 1 to"),
        ({"per": "1e400"}, "A limit is a whole number from 1 to"),
        ({"kind": "everything"}, "names no unit of work"),
        ({"organization": "2"}, "This connection is not kept any more."),
        ({"data_source": "999"}, "This connection is not kept any more."),
        ({"data_source": "none"}, "none of their own"),
        ({"data_source": "7; drop"}, "This form names no connection."),
    ],
)
async def test_a_limit_that_is_none_changes_nothing(dashboard: Dashboard, change: dict[str, str], said: str) -> None:
    connection = await acme(dashboard)
    person = await dashboard.person(Role.OPERATOR)
    form = {"organization": "1", "data_source": str(connection), "kind": "source_sync", "count": "9", "per": "second"}
    status, text = await person.post("/throttles/limit", {**form, **change})
    assert status == 200
    assert said in text
    stored = await value_of(dashboard.runtime.database, "select limits from data_sources where id = $1", connection)
    assert json.loads(stored) == {}
    assert await dashboard.audit("data_source.limits") == []


@pytest.mark.spec("RL-05", "RL-07", "OP-06")
async def test_an_operator_lifts_a_closure_and_the_next_job_runs(dashboard: Dashboard) -> None:
    connection, throttle = await acme(dashboard), dashboard.runtime.throttle
    scope = ThrottleScope("notion", UnitKind.SOURCE_SYNC, 1, connection)
    await throttle.close(scope.data_source, 900, "Notion answered 429")
    assert isinstance(await throttle.take(scope, Limit(4, 60), "early"), ComeBackAt)
    person = await dashboard.person(Role.OPERATOR, name="Priya Raman")
    _, text = await person.get("/throttles")
    assert "stay asleep; promote them in their queue" in text
    form = {"scope": scope.data_source.member, "why": "Plan was raised"}
    _, text = await person.post("/throttles/reopen", form)
    assert "notion is open again, 14 min before" in text
    assert isinstance(await throttle.take(scope, Limit(4, 60), "next"), Go)
    assert await dashboard.audit("throttle.reopen") == [("Priya Raman", "throttle.reopen", f"data_source:{connection}")]
    _, text = await person.post("/throttles/reopen", form)
    assert "notion was open already: nothing was changed." in text
    assert len(await dashboard.audit("throttle.reopen")) == 1
    for scope_text in ("", "notion", "notion:1:x", "notion:1:2:3"):
        _, text = await person.post("/throttles/reopen", scope=scope_text)
        assert "This form names no connection." in text


@pytest.mark.spec("OP-06")
async def test_who_only_looks_changes_no_throttle(dashboard: Dashboard) -> None:
    connection = await acme(dashboard)
    await dashboard.runtime.throttle.close(DataSourceScope("notion", 1, connection), 900, "wait")
    form = {
        "organization": "1",
        "data_source": str(connection),
        "provider": "notion",
        "kind": "source_sync",
        "count": "9",
    }
    for person in (
        await dashboard.person(Role.VIEWER),
        await dashboard.person(Role.READER),
        await dashboard.person(Role.OPERATOR, organization_id=1),
    ):
        for path in ("/throttles/limit", "/throttles/reopen"):
            assert (await person.post(path, form))[0] == 403, (person.name, path)
    assert await dashboard.audit() == []
    assert await dashboard.runtime.throttle.closed_until(DataSourceScope("notion", 1, connection)) is not None


async def test_hostile_names_and_reasons_are_shown_as_text(dashboard: Dashboard) -> None:
    database, throttle = dashboard.runtime.database, dashboard.runtime.throttle
    await an_organization(database, 1, EVIL)
    connection = await a_connection(database, 1, provider=EVIL, source=EVIL)
    await throttle.take(ThrottleScope(EVIL, UnitKind.SOURCE_SYNC, 1, connection), Limit(4, 600), "j")
    await throttle.close(DataSourceScope(EVIL, 1, connection), 900, EVIL)
    person = await dashboard.person(Role.OPERATOR)
    _, text = await person.get("/throttles")
    assert "<script>alert" not in text
    assert "\u202e" not in text
    assert "U+202E" in text
    _, text = await person.post("/throttles/reopen", scope=DataSourceScope(EVIL, 1, connection).member)
    assert "is open again" in text


@pytest.mark.spec("RL-07")
async def test_hosts_of_running_crawls_show_how_they_stand(dashboard: Dashboard, redis: Redis) -> None:
    gate = HostGate(redis)
    for n in range(2):
        await gate.enter(HostScope("docs.acme.example"), 1000, 8, job_id=f"j{n}")
    await gate.close(HostScope("slow.example"), 300, "answered 503")
    [busy, slow] = await read_hosts(redis, ["docs.acme.example", "slow.example", "never.example"])
    assert (busy.host, busy.under_way, busy.closed_until) == ("docs.acme.example", 2, None)
    assert (slow.reason, slow.under_way) == ("answered 503", 0)
    assert slow.closed_until is not None

    await an_organization(dashboard.runtime.database, 1, "Acme")
    for url in ("https://docs.acme.example/start?x=1", "https://slow.example"):
        await execute(
            dashboard.runtime.database,
            "insert into knowledge_base_crawl_tasks (organization_id, start_url, status) values (1, $1, 'running')",
            url,
        )
    person = await dashboard.person(Role.VIEWER)
    _, text = await person.get("/throttles")
    assert "docs.acme.example" in text
    assert f"2/{dashboard.runtime.settings.fetch_at_once} " in text
    assert "answered 503" in text
