"""The kill switch at the dashboard: on for everybody or one organization with a reason, off with or without a re-drive,
what either will do in numbers, and who did it before (KS-03, KS-06)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kbsync.dashboard.ask import Access, ActionRefused, Ask, Done
from kbsync.dashboard.knowledge import is_stream
from kbsync.dashboard.page import Action
from kbsync.dashboard.words import count, plain_number
from kbsync.db.pool import Connection
from kbsync.domain.errors import FlagStoreUnavailable, KbsyncError
from kbsync.domain.ids import QueueName
from kbsync.domain.text import storable
from kbsync.flags.kill_switch import AUDIT_TARGET, PAUSE_FLAG, PAUSED, KillSwitchState
from kbsync.library import audit, finding, organizations
from kbsync.library.audit import Entry
from kbsync.library.paused_work import MOST_COUNTED, PausedWork, to_redrive
from kbsync.queue.fleet import unavailable_if_redis_fails
from kbsync.recovery.redrive import Redriven, redrive
from kbsync.telemetry import log

HERE = "/throttles#kill-switch"
REDRIVEN = "kill_switch.redrive"
# A target of its own: the newest entry of the flag's says who switched it.
REDRIVE_TARGET = f"{AUDIT_TARGET}:redrive"
MOST_WHY = 200
HISTORY = 8
OFF_SHEETS = 20
ORGANIZATIONS_LISTED = 100
WAIT_S = 15.0  # for a re-drive, before its page says that it goes on

_running: set[asyncio.Task[Redriven | None]] = set()


@dataclass(frozen=True)
class OffSheet:
    """What turning off would do: for everybody (`organization_id` None) or for one organization."""

    organization_id: int | None
    who: str
    work: PausedWork
    others: int  # single organizations that go on as well

    @property
    def key(self) -> str:
        return str(self.organization_id or "all")

    @property
    def says(self) -> str:
        """What a re-drive asks for."""
        if self.work.nothing:
            return "Runs the daily scan. Nothing was skipped and no crawl is unfinished."
        counts = (
            (self.work.skipped, "skipped unit", "skipped units"),
            (self.work.urls, "unfinished crawl URL", "unfinished crawl URLs"),
            (self.work.crawls, "crawl that never began", "crawls that never began"),
        )
        *first, last = [f"{_at_least(many)} {one if many == 1 else more}" for many, one, more in counts if many]
        named = f"{', '.join(first)} and {last}" if first else last
        return f"Runs the daily scan, then asks for {named} again. Throttles apply."


def _at_least(many: int) -> str:
    return f"at least {plain_number(many)}" if many >= MOST_COUNTED else plain_number(many)


async def switch_context(ask: Ask) -> Mapping[str, Any]:
    """What the kill switch's panel and sheets show; nothing for a stream, which does not carry them."""
    if is_stream(ask):
        return {}
    try:
        state: KillSwitchState | None = await ask.services.kill_switch.describe()
    except FlagStoreUnavailable:
        state = None
    waiting, delayed, active = await _queued(ask)
    async with ask.services.database.fleet() as connection:
        history = await audit.of_target(connection, AUDIT_TARGET, HISTORY)
        history += await audit.of_target(connection, REDRIVE_TARGET, HISTORY)
        known = await finding.organizations(connection, None, "", ORGANIZATIONS_LISTED + 1)
        sheets = await _off_sheets(connection, state) if state is not None else []
    return {
        "switch": state,
        "flag": PAUSE_FLAG,
        "off_sheets": sheets,
        "history": sorted(history, key=lambda entry: entry.at, reverse=True)[:HISTORY],
        "history_words": history_words,
        "organizations": sorted(known, key=lambda one: one.name) if len(known) <= ORGANIZATIONS_LISTED else [],
        "on_says": on_says(waiting, delayed, active),
    }


def on_says(waiting: int, delayed: int, active: int) -> str:
    """What turning on would meet now."""
    coming = waiting + delayed
    if not coming and not active:
        return "No job is queued now. Each that comes up ends as skipped: nothing is fetched, nothing is written."
    queued = f"{count(waiting, 'job waits', 'jobs wait')} and {delayed:,} {'is' if delayed == 1 else 'are'} delayed now"
    runs = (
        f" The {count(active, 'job')} that {'runs' if active == 1 else 'run'} now go on to the end." if active else ""
    )
    return f"{queued}: each of a paused organization that comes up ends as skipped.{runs}"


def history_words(entry: Entry) -> str:
    """One entry as a sentence without its end: what, for whom, by whom."""
    whom = entry.organization or (f"organization {entry.organization_id}" if entry.organization_id else "everybody")
    if entry.action == REDRIVEN:
        many = entry.detail.get("requeued")
        return f"Asked again for {count(many, 'unit') if isinstance(many, int) else 'units'}, {entry.actor}"
    return f"{'On' if entry.action == PAUSED else 'Off'} for {whom}, {entry.actor}"


async def _queued(ask: Ask) -> tuple[int, int, int]:
    waiting = delayed = active = 0
    for name in QueueName:
        async with unavailable_if_redis_fails(name):
            counts = await ask.services.fleet.queue(name).counts()
        waiting, delayed, active = waiting + counts.waiting, delayed + counts.delayed, active + counts.active
    return waiting, delayed, active


async def _off_sheets(connection: Connection, state: KillSwitchState) -> list[OffSheet]:
    paused = [pause.organization_id for pause in state.organizations if pause.organization_id is not None]
    if state.for_all is not None or state.other_gates:
        work = await to_redrive(connection, [])
        return [OffSheet(None, "every organization", work, len(paused))]
    names = await organizations.names_of(connection, paused[:OFF_SHEETS])
    sheets = []
    for one in paused[:OFF_SHEETS]:
        work = await to_redrive(connection, [other for other in paused if other != one])
        sheets.append(OffSheet(one, names.get(one, f"organization {one}"), work, 0))
    if len(paused) > 1:
        sheets.append(OffSheet(None, "every organization", await to_redrive(connection, []), len(paused)))
    return sheets


async def turn_on(ask: Ask) -> Done:
    """From now on units of everybody, or of one organization, end as skipped. Audited with its reason by the switch."""
    why = _why(ask)
    if not why:
        raise ActionRefused("Say why: it is shown on every page while the switch is on. Nothing was changed.", HERE)
    match ask.form.get("scope"):
        case "all":
            organization_id, who = None, "every organization"
        case "one":
            organization_id, who = await _organization(ask)
        case _:
            raise ActionRefused("Say for whom: every organization, or one. Nothing was changed.", HERE)
    await ask.services.kill_switch.pause(ask.principal.name, why, organization_id)
    return Done(f"The kill switch is on for {who}. Within 1 s, library jobs that come up end as skipped.", HERE)


async def turn_off(ask: Ask) -> Done:
    """The flag off, for everybody or one organization; with `redrive` what was skipped is asked for again (KS-03)."""
    organization_id, who = (None, "every organization")
    if ask.form.get("organization"):
        organization_id, who = await _organization(ask)
    before = await ask.services.kill_switch.describe()
    if not is_on_for(before, organization_id):
        raise ActionRefused(f"The kill switch was off for {who} already: nothing was changed.", HERE)
    why = _why(ask) or "turned off at the dashboard"
    await ask.services.kill_switch.resume(ask.principal.name, why, organization_id)
    said = f"The kill switch is off for {who}."
    if before.for_all is not None and organization_id is not None:
        return Done(f"{said} It stays on for everybody, {who} too: turn that off as well.", HERE)
    if ask.form.get("redrive") != "yes":
        return Done(
            f"{said} Skipped jobs don’t come back by themselves: the next daily scan drives the work again.", HERE
        )
    task = asyncio.create_task(_redrive(ask, organization_id))
    _running.add(task)
    task.add_done_callback(_running.discard)
    await asyncio.wait({task}, timeout=WAIT_S)
    if not task.done():
        return Done(f"{said} What was skipped is being asked for again; the history says when that is done.", HERE)
    done = task.result()
    if done is None:
        raise ActionRefused(f"{said} Asking again for what was skipped stopped half-way: do it with kbsync tick.", HERE)
    units = count(done.requeued, "unit")
    refused = f" {count(done.refused, 'stored request')} can’t be run by this version." if done.refused else ""
    return Done(f"{said} The daily scan and {units} were asked for again.{refused}", HERE)


def is_on_for(state: KillSwitchState, organization_id: int | None) -> bool:
    """Whether turning off for this one (None: altogether) would change anything."""
    if organization_id is None:
        return state.on
    return any(pause.organization_id == organization_id for pause in state.organizations)


async def _redrive(ask: Ask, organization_id: int | None) -> Redriven | None:
    """None: a server went away half-way; what was asked for until then stands, and once more is safe."""
    services = ask.services
    try:
        done = await redrive(
            services.database, services.enqueuer, services.kill_switch, settled_s=services.settings.flag_refresh_s
        )
        async with services.database.fleet() as connection:
            await audit.write(
                connection,
                actor=ask.principal.name,
                action=REDRIVEN,
                target=REDRIVE_TARGET,
                organization_id=organization_id,
                detail={"requeued": done.requeued, "live": done.live, "refused": done.refused},
            )
    except KbsyncError as error:
        log.warning("redrive_stopped", error=str(error))
        return None
    return done


def _why(ask: Ask) -> str:
    """One line, as Postgres and every page can keep it."""
    return " ".join(storable(ask.form.get("why", "")).split())[:MOST_WHY]


async def _organization(ask: Ask) -> tuple[int, str]:
    """By id, or by its exact name."""
    text = storable(ask.form.get("organization", "").strip()[:500])
    async with ask.services.database.fleet() as connection:
        if text.isascii() and text.isdigit() and len(text) <= 18:
            row = await organizations.get(connection, int(text))
            if row is not None:
                return row.id, row.name
        found = await organizations.named(connection, text) if text else None
    if found is None:
        raise ActionRefused("There is no organization of this id or name. Nothing was changed.", HERE)
    return found, text


ACTIONS = (
    Action("/kill-switch/on", turn_on, Access.ACT),
    Action("/kill-switch/off", turn_off, Access.ACT),
)
