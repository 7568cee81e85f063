"""`kbsync source add`, `check`, `credentials` and `types`: a source from what was typed to what is kept."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ops.cli.output import JSON_OPTION, print_json, print_rows, printable
from ops.cli.source_shown import print_access, print_preview, progress
from ops.cli.sources import ORGANIZATION, kept_source
from ops.cli.typed import asker, given_credentials, pairs_of

if TYPE_CHECKING:
    from kbsync.library.credentials import Vault
    from kbsync.library.data_sources import DataSourceRow
    from kbsync.library.sources import SourceRow
    from kbsync.providers.contract import Access, SourceSetup
    from kbsync.settings import Settings
    from ops.cli.context import Connected
    from ops.dry_run import Known, Preview

_INCLUDE = typer.Option(
    [],
    "--include",
    help="Only URLs below this path (website) or files like this pattern (files); may be given several times.",
)
_EXCLUDE = typer.Option([], "--exclude", help="The same, left out; may be given several times.")
CONFIG = typer.Option(
    [], "--config", metavar="NAME=VALUE", help="A setting of the provider; may be given several times."
)
_CREDENTIALS = typer.Option(
    "", "--credentials", metavar="FILE", help="Credentials as a JSON object; - reads standard input."
)
_SECRET_FILE = typer.Option(
    [], "--secret-file", metavar="NAME=FILE", help="One credential from a file; may be given several times."
)
_CHECK = typer.Option(True, "--check/--no-check", help="Try address and credentials at the provider first.")


def add_to(group: typer.Typer) -> None:
    group.command()(add)
    group.command()(check)
    group.command()(credentials)
    group.command()(types)


def add(
    kind: str = typer.Argument(help="What it is: `kbsync source types` lists them."),
    where: str = typer.Argument("", help="The place: a website's start URL, a folder or zip, an account's address."),
    organization: int = typer.Option(0, help="The organization's id."),
    new_organization: str = typer.Option("", help="Make a new organization of this name."),
    name: str = typer.Option("", help="A name for people."),
    config: list[str] = CONFIG,
    include: list[str] = _INCLUDE,
    exclude: list[str] = _EXCLUDE,
    credentials_file: str = _CREDENTIALS,
    secret_file: list[str] = _SECRET_FILE,
    every: str = typer.Option("", help="Sync it so often besides the daily tick: 30m, 6h, 2d."),
    try_it: bool = _CHECK,
    dry_run: bool = typer.Option(False, "--dry-run", help="Show what would come, and add nothing."),
    sync: bool = typer.Option(True, help="Ask for its first sync at once."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Add a source: its setup is checked, its address and credentials are tried, its first sync is asked for.

    On a terminal what is missing is asked for, secrets hidden; elsewhere it is an error that names it.

    \b
    kbsync source add website https://docs.example.org/ --new-organization Acme
    kbsync source add files ./docs --organization 1
    kbsync source add zendesk https://acme.zendesk.com --organization 1
        --credentials login.json
    kbsync source add notion --organization 1
        --secret-file token=/run/secrets/notion --dry-run
    """
    from kbsync.domain.errors import SettingsError
    from kbsync.providers.contract import SourceSetup
    from kbsync.providers.declaration import declaration_of
    from ops.cli.context import allowed_files_roots, connected, enqueue_by_hand, run, who
    from ops.intervals import seconds_of
    from ops.register import NewSource, check_setup, register_source
    from ops.source_setup import complete_pairs, complete_secrets

    declaration = declaration_of(kind)
    if not dry_run and bool(organization) == bool(new_organization):
        raise SettingsError("say which organization: --organization ID, or --new-organization NAME")
    interval = seconds_of(every) if every else None
    if kind == "files" and where:
        where = str(Path(where).expanduser().resolve())
    pairs = pairs_of(config)
    if where:
        if declaration.where is None:
            raise SettingsError(f"{declaration.a_source} takes no second argument: use --config")
        pairs.append((declaration.where, where))
    for values, field, option in (
        (include, declaration.include, "--include"),
        (exclude, declaration.exclude, "--exclude"),
    ):
        if values and field is None:
            raise SettingsError(f"{declaration.a_source} has no {option}")
        pairs += [(field or "", value) for value in values]
    ask = asker()
    given = given_credentials(credentials_file, secret_file)
    pairs = complete_pairs(declaration, pairs, ask, choices=not given)
    read = declaration.read(pairs)
    check_setup(kind, read, allowed_files_roots())
    secrets = complete_secrets(declaration, given, ask, read)
    setup = SourceSetup(organization, 0, read, secrets)

    async def make() -> dict[str, object]:
        settings = _settings(needs_servers=not dry_run)
        if dry_run:
            return (await _preview(settings, kind, setup)).as_json()
        sealed = _vault(settings).seal(secrets) if secrets else None
        if organization:
            async with connected() as here:
                await known_organization(here, organization)
        access = await _access(settings, kind, setup) if try_it else None
        if access is not None and not as_json:
            print_access(access)
        async with connected() as here:
            new = NewSource(kind, name or where or declaration.title, read, sealed, sync_every_s=interval)
            made = await register_source(
                here.database, new, organization or None, new_organization or None, actor=who()
            )
            if sync:
                from kbsync.domain.requests import SyncSource

                request = SyncSource(organization_id=made.organization_id, source_id=made.source_id)
                await enqueue_by_hand(here, [request])
            return {"organization_id": made.organization_id, "source_id": made.source_id, "sync_requested": sync}

    made = run(make)
    if as_json:
        print_json(made)
    elif dry_run:
        print_preview(made)
    else:
        typer.echo(
            f"source {made['source_id']} of organization {made['organization_id']}"
            + (", sync requested" if sync else "")
        )
        verb = "runs" if sync else "sync"
        typer.echo(f"next: kbsync source {verb} {made['source_id']} --organization {made['organization_id']}")


def check(
    source_id: int = typer.Argument(help="The source's id."),
    organization: int = ORGANIZATION,
    as_json: bool = JSON_OPTION,
) -> None:
    """Try a source's address and credentials at its provider: whose they are, and what they let see. Exit code 1 when not.

    A success ends a refusal that was noted before, so that syncs ask again.
    """
    from kbsync.domain.errors import CredentialsRefused, ProviderError
    from kbsync.library import data_sources
    from ops.cli.context import connected, run

    was_refused = False

    async def look() -> tuple[Access | None, str | None]:
        nonlocal was_refused
        async with connected() as here:
            source, row = await source_with_connection(here, organization, source_id)
            try:
                access = await _access(_settings(), source.type, setup_of(here, source, row))
            except CredentialsRefused as error:
                if row is not None:
                    async with here.database.organization(organization) as connection:
                        await data_sources.note_refusal(connection, row, str(error))
                return None, str(error)
            except ProviderError as error:
                return None, str(error)
            if row is not None:
                was_refused = row.refused_at is not None
                async with here.database.organization(organization) as connection:
                    await data_sources.forget_refusal(connection, organization, row.id)
            return access, None

    access, error = run(look)
    if as_json:
        told = {"account": access.account, "sees": access.sees, "notes": access.notes} if access else {}
        print_json({"source_id": source_id, "ok": error is None, "error": error, **told})
    elif access is not None:
        print_access(access)
        if was_refused:
            typer.echo(f"taken again; next: kbsync source sync {source_id} --organization {organization}")
    if error is not None:
        if not as_json:
            typer.echo(f"kbsync: {printable(error)}", err=True)
        raise typer.Exit(1)


def credentials(
    source_id: int = typer.Argument(help="The source's id."),
    organization: int = ORGANIZATION,
    credentials_file: str = _CREDENTIALS,
    secret_file: list[str] = _SECRET_FILE,
    remove: bool = typer.Option(False, "--remove", help="Forget them."),
    try_them: bool = typer.Option(True, "--check/--no-check", help="Try them at the provider first."),
) -> None:
    """Seal the credentials of a source, once the provider took them. They never stand on the command line: on a terminal they
    are asked for, hidden; else a JSON object is read from standard input or a file.

    A website takes {"username": ..., "password": ...} or {"header_Authorization": ...}.
    Example: kbsync source credentials 7 --organization 1 < login.json
    """
    from kbsync.domain.errors import SettingsError
    from kbsync.domain.requests import SyncSource
    from kbsync.library import data_sources
    from kbsync.providers.contract import SourceSetup
    from kbsync.providers.declaration import declaration_of
    from ops.cli.context import audited, connected, enqueue_by_hand, run
    from ops.source_setup import complete_secrets

    ask = asker()
    if not remove and not credentials_file and not secret_file and ask is None:
        credentials_file = "-"
    given = {} if remove else given_credentials(credentials_file, secret_file)

    async def store() -> bool:
        async with connected() as here:
            source, row = await source_with_connection(here, organization, source_id)
            if row is None:
                raise SettingsError(f"source {source_id} has no connection that could hold credentials")
            secrets = given
            if not remove:
                secrets = complete_secrets(declaration_of(source.type), given, ask, source.config)
                if not secrets:
                    raise SettingsError("no credentials were given")
            sealed = None if remove else _vault(here.settings).seal(secrets)
            if not remove and try_them:
                setup = SourceSetup(organization, source.id, source.config, secrets)
                print_access(await _access(_settings(), source.type, setup))
            async with here.database.organization(organization) as connection:
                await data_sources.set_sealed_credentials(connection, organization, row.id, sealed)
                await audited(
                    connection,
                    "source.credentials",
                    f"source:{source_id}",
                    organization_id=organization,
                    detail={"names": sorted(secrets)},
                )
            if row.refused_at is not None and not remove:
                await enqueue_by_hand(here, [SyncSource(organization_id=organization, source_id=source_id)])
                return True
            return False

    asked = run(store)
    typer.echo(
        f"source {source_id}: credentials {'removed' if remove else 'sealed'}" + (", sync requested" if asked else "")
    )


def types(
    kind: str = typer.Argument("", help="Only this one."),
    as_json: bool = JSON_OPTION,
) -> None:
    """The kinds of sources there are, each with its settings and credentials."""
    from kbsync.providers.declaration import declaration_of
    from kbsync.providers.registry import FACTORIES

    declared = {name: declaration_of(name) for name in ([kind] if kind else sorted(FACTORIES))}
    if as_json:
        rows = [
            {
                "type": name,
                "title": one.title,
                "needs": one.required,
                "settings": list(one.config.model_fields),
                "credentials": [[secret.name for secret in way] for way in one.secrets],
            }
            for name, one in declared.items()
        ]
        print_rows(rows, as_json=True)
        return
    for name, one in declared.items():
        typer.echo(f"{name}: {one.describe()}")


# --- shared with the other verbs -----------------------------------------------------------------------------------


async def known_organization(here: Connected, organization: int) -> None:
    """Raises SettingsError when there is none."""
    from kbsync.domain.errors import SettingsError
    from kbsync.library import organizations

    async with here.database.organization(organization) as connection:
        if await organizations.get(connection, organization) is None:
            raise SettingsError(f"no organization {organization}; --new-organization NAME makes one")


async def source_with_connection(
    here: Connected, organization: int, source_id: int
) -> tuple[SourceRow, DataSourceRow | None]:
    from kbsync.library import data_sources

    async with here.database.organization(organization) as connection:
        source = await kept_source(connection, organization, source_id)
        row = None
        if source.data_source_id is not None:
            row = await data_sources.get(connection, organization, source.data_source_id)
        return source, row


def setup_of(here: Connected, source: SourceRow, row: DataSourceRow | None) -> SourceSetup:
    """Raises CredentialsRefused when the stored credentials can't be opened."""
    from kbsync.providers.contract import SourceSetup

    opened = _vault(here.settings).open(row.sealed_credentials if row else None)
    return SourceSetup(source.organization_id, source.id, source.config, opened)


async def preview_of(here: Connected, organization: int, source_id: int) -> Preview:
    """What a sync of a source that is there would bring."""
    from ops.dry_run import Known

    source, row = await source_with_connection(here, organization, source_id)
    return await _preview(_settings(), source.type, setup_of(here, source, row), Known(here.database, source))


def _settings(*, needs_servers: bool = True) -> Settings:
    from kbsync.settings import load_settings
    from ops.cli.context import allowed_files_roots, settings_here

    settings = settings_here() if needs_servers else load_settings()
    return settings.model_copy(update={"files_roots": allowed_files_roots()})


def _vault(settings: Settings) -> Vault:
    from kbsync.library.credentials import Vault

    keys = settings.credentials_keys
    return Vault(keys.get_secret_value() if keys else None)


async def _access(settings: Settings, kind: str, setup: SourceSetup) -> Access:
    from ops.source_setup import access_of, provider_for

    async with provider_for(settings, kind, setup) as provider:
        return await access_of(provider)


async def _preview(settings: Settings, kind: str, setup: SourceSetup, known: Known | None = None) -> Preview:
    from ops.dry_run import preview
    from ops.source_setup import provider_for

    async with provider_for(settings, kind, setup) as provider:
        return await preview(provider, known, content_cap=settings.content_cap, report=progress())
