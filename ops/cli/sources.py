"""`kbsync source`: what is synced."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

import typer

from ops.cli.output import JSON_OPTION, print_json, print_rows, printable

if TYPE_CHECKING:
    from kbsync.db.pool import Connection
    from kbsync.library.sources import SourceRow

group = typer.Typer(help="Add, check, list, sync, edit and remove sources.", no_args_is_help=True)
ORGANIZATION = typer.Option(..., "--organization", help="The organization's id.")

_SYNC_WORDS = {
    "created": "sync requested",
    "replaced": "sync requested",
    "already_queued": "its sync was in line already",
}


@group.command("list")
def list_(organization: int = ORGANIZATION, as_json: bool = JSON_OPTION) -> None:
    """An organization's sources and how they stand."""
    from kbsync.library import source_setup, sources
    from ops.cli.context import connected, run

    async def rows() -> list[dict[str, object]]:
        async with connected() as here, here.database.organization(organization) as connection:
            disabled = await source_setup.disabled_ids(connection, organization)
            return [
                {
                    "id": one.id,
                    "type": one.type,
                    "name": one.name,
                    "status": "disabled" if one.id in disabled else one.sync_status,
                    "documents": one.counts.get("documents"),
                    "unreadable": one.counts.get("unreadable"),
                    "held": one.held_removal.get("count") if one.held_removal else None,
                    "last synced": one.last_synced_at and f"{one.last_synced_at:%Y-%m-%d %H:%M}",
                    "error": one.sync_error,
                }
                for one in await sources.kept(connection, organization)
            ]

    print_rows(run(rows), as_json=as_json, empty="no sources")


@group.command("sync")
def sync_(
    source_id: int = typer.Argument(help="The source's id."),
    organization: int = ORGANIZATION,
    dry_run: bool = typer.Option(False, "--dry-run", help="Show what would come, change and go, and sync nothing."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Sync a source now, or with --dry-run look what that would do."""
    from kbsync.domain.errors import SettingsError
    from kbsync.domain.requests import SyncSource
    from kbsync.library import source_setup
    from ops.cli.context import connected, enqueue_by_hand, run
    from ops.cli.source_add import preview_of
    from ops.cli.source_shown import print_preview

    async def look() -> dict[str, object]:
        async with connected() as here:
            return (await preview_of(here, organization, source_id)).as_json()

    async def ask() -> dict[str, object]:
        async with connected() as here:
            async with here.database.organization(organization) as connection:
                now = await source_setup.schedule(connection, organization, source_id)
            if now is not None and now.disabled_at is not None:
                raise SettingsError(
                    f"source {source_id} is disabled: kbsync source enable {source_id} --organization {organization}"
                )
            request = SyncSource(organization_id=organization, source_id=source_id)
            return {"source_id": source_id, "outcome": str((await enqueue_by_hand(here, [request]))[0].outcome)}

    done = run(look if dry_run else ask)
    if as_json:
        print_json(done)
    elif dry_run:
        print_preview(done)
    else:
        typer.echo(f"source {source_id}: {_SYNC_WORDS.get(str(done['outcome']), done['outcome'])}")
        typer.echo(f"next: kbsync source runs {source_id} --organization {organization}")


@group.command()
def show(
    source_id: int = typer.Argument(help="The source's id."),
    organization: int = ORGANIZATION,
    as_json: bool = JSON_OPTION,
) -> None:
    """One source: its setup, how it stands, its limits, and which removal waits for a second look and why."""
    from kbsync.library import data_sources, source_setup
    from ops.cli.context import connected, run
    from ops.intervals import written

    async def look() -> dict[str, object]:
        async with connected() as here, here.database.organization(organization) as connection:
            source = await kept_source(connection, organization, source_id)
            now = await source_setup.schedule(connection, organization, source_id)
            connection_row = (
                await data_sources.get(connection, organization, source.data_source_id)
                if source.data_source_id
                else None
            )
            return {
                "id": source.id,
                "type": source.type,
                "name": source.name,
                "config": dict(source.config),
                "status": source.sync_status,
                "error": source.sync_error,
                "last_synced_at": source.last_synced_at,
                "counts": dict(source.counts),
                "held_removal": source.held_removal,
                "disabled_at": now.disabled_at if now else None,
                "daily_tick": now.daily_tick if now else None,
                "every": written(now.sync_every_s) if now and now.sync_every_s else None,
                "credentials_refused_at": connection_row.refused_at if connection_row else None,
                "limits": dict(connection_row.limits) if connection_row else {},
                "has_credentials": bool(connection_row and connection_row.sealed_credentials),
            }

    found = run(look)
    if as_json:
        print_json(found)
        return
    for name, value in found.items():
        lines = _readable(value) or ["-"]
        typer.echo(f"{name:22} {printable(lines[0])}")
        for line in lines[1:]:
            typer.echo(f"{'':22} {printable(line)}")
    if found["held_removal"]:
        typer.echo(f"next: kbsync source approve-removal {source_id} --organization {organization}")


def _readable(value: object) -> list[str]:
    """A value of `show`, a line for each part."""
    match value:
        case None:
            return []
        case bool():
            return ["yes" if value else "no"]
        case datetime():
            return [f"{value:%Y-%m-%d %H:%M:%S} UTC"]
        case Mapping():
            return [f"{key}: {', '.join(_readable(inner))}" for key, inner in value.items()]
        case list() | tuple():
            return [", ".join(", ".join(_readable(one)) for one in value)]
    return [str(value)]


@group.command("approve-removal")
def approve_removal(source_id: int = typer.Argument(help="The source's id."), organization: int = ORGANIZATION) -> None:
    """Let the held removal of a source happen with its next complete sync, and ask for that sync.

    `kbsync source show` says what would go and why it was held.
    """
    from kbsync.domain.errors import SettingsError
    from kbsync.domain.requests import SyncSource
    from kbsync.library import sources
    from ops.cli.context import audited, connected, enqueue_by_hand, run

    async def approve() -> None:
        async with connected() as here:
            async with here.database.organization(organization) as connection:
                await kept_source(connection, organization, source_id)
                if not await sources.approve_removal(connection, organization, source_id):
                    raise SettingsError(f"source {source_id} holds no removal back")
                await audited(connection, "source.approve_removal", f"source:{source_id}", organization_id=organization)
            await enqueue_by_hand(here, [SyncSource(organization_id=organization, source_id=source_id)])

    run(approve)
    typer.echo(f"source {source_id}: its removal is approved and a sync was asked for")


@group.command()
def limits(
    source_id: int = typer.Argument(help="The source's id."),
    organization: int = ORGANIZATION,
    source_sync: str = typer.Option("", help="Lists of this source: COUNT/SECONDS, for example 4/60."),
    document_sync: str = typer.Option("", help="Documents of this source: COUNT/SECONDS."),
    reset: bool = typer.Option(False, "--reset", help="Back to the provider's defaults."),
) -> None:
    """Override the throttle of a source's connection (a bigger plan). Jobs that wait for a slot ask again at once (RL-07).

    Example: kbsync source limits 7 --organization 1 --document-sync 120/60
    """
    from kbsync.domain.errors import SettingsError
    from kbsync.library import data_sources
    from ops.cli.context import audited, connected, run
    from ops.waiting import ask_again
    from ratelimits.limits import parse_overrides

    wanted = {
        kind: _limit(text) for kind, text in (("source_sync", source_sync), ("document_sync", document_sync)) if text
    }
    parse_overrides(wanted)
    if bool(wanted) == reset:
        raise SettingsError("give --source-sync or --document-sync, or --reset")

    async def change() -> tuple[dict[str, object], int]:
        async with connected() as here:
            async with here.database.organization(organization) as connection:
                source = await kept_source(connection, organization, source_id)
                if source.data_source_id is None:
                    raise SettingsError(f"source {source_id} has no connection whose limits could be set")
                known = await data_sources.get(connection, organization, source.data_source_id)
                new: dict[str, object] = {} if reset else {**(known.limits if known else {}), **wanted}
                await data_sources.set_limits(connection, organization, source.data_source_id, new)
                await audited(
                    connection,
                    "source.limits",
                    f"source:{source_id}",
                    organization_id=organization,
                    detail={"limits": new},
                )
            return new, await ask_again(here.fleet, organization, source.type)

    now, asking = run(change)
    typer.echo(f"source {source_id}: {'; '.join(_readable(now)) or 'defaults of the provider'}")
    if asking:
        typer.echo(f"{asking} jobs that waited for a slot ask again now")


def _limit(text: str) -> dict[str, object]:
    from kbsync.domain.errors import SettingsError

    count, _, seconds = text.partition("/")
    try:
        return {"count": int(count), "window_s": float(seconds)}
    except ValueError:
        raise SettingsError(f"{text!r} is no limit: write COUNT/SECONDS, for example 4/60") from None


async def kept_source(connection: Connection, organization: int, source_id: int) -> SourceRow:
    """Raises SettingsError when there is none."""
    from kbsync.domain.errors import SettingsError
    from kbsync.library import sources

    source = await sources.get(connection, organization, source_id)
    if source is None:
        raise SettingsError(f"organization {organization} has no source {source_id}")
    return source
