"""Looking at production: `observe`, one question a look, and `doctor`, everything that must hold (OP-09, OP-16)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TYPE_CHECKING

import typer

from ops.cli.output import JSON_OPTION, print_json, print_rows, printable

if TYPE_CHECKING:
    from kbsync.flags.kill_switch import KillSwitch
    from ops.cli.context import Connected
    from ops.observe import Look

observe = typer.Typer(
    help="Look at production: each look says pass or fail, and exits 1 when something failed.", no_args_is_help=True
)

_SINCE = typer.Option(..., "--since", help="A time in UTC, such as 2026-09-09T10:00 (the deploy, say).")


def add_to(app: typer.Typer) -> None:
    app.add_typer(observe, name="observe")
    app.command()(doctor)


@observe.command("throttle-storm")
def throttle_storm(
    hours: int = typer.Option(12, min=1, max=2_160, help="Whole hours to look back over."), as_json: bool = JSON_OPTION
) -> None:
    """Executions against unique jobs, by kind. Throttles delay and never fail a job, so throttle_failures is 0.

    Example: kbsync observe throttle-storm --hours 12
    """
    from ops.observe import throttle_storm

    _look(lambda here: throttle_storm(here.database, hours), as_json)


@observe.command("chunk-backlog")
def chunk_backlog(as_json: bool = JSON_OPTION) -> None:
    """Kept documents with content and no chunks (intercom's only where the source opted in), by organization."""
    from ops.observe import chunk_backlog

    _look(lambda here: chunk_backlog(here.database), as_json)


@observe.command("stale-sources")
def stale_sources(as_json: bool = JSON_OPTION) -> None:
    """Sources (not intercom) that failed or were not synced for 2 days, never synced ones first, 50 at most."""
    from ops.observe import stale_sources

    _look(lambda here: stale_sources(here.database), as_json)


@observe.command("legacy-jobs")
def legacy_jobs(since: str = _SINCE, as_json: bool = JSON_OPTION) -> None:
    """New rows of the producer app's six job classes, where its table is in this database. None is what should be.

    Example: kbsync observe legacy-jobs --since 2026-09-09T10:00
    """
    from ops.observe import legacy_jobs

    at = _time(since)
    _look(lambda here: legacy_jobs(here.database, at), as_json)


@observe.command("after-cutover")
def after_cutover(since: str = _SINCE, as_json: bool = JSON_OPTION) -> None:
    """What is expected after the cutover, each with pass, fail or not known.

    Example: kbsync observe after-cutover --since 2026-09-09T10:00
    """
    from ops.cutover import after_cutover

    at = _time(since)
    _look(lambda here: after_cutover(here.database, here.fleet, _switch(here), at), as_json)


@observe.command("bake")
def bake(as_json: bool = JSON_OPTION) -> None:
    """The gates of a bake: today's daily scan, then 24 clean hours, each with pass, fail or not known."""
    from ops.cutover import bake

    _look(lambda here: bake(here.database, _switch(here)), as_json)


def doctor(
    strict: bool = typer.Option(False, "--strict", help="Exit 1 for warnings too."), as_json: bool = JSON_OPTION
) -> None:
    """Check settings, servers, clocks and the invariants of every ledger. Each finding comes with its cure.

    Exit code 0: clean; 1: findings. Changes nothing.

    Example: kbsync doctor --strict
    """
    from ops.cli.context import run, settings_here
    from ops.doctor import examine
    from ops.findings import Severity

    findings = run(lambda: examine(settings_here))
    counted = [
        one for one in findings if one.severity is Severity.ERROR or (strict and one.severity is Severity.WARNING)
    ]
    if as_json:
        print_json([one.as_json() for one in findings])
    for one in findings if not as_json else ():
        typer.echo(printable(f"{one.severity}: {one.check}: {one.what}\n    cure: {one.cure}"))
    if not findings and not as_json:
        typer.echo("clean: settings, servers, clocks and ledgers are as they should be")
    if counted:
        raise typer.Exit(1)


def _look(look: Callable[[Connected], Awaitable[Look]], as_json: bool) -> None:
    from ops.cli.context import connected, run

    async def main() -> Look:
        async with connected() as here:
            return await look(here)

    seen = run(main)
    print_rows(seen.rows, as_json=as_json, empty=seen.empty)
    if seen.note and not as_json and seen.rows:
        typer.echo(f"({seen.note})", err=True)
    if seen.failed:
        raise typer.Exit(1)


def _switch(here: Connected) -> KillSwitch:
    from kbsync.flags.kill_switch import KillSwitch
    from workers.runtime import flag_store

    return KillSwitch(flag_store(here.settings, here.database), here.database)


def _time(text: str) -> datetime:
    """A time without a zone is UTC. Raises SettingsError."""
    from datetime import UTC

    from kbsync.domain.errors import SettingsError

    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise SettingsError(f"no time {text!r}: write it as 2026-09-09T10:00 (UTC)") from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)
