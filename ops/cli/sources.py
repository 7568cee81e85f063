"""`kbsync source`: what is synced."""

from __future__ import annotations

from pathlib import Path

import typer

from ops.cli.output import JSON_OPTION, print_json, print_rows

group = typer.Typer(help="Add, list and sync sources.", no_args_is_help=True)
ORGANIZATION = typer.Option(..., "--organization", help="The organization's id.")
_INCLUDE = typer.Option(
    [],
    "--include",
    help="Only URLs below this path (website) or files like this pattern (files); may be given several times.",
)
_EXCLUDE = typer.Option([], "--exclude", help="The same, left out; may be given several times.")


@group.command()
def add(
    kind: str = typer.Argument(help="website or files."),
    where: str = typer.Argument(help="The start URL, or the folder or zip."),
    organization: int = typer.Option(0, help="The organization's id."),
    new_organization: str = typer.Option("", help="Make a new organization of this name."),
    name: str = typer.Option("", help="A name for people."),
    include: list[str] = _INCLUDE,
    exclude: list[str] = _EXCLUDE,
    sync: bool = typer.Option(True, help="Ask for its first sync at once."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Add a source and ask for its first sync.

    Examples: kbsync source add website https://docs.example.org/ --new-organization Acme;
    kbsync source add files ./docs --organization 1
    """
    from kbsync.domain.errors import SettingsError
    from kbsync.domain.requests import SyncSource
    from ops.cli.context import allowed_files_roots, connected, enqueue_by_hand, run
    from ops.register import NewSource, check_setup, register_source

    if kind == "files":
        where = str(Path(where).expanduser().resolve())
    config: dict[str, object] = {"start_url": where} if kind == "website" else {"path": where}
    if kind not in ("website", "files"):
        raise SettingsError(f"no provider {kind!r}; there are website and files")
    if include:
        config["include_paths" if kind == "website" else "include"] = include
    if exclude:
        config["exclude_paths" if kind == "website" else "exclude"] = exclude
    if bool(organization) == bool(new_organization):
        raise SettingsError("say which organization: --organization ID, or --new-organization NAME")

    check_setup(kind, config, allowed_files_roots())

    async def make() -> dict[str, object]:
        async with connected() as here:
            made = await register_source(
                here.database, NewSource(kind, name or where, config), organization or None, new_organization or None
            )
            if sync:
                request = SyncSource(organization_id=made.organization_id, source_id=made.source_id)
                await enqueue_by_hand(here, [request])
            return {"organization_id": made.organization_id, "source_id": made.source_id, "sync_requested": sync}

    made = run(make)
    if as_json:
        print_json(made)
    else:
        typer.echo(
            f"source {made['source_id']} of organization {made['organization_id']}"
            + (", sync requested" if sync else "")
        )


@group.command("list")
def list_(organization: int = ORGANIZATION, as_json: bool = JSON_OPTION) -> None:
    """An organization's sources and how they stand."""
    from kbsync.library import sources
    from ops.cli.context import connected, run

    async def rows() -> list[dict[str, object]]:
        async with connected() as here, here.database.organization(organization) as connection:
            return [
                {
                    "id": one.id,
                    "type": one.type,
                    "name": one.name,
                    "status": one.sync_status,
                    "documents": one.counts.get("documents"),
                    "unreadable": one.counts.get("unreadable"),
                    "last synced": one.last_synced_at and f"{one.last_synced_at:%Y-%m-%d %H:%M}",
                    "error": one.sync_error,
                }
                for one in await sources.kept(connection, organization)
            ]

    print_rows(run(rows), as_json=as_json, empty="no sources")


@group.command("sync")
def sync_(source_id: int = typer.Argument(help="The source's id."), organization: int = ORGANIZATION) -> None:
    """Sync a source now."""
    from kbsync.domain.requests import SyncSource
    from ops.cli.context import connected, enqueue_by_hand, run

    async def ask() -> str:
        async with connected() as here:
            request = SyncSource(organization_id=organization, source_id=source_id)
            return (await enqueue_by_hand(here, [request]))[0].outcome

    typer.echo(f"source {source_id}: {run(ask)}")
