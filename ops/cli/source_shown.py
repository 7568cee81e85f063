"""What a person at a terminal sees of a look at a source: how far it is, what would come, what credentials open."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from ops.cli.output import printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from kbsync.providers.contract import Access


def print_preview(found: dict[str, object]) -> None:
    """Counts first, then a few titles of each kind."""
    if sys.stderr.isatty():
        typer.echo("\r\x1b[K", err=True, nl=False)
    shown = ("sections", "documents", "added", "changed", "unchanged", "unreadable", "removed")
    for name in shown:
        value = found.get(name)
        typer.echo(f"{name:11} {'-' if value is None else value}")
    complete = found.get("complete")
    typer.echo("the listing is complete" if complete else printable(f"not complete: {found.get('why')}"))
    if found.get("held"):
        typer.echo(printable(f"the removal would wait for a second complete run or an approval: {found['held']}"))
    notes, examples = found.get("notes"), found.get("examples")
    for note in (notes if isinstance(notes, list) else [])[:20]:
        typer.echo(printable(f"note: {note}"))
    for kind, titles in (examples if isinstance(examples, dict) else {}).items():
        typer.echo(f"{kind}, for example:")
        for title in titles:
            typer.echo(printable(f"  {title}"))


def progress() -> Callable[[int], None] | None:
    """A line at a terminal that counts on while a long listing is read."""
    if not sys.stderr.isatty():
        return None

    def report(seen: int) -> None:
        typer.echo(f"\rlisted {seen:,} documents", err=True, nl=False)

    report(0)
    return report


def print_access(access: Access) -> None:
    typer.echo(printable(f"account: {access.account}"))
    for one in access.sees[:50]:
        typer.echo(printable(f"  sees: {one}"))
    if len(access.sees) > 50:
        typer.echo(f"  and {len(access.sees) - 50} more")
    for note in access.notes:
        typer.echo(printable(f"  note: {note}"))
