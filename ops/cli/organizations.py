"""`kbsync organization`: what there is of a tenant, and its erasure with a proof (LS-26)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from ops.cli.output import JSON_OPTION, print_json

if TYPE_CHECKING:
    from ops.erasure import Proof

group = typer.Typer(help="Look at an organization's data, and erase it.", no_args_is_help=True)


@group.callback()
def _group() -> None:
    pass


@group.command()
def erase(
    organization: int = typer.Argument(min=1, help="The organization's id."),
    yes: bool = typer.Option(False, "--yes", help="Do it; without it only what would go is counted."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Erase everything of an organization: library, ledgers, credentials, people and tokens, audit entries, jobs, kept
    results, events and throttles. It can't be undone. First look, then --yes.

    It works in batches and can be stopped and asked for again. It ends with a proof: every table and key pattern, counted
    again; exit code 1 when anything is left. The audit keeps that the organization was erased, and not what it was.

    Example: kbsync organization erase 7
    """
    import sys

    from ops.cli.context import connected, run, who
    from ops.erasure import erase as erase_organization
    from ops.erasure import look

    def progress(what: str, went: int) -> None:
        if sys.stderr.isatty():
            typer.echo(f"{what}: {went} gone", err=True)

    async def main() -> Proof:
        async with connected() as here:
            throttles = here.fleet.client_at(here.settings.redis_url or "")
            if not yes:
                return await look(here.database, here.fleet, throttles, organization)
            return await erase_organization(
                here.database, here.fleet, throttles, organization, actor=who(), progress=progress
            )

    found = run(main)
    if as_json:
        print_json({
            "organization_id": organization, "erased": yes, "went": found.went,
            "nothing_is_left": found.nothing_is_left, "postgres": found.postgres, "redis": found.redis,
        })  # fmt: skip
    else:
        if yes:
            typer.echo(f"organization {organization}: {found.went} rows and keys erased; what is left:")
        for place, count in [*found.postgres.items(), *found.redis.items()]:
            typer.echo(f"  {count:>9}  {place}")
        if yes:
            typer.echo("nothing is left" if found.nothing_is_left else "something is left: ask for it again")
        else:
            typer.echo("nothing was changed; add --yes to erase it, which can't be undone")
    if yes and not found.nothing_is_left:
        raise typer.Exit(1)
