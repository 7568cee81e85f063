"""The audit in the browser: newest first, filtered, paged by place, hostile text as text, quick with many rows (OP-05)."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from kbsync.dashboard.pages.audit import ROWS, cursor_of, cursor_text, details_of, link_of
from kbsync.db.statements import Statements
from kbsync.library import audit
from kbsync.library.audit import Entry, EntryFilter
from kbsync.library.principals import Role
from tests.dashboard.conftest import Dashboard, Person
from tests.dashboard.looking import EVIL, an_organization, execute, value_of

NOW = datetime(2026, 8, 25, 14, 2, 31, 123456, tzinfo=UTC)


async def entries(
    dashboard: Dashboard, count: int = 1, *, actor: str = "Mara", action: str = "source.sync", target: str = "source:12",
    organization_id: int | None = None, reason: str | None = None, detail: str = "{}", days_ago: float = 0,
) -> None:  # fmt: skip
    await execute(
        dashboard.runtime.database,
        "insert into kbsync.audit_entries (at, actor, action, target, organization_id, reason, detail) "
        "select now() - make_interval(secs => $8 * 86400) - make_interval(secs => n), $2, $3, $4, $5, $6, $7 "
        "from generate_series(1, $1) n",
        count, actor, action, target, organization_id, reason, detail, days_ago,
    )  # fmt: skip


def rows_in(text: str) -> list[str]:
    return re.findall(r'<th role="rowheader".*?</tr>', text, re.S)


async def viewer(dashboard: Dashboard) -> Person:
    return await dashboard.person(Role.VIEWER)


@pytest.mark.spec("OP-05")
async def test_entries_say_who_what_why_and_what_came_of_it(dashboard: Dashboard) -> None:
    await an_organization(dashboard.runtime.database, 1, "Acme")
    await entries(
        dashboard, actor="Priya Raman", organization_id=1, reason="Asked by the editor",
        detail='{"matched": 1214, "refused": {"already waiting": 16}, "ok": true, "nothing": null}',
    )  # fmt: skip
    person = await viewer(dashboard)
    _, text = await person.get("/audit?actor=Priya+Raman")
    [row] = rows_in(text)
    for words in ("Priya Raman", "source.sync", 'href="/sources/12"', "Acme", "Asked by the editor"):
        assert words in row, words
    plain = re.sub(r"<[^>]+>", "", row)
    assert "ok: yes · matched: 1,214 · refused: already waiting 16" in plain


@pytest.mark.spec("OP-05")
async def test_each_filter_keeps_what_fits(dashboard: Dashboard) -> None:
    await an_organization(dashboard.runtime.database, 1, "Acme")
    await entries(dashboard, 3, actor="Mara", action="queue.pause", target="queue:knowledge-base-sync")
    await entries(dashboard, 2, actor="Jonas", action="source.sync", target="source:12", organization_id=1)
    await entries(dashboard, 1, actor="Jonas", action="source.sync", target="source:1", days_ago=10)
    person = await viewer(dashboard)
    today = (datetime.now(UTC) - timedelta(seconds=5)).date()
    for query, count in (
        ("actor=Jonas", 3),
        ("actor=jon", 0),
        ("action=queue.pause", 3),
        ("target=source:1", 1),
        ("target=source:", 3),
        ("target=source:1*", 3),
        ("target=sour%25", 0),
        ("organization=1", 2),
        ("organization=Acme", 2),
        ("organization=2", 0),
        ("actor=Jonas&organization=1", 2),
        (f"actor=Jonas&since={today - timedelta(days=2)}", 2),
        (f"actor=Jonas&until={today - timedelta(days=9)}", 1),
        (f"actor=Jonas&since={today - timedelta(days=12)}&until={today - timedelta(days=11)}", 0),
    ):
        _, text = await person.get(f"/audit?{query}")
        assert len(rows_in(text)) == count, query
        if not count:
            assert "No entry fits these filters." in text


async def test_a_filter_that_can_not_be_read_says_so_and_finds_nothing(dashboard: Dashboard) -> None:
    await entries(dashboard, 3)
    person = await viewer(dashboard)
    for query, said in (
        ("since=yesterday", "A date looks like"),
        ("until=9999-12-31", "A date looks like"),
        ("organization=Nobody", "There is no organization"),
    ):
        status, text = await person.get(f"/audit?{query}")
        assert status == 200
        assert said in text, query
        assert rows_in(text) == []
    for odd in (
        "organization=" + "9" * 18,
        "before=0-0",
        "before=x",
        "before=" + "9" * 16 + "-1",
        "target=%00",
        "actor=%ff",
    ):
        assert (await person.get(f"/audit?{odd}"))[0] == 200, odd


@pytest.mark.spec("OP-05")
async def test_pages_go_on_where_the_last_one_ended_while_entries_are_added(dashboard: Dashboard) -> None:
    person = await viewer(dashboard)
    await entries(dashboard, 2 * ROWS + 10, action="a.page")
    # One moment for several entries: their ids order them.
    await execute(
        dashboard.runtime.database,
        "update kbsync.audit_entries set at = date_trunc('minute', at) where action = 'a.page'",
    )
    seen: list[int] = []
    path, pages = "/audit?action=a.page", 0
    while path:
        _, text = await person.get(path)
        rows = rows_in(text)
        seen += [len(rows)]
        pages += 1
        if pages == 1:
            await entries(dashboard, 5, action="a.page", days_ago=-1)
        older = re.search(r'href="(/audit\?[^"]*before=[^"]*)" rel="next"', text)
        path = older[1].replace("&amp;", "&") if older else ""
    assert seen == [ROWS, ROWS, 10]


async def test_hostile_text_is_shown_as_text(dashboard: Dashboard) -> None:
    await an_organization(dashboard.runtime.database, 1, EVIL)
    await entries(
        dashboard, actor=EVIL, action=EVIL, target=EVIL, organization_id=1, reason=EVIL,
        detail='{"<script>alert(1)</script>": "<script>alert(1)</script>"}',
    )  # fmt: skip
    person = await viewer(dashboard)
    for path in ("/audit", "/audit?actor=%3Cscript%3Ealert(1)%3C/script%3E", "/audit?since=%22%3E%3Cscript%3Ealert(1)"):
        _, text = await person.get(path)
        assert "<script>alert" not in text, path
        assert "\u202e" not in text
        assert not re.search(r'="[^"]*"><script', text)


@pytest.mark.spec("OP-06")
async def test_the_audit_is_of_the_whole_fleet_so_nobody_of_one_organization_reads_it(dashboard: Dashboard) -> None:
    person = await dashboard.person(Role.ADMIN, organization_id=1)
    assert (await person.get("/audit"))[0] == 403
    reader = await dashboard.person(Role.READER)
    assert (await reader.get("/audit"))[0] == 403


@pytest.mark.spec("OP-05")
async def test_a_hundred_thousand_entries_are_never_read_as_a_whole(dashboard: Dashboard) -> None:
    database = dashboard.runtime.database
    await execute(
        database,
        "insert into kbsync.audit_entries (at, actor, action, target, organization_id) "
        "select now() - make_interval(secs => n), 'person-' || n % 20, 'thing.' || n % 12, 'source:' || n, n % 50 + 1 "
        "from generate_series(1, 100000) n",
    )
    await execute(
        database, "insert into kbsync.audit_entries (actor, action, target) values ('rare', 'rare.act', 'rare:1')"
    )
    await execute(database, "analyze kbsync.audit_entries")
    sql = Statements.beside(audit.__file__)
    nothing = ["null"] * 9
    async with database.direct() as connection:
        for place, value in ((None, ""), (0, "'rare'"), (1, "'rare.act'"), (2, "'rare:1'"), (4, "7"), (5, "now()")):
            given = list(nothing)
            if place is not None:
                given[place] = value
            plan = await _plan(connection, sql["entries_page"], [*given, "51"])
            assert "Seq Scan on audit_entries" not in plan, (place, plan)
        for name in ("known_actions", "known_actors"):
            plan = await _plan(connection, sql[name], ["100"])
            assert "Seq Scan on audit_entries" not in plan, plan
    async with database.fleet() as connection:
        assert len(await audit.actions(connection)) == 13
        assert len(await audit.page(connection, EntryFilter(actor="rare"), limit=51)) == 1
    person = await viewer(dashboard)
    _, text = await person.get("/audit?actor=person-3")
    assert len(rows_in(text)) == ROWS


async def _plan(connection: object, sql: str, arguments: list[str]) -> str:
    """The plan with these values, as a prepared statement has it in its first runs."""
    for number in range(len(arguments), 0, -1):
        sql = sql.replace(f"${number}", arguments[number - 1])
    rows = await connection.fetch(f"explain {sql}")  # type: ignore[attr-defined]
    return "\n".join(row[0] for row in rows)


# --- pure ----------------------------------------------------------------------------------------------------------


def entry(target: str = "source:1", **detail: object) -> Entry:
    return Entry(42, NOW, "Mara", "source.sync", target, None, None, None, detail)


def test_a_place_is_written_and_read_back_to_the_microsecond() -> None:
    assert cursor_of(cursor_text(entry())) == (NOW, 42)
    for text in ("", "x", "1", "1-", "-1", "1-2-3", "1-x", "9" * 30):
        assert cursor_of(text) is None


def test_targets_lead_to_their_pages_and_nowhere_else() -> None:
    for target, path in (
        ("source:12", "/sources/12"),
        ("queue:knowledge-base-sync", "/queues/knowledge-base-sync"),
        ("data_source:4", "/throttles?data_source=4"),
        ("flag:pause_api2_knowledge_base_sync", "/throttles#kill-switch"),
        ("source:../../evil", None),
        ("queue://evil.test", None),
        ("queue:a b", None),
        ("javascript:alert(1)", None),
        ("", None),
    ):
        assert link_of(entry(target)) == path, target


def test_details_are_words_and_bounded() -> None:
    many = {f"n{n}": n for n in range(100)}
    assert len(details_of(replace(entry(), detail=many))) == 12
    assert details_of(entry(a=[1, "x"], b=None, c=False, d="z" * 10_000)) == [
        ("a", "1, x"), ("c", "no"), ("d", "z" * 500)
    ]  # fmt: skip


async def test_what_was_written_is_what_is_read(dashboard: Dashboard) -> None:
    database = dashboard.runtime.database
    async with database.fleet() as connection:
        await audit.write(connection, actor="Mara", action="a.b", target="t:1", reason="why", detail={"n": 1})
        [one] = await audit.of_target(connection, "t:1")
    assert (one.actor, one.action, one.target, one.reason, one.detail) == ("Mara", "a.b", "t:1", "why", {"n": 1})
    assert one.at == await value_of(database, "select max(at) from kbsync.audit_entries")
