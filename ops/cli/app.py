"""The verbs and how they are grouped."""

from __future__ import annotations

import typer

import kbsync
from ops.cli import (
    keys,
    looking,
    measuring,
    organizations,
    processes,
    queues,
    source_add,
    source_life,
    sources,
    switch,
    tokens,
)
from ops.cli import library as library_verbs

app = typer.Typer(
    name="kbsync",
    help="Keeps a company's knowledge in sync: crawls and reads sources, fills a searchable library, loses nothing.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog="First steps: `kbsync up` starts everything on this machine; `kbsync demo` shows it on real input.",
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kbsync {kbsync.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    pass


processes.add_to(app)
library_verbs.add_to(app)
switch.add_to(app)
queues.add_to(app)
looking.add_to(app)
measuring.add_to(app)
source_add.add_to(sources.group)
source_life.add_to(sources.group)
app.add_typer(sources.group, name="source")
app.add_typer(tokens.group, name="token")
app.add_typer(keys.group, name="keys")
app.add_typer(organizations.group, name="organization")
