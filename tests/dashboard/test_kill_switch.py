"""The kill switch at the dashboard: who, why, for whom; off with and without a re-drive; on every page (KS-03, KS-06)."""

from __future__ import annotations

import pytest

from kbsync.dashboard.pages.kill_switch import OffSheet, history_words, on_says
from kbsync.domain.ids import QueueName
from kbsync.domain.states import JobState
from kbsync.flags.kill_switch import PAUSE_FLAG
from kbsync.library.audit import Entry
from kbsync.library.paused_work import MOST_COUNTED, PausedWork
from kbsync.library.principals import Role
from kbsync.recovery import redrive as redriving
from tests.dashboard.conftest import Dashboard
from tests.dashboard.looking import EVIL, an_organization, execute, value_of

SYNC, CHUNKS = QueueName.SYNC, QueueName.CHUNKS
ON = {"scope": "all", "why": "Rotating the tokens, OPS-2231"}


async def skipped_units(dashboard: Dashboard, organization_id: int, *document_ids: int) -> None:
    for id in document_ids:
        await execute(
            dashboard.runtime.database,
            "insert into kbsync.unit_requests (job_id, organization_id, kind, request, requested_at, ended_at, ended_as) "
            "values ('kb-document-sync-' || $2::bigint, $1, 'sync_document', jsonb_build_object('type', 'sync_document', "
            "'organization_id', $1::bigint, 'document_id', $2::bigint), now() - interval '1 minute', now(), 'skipped')",
            organization_id,
            id,
        )


async def waiting_ids(dashboard: Dashboard) -> set[str]:
    page = await dashboard.fleet.queue(SYNC).page(JobState.WAITING)
    return {job.job_id for job in page.jobs}


async def gates(dashboard: Dashboard) -> set[tuple[str, str]]:
    async with dashboard.runtime.database.direct() as connection:
        rows = await connection.fetch("select key, value from flipper_gates where feature_key = $1", PAUSE_FLAG)
    return {(row["key"], row["value"]) for row in rows}


@pytest.mark.spec("KS-06", "OP-06")
async def test_on_for_everybody_says_who_and_why_on_every_page(dashboard: Dashboard) -> None:
    person = await dashboard.person(Role.OPERATOR, Role.READER, name="Mara Lindqvist")
    viewer = await dashboard.person(Role.VIEWER)
    _, text = await person.post("/kill-switch/on", ON)
    assert "The kill switch is on for every organization. Within 1 s, library jobs that come up end as skipped." in text
    assert await gates(dashboard) == {("boolean", "true")}
    assert await dashboard.runtime.kill_switch.paused(7)
    assert await dashboard.audit() == [("Mara Lindqvist", "kill_switch.pause", f"flag:{PAUSE_FLAG}")]
    await skipped_units(dashboard, 1, *range(1, 4))
    for path in ("/", "/throttles", "/queues", "/audit", "/sources", "/settings", "/find", "/nowhere"):
        _, text = await viewer.get(path)
        for words in (
            "The kill switch is on for <bdi>every organization</bdi>",
            "by <bdi>Mara Lindqvist</bdi>",
            "Rotating the tokens, OPS-2231",
            "nothing is fetched, nothing is written",
            "3 so far",
            "Kill switch <strong>on</strong>",
        ):
            assert words in text, (path, words)
        assert "Turn off" not in text, path  # a viewer sees no actions


@pytest.mark.spec("KS-06")
async def test_on_for_one_organization_leaves_the_others_running(dashboard: Dashboard) -> None:
    for id, name in ((1, "Acme"), (2, EVIL)):
        await an_organization(dashboard.runtime.database, id, name)
    person = await dashboard.person(Role.OPERATOR)
    for given in ("2", EVIL):  # by id or by its exact name
        _, text = await person.post("/kill-switch/on", scope="one", organization=given, why="Moving")
        assert "The kill switch is on for" in text
    assert await gates(dashboard) == {("actors", "Organization;2")}
    switch = dashboard.runtime.kill_switch
    assert (await switch.paused(2), await switch.paused(1), await switch.paused(None)) == (True, False, False)
    _, text = await person.get("/settings")
    assert "Every other organization runs." in text
    assert "<script>alert" not in text
    assert "U+202E" in text


@pytest.mark.spec("KS-06", "OP-06")
@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"scope": "all", "why": "  "}, "Say why"),
        ({"scope": "all"}, "Say why"),
        ({"scope": "all", "why": "\0"}, "Say why"),
        ({"why": "Because"}, "Say for whom"),
        ({"scope": "some", "why": "Because"}, "Say for whom"),
        ({"scope": "one", "why": "Because"}, "There is no organization of this id or name."),
        ({"scope": "one", "organization": "\0", "why": "Because"}, "There is no organization of this id or name."),
        ({"scope": "one", "organization": "99", "why": "Because"}, "There is no organization of this id or name."),
        ({"scope": "one", "organization": "9" * 40, "why": "Because"}, "There is no organization of this id or name."),
    ],
)
async def test_without_a_reason_and_a_whom_nothing_is_paused(
    dashboard: Dashboard, form: dict[str, str], said: str
) -> None:
    person = await dashboard.person(Role.OPERATOR)
    _, text = await person.post("/kill-switch/on", form)
    assert said in text
    assert await gates(dashboard) == set()
    assert await dashboard.audit() == []


@pytest.mark.spec("KS-03", "OP-06")
async def test_turning_off_alone_asks_for_nothing(dashboard: Dashboard) -> None:
    await skipped_units(dashboard, 1, 1, 2)
    person = await dashboard.person(Role.OPERATOR, name="Priya Raman")
    await person.post("/kill-switch/on", ON)
    _, text = await person.get("/throttles")
    assert "asks for 2 skipped units again. Throttles apply." in text
    _, text = await person.post("/kill-switch/off", redrive="no")
    assert "The kill switch is off for every organization. Skipped jobs don’t come back by themselves" in text
    assert await gates(dashboard) == set()
    assert await waiting_ids(dashboard) == set()
    assert [entry[1] for entry in await dashboard.audit()] == ["kill_switch.pause", "kill_switch.resume"]
    _, text = await person.post("/kill-switch/off", redrive="no")
    assert "was off for every organization already: nothing was changed." in text


@pytest.mark.spec("KS-03", "KS-06")
async def test_turning_off_with_a_redrive_asks_again_for_all_that_was_skipped(dashboard: Dashboard) -> None:
    database = dashboard.runtime.database
    for id, name in ((1, "Acme"), (2, "Globex")):
        await an_organization(database, id, name)
    await skipped_units(dashboard, 1, 1, 2)
    await execute(
        database,
        "insert into knowledge_base_crawl_tasks (id, organization_id, start_url, status, urls_pending, urls_found) "
        "values (4, 1, 'https://docs.example/', 'running', 1, 1), (5, 1, 'https://new.example/', 'pending', 0, 0)",
    )
    await execute(
        database,
        "insert into kbsync.crawl_task_urls (organization_id, crawl_task_id, url, url_key, fetch_url, depth) "
        "values (1, 4, 'https://docs.example/', repeat('a', 64), 'https://docs.example/', 0)",
    )
    person = await dashboard.person(Role.OPERATOR, name="Priya Raman")
    await person.post("/kill-switch/on", ON)
    _, text = await person.get("/throttles")
    said = "asks for 2 skipped units, 1 unfinished crawl URL and 1 crawl that never began again. Throttles apply."
    assert said in text
    _, text = await person.post("/kill-switch/off", redrive="yes", why="The tokens are new")
    assert "The daily scan and 4 units were asked for again." in text
    found = await waiting_ids(dashboard)
    assert {"kb-document-sync-1", "kb-document-sync-2", "kb-crawl-start-5"} <= found
    assert len([id for id in found if id.startswith("kb-crawl-url-4-")]) == 1
    assert len([id for id in found if id.startswith("kb-scan-manual-")]) == 1
    assert len(found) == 5
    assert [entry[1] for entry in await dashboard.audit()] == [
        "kill_switch.pause", "kill_switch.resume", "kill_switch.redrive"
    ]  # fmt: skip
    _, text = await person.get("/throttles")
    assert "Asked again for 4 units, Priya Raman" in text
    assert "The tokens are new" in text


@pytest.mark.spec("KS-03")
async def test_one_organization_goes_on_while_the_others_stay_paused(dashboard: Dashboard) -> None:
    for id, name in ((1, "Acme"), (2, "Globex")):
        await an_organization(dashboard.runtime.database, id, name)
    await skipped_units(dashboard, 1, 1)
    await skipped_units(dashboard, 2, 2, 3)
    person = await dashboard.person(Role.OPERATOR)
    for one in ("1", "2"):
        await person.post("/kill-switch/on", scope="one", organization=one, why="Moving")
    _, text = await person.get("/throttles")
    assert "asks for 1 skipped unit again" in text
    assert "asks for 2 skipped units again" in text
    _, text = await person.post("/kill-switch/off", organization="1", redrive="yes")
    assert "The kill switch is off for Acme. The daily scan and 1 unit were asked for again." in text
    assert await gates(dashboard) == {("actors", "Organization;2")}
    assert "kb-document-sync-1" in await waiting_ids(dashboard)
    assert "kb-document-sync-2" not in await waiting_ids(dashboard)


@pytest.mark.spec("KS-01", "KS-03")
async def test_a_redrive_waits_until_no_worker_can_still_believe_in_the_pause(
    dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        assert await waiting_ids(dashboard) == set()

    await skipped_units(dashboard, 1, 1)
    person = await dashboard.person(Role.OPERATOR)
    await person.post("/kill-switch/on", ON)
    monkeypatch.setattr(redriving, "sleep", sleep)
    await person.post("/kill-switch/off", redrive="yes")
    assert slept == [dashboard.runtime.settings.flag_refresh_s]
    assert "kb-document-sync-1" in await waiting_ids(dashboard)


@pytest.mark.spec("OP-06")
async def test_only_who_may_act_on_the_whole_fleet_switches(dashboard: Dashboard) -> None:
    await an_organization(dashboard.runtime.database, 1, "Acme")
    for person in (
        await dashboard.person(Role.VIEWER),
        await dashboard.person(Role.READER),
        await dashboard.person(Role.OPERATOR, organization_id=1),
    ):
        assert (await person.post("/kill-switch/on", ON))[0] == 403, person.name
        assert (await person.post("/kill-switch/off", redrive="yes"))[0] == 403, person.name
    assert await gates(dashboard) == set()
    assert await dashboard.audit() == []


async def test_who_belongs_to_one_organization_hears_of_its_own_pause_alone(dashboard: Dashboard) -> None:
    for id, name in ((1, "Acme"), (2, "Globex")):
        await an_organization(dashboard.runtime.database, id, name)
    operator = await dashboard.person(Role.OPERATOR)
    theirs = await dashboard.person(Role.VIEWER, organization_id=1)
    await operator.post("/kill-switch/on", scope="one", organization="2", why="Moving")
    assert "Globex" not in (await theirs.get("/sources"))[1]
    await operator.post("/kill-switch/on", scope="one", organization="1", why="Moving too")
    assert "The kill switch is on for <bdi>Acme</bdi>" in (await theirs.get("/sources"))[1]


# --- words, pure ---------------------------------------------------------------------------------------------------


@pytest.mark.spec("OP-06")
def test_the_sheets_say_what_will_happen_in_numbers() -> None:
    assert on_says(0, 0, 0).startswith("No job is queued now.")
    assert on_says(12, 1, 2) == (
        "12 jobs wait and 1 is delayed now: each of a paused organization that comes up ends as skipped. "
        "The 2 jobs that run now go on to the end."
    )
    nothing = OffSheet(None, "every organization", PausedWork(0, 0, 0), 0)
    assert nothing.says == "Runs the daily scan. Nothing was skipped and no crawl is unfinished."
    much = OffSheet(None, "every organization", PausedWork(MOST_COUNTED, 1, 0), 0)
    assert much.says == (
        "Runs the daily scan, then asks for at least 100,000 skipped units and 1 unfinished crawl URL again. Throttles apply."
    )


async def test_the_history_reads_as_sentences(dashboard: Dashboard) -> None:
    now = await value_of(dashboard.runtime.database, "select now()")

    def entry(action: str, organization: str | None = None, **detail: object) -> Entry:
        id = None if organization is None else 2
        return Entry(1, now, "Mara Lindqvist", action, "flag:x", id, organization, None, detail)

    assert history_words(entry("kill_switch.pause")) == "On for everybody, Mara Lindqvist"
    assert history_words(entry("kill_switch.resume", "Acme")) == "Off for Acme, Mara Lindqvist"
    assert history_words(entry("kill_switch.redrive", requeued=4_410)) == "Asked again for 4,410 units, Mara Lindqvist"
