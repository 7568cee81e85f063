"""`kbsync keys`: what credentials are sealed with."""

from __future__ import annotations

import typer

from ops.cli.output import JSON_OPTION, print_json

group = typer.Typer(help="Rotate the keys that credentials are sealed with.", no_args_is_help=True)


@group.command()
def rotate(
    dry_run: bool = typer.Option(False, "--dry-run", help="Only say which keys are in use."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Seal every stored credential with the first key of KBSYNC_CREDENTIALS_KEYS.

    1. Put a new key before the old one, separated by a comma, for every process, and restart them. 2. Run this; it can be
    stopped and run again. 3. Drop the old key. Credentials that no key opens are named, and nothing is changed.
    """
    import sys

    from kbsync.domain.errors import SettingsError
    from kbsync.library.credentials import Vault
    from ops.cli.context import connected, run, who
    from ops.key_rotation import KeyUse, key_use
    from ops.key_rotation import rotate as rotate_keys

    def progress(done: int) -> None:
        if sys.stderr.isatty() and done % 100 == 0:
            typer.echo(f"{done} resealed", err=True)

    async def main() -> KeyUse:
        async with connected() as here:
            keys = here.settings.credentials_keys
            if keys is None:
                raise SettingsError("KBSYNC_CREDENTIALS_KEYS is not set: there is no key to seal with")
            vault = Vault(keys.get_secret_value())
            if dry_run:
                return await key_use(here.database, vault)
            return await rotate_keys(here.database, vault, actor=who(), progress=progress)

    before = run(main)
    if as_json:
        resealed = 0 if dry_run else before.older
        print_json({"first_key": before.first, "older_keys": before.older, "lost": before.lost, "resealed": resealed})
    elif dry_run:
        typer.echo(
            f"{before.first} sealed with the first key, {before.older} with an older one, {before.lost} with none here"
        )
    else:
        typer.echo(f"{before.older} resealed from older keys, {before.first} had the first key already")
        typer.echo("once every process has been restarted with the first key, the older ones can be dropped")
    if dry_run and before.lost:
        raise typer.Exit(1)
