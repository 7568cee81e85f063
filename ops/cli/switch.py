"""The kill switch: `pause`, `resume` and what stands behind it (KS-03, KS-06)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from ops.cli.output import JSON_OPTION, print_json, printable

if TYPE_CHECKING:
    from kbsync.flags.kill_switch import KillSwitch, KillSwitchState, Pause
    from ops.cli.context import Connected

_ORGANIZATION = typer.Option(0, "--organization", help="Only this organization's id; without it, everybody.")


def add_to(app: typer.Typer) -> None:
    app.command()(pause)
    app.command()(resume)


def pause(
    reason: str = typer.Option("", help="Why; it stands in the audit and on every page of the dashboard."),
    organization: int = _ORGANIZATION,
    show: bool = typer.Option(False, "--show", help="Change nothing, show how the switch stands."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Turn the kill switch on: library units end as skipped (paused) and fetch nothing, until `kbsync resume`.

    Example: kbsync pause --reason "provider outage" --organization 3
    """
    from kbsync.domain.errors import SettingsError
    from ops.cli.context import run, who

    if not show and not reason.strip():
        raise SettingsError("say why: kbsync pause --reason '...'")

    async def change(here: Connected, switch: KillSwitch) -> None:
        if not show:
            await switch.pause(who(), reason, organization or None)

    run(lambda: _with_switch(change, as_json))


def resume(
    reason: str = typer.Option("resumed by hand", help="Why."),
    organization: int = _ORGANIZATION,
    redrive: bool = typer.Option(
        False, "--redrive", help="Ask again for what was skipped and for unfinished crawl URLs."
    ),
    as_json: bool = JSON_OPTION,
) -> None:
    """Turn the kill switch off. Skipped work stays skipped until the next tick, or now with --redrive."""
    from ops.cli.context import run, who

    async def change(here: Connected, switch: KillSwitch) -> None:
        await switch.resume(who(), reason, organization or None)
        if redrive:
            from kbsync.recovery.redrive import redrive as drive_again

            done = await drive_again(here.database, here.fleet, switch, settled_s=here.settings.flag_refresh_s)
            typer.echo(f"asked again for {done.requeued} units; a scan was asked for too", err=as_json)

    run(lambda: _with_switch(change, as_json))


async def _with_switch(change: Callable[[Connected, KillSwitch], Awaitable[None]], as_json: bool) -> None:
    from kbsync.flags.kill_switch import KillSwitch
    from ops.cli.context import connected
    from workers.runtime import flag_store

    async with connected() as here:
        switch = KillSwitch(flag_store(here.settings, here.database), here.database)
        await change(here, switch)
        state = await switch.describe()
    if as_json:
        print_json(asdict(state) | {"on": state.on})
        return
    for line in _lines(state):
        typer.echo(printable(line))


def _lines(state: KillSwitchState) -> Iterator[str]:
    if state.for_all:
        yield _pause_line("everybody is paused", state.for_all)
    for one in state.organizations:
        yield _pause_line(f"organization {one.organization_id} is paused", one)
    for gate in state.other_gates:
        yield f"some units are paused by {gate}"
    if not state.on:
        yield "the kill switch is off: nothing is paused"
    yield f"owner {state.owner}; purpose: {state.purpose}; review by {state.review_by}" + (
        " (overdue)" if state.overdue else ""
    )


def _pause_line(what: str, pause: Pause) -> str:
    since = f" since {pause.since:%Y-%m-%d %H:%M} UTC" if pause.since else ""
    by = f" by {pause.who}" if pause.who else " (outside kbsync)"
    return f"{what}{since}{by}" + (f": {pause.why}" if pause.why else "")
