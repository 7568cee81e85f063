"""How commands print: a table for a person, JSON for a program. NO_COLOR and pipes get plain text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import typer

CELL = 80  # characters of a table's cell
JSON_OPTION = typer.Option(False, "--json", help="Print JSON.")


def print_json(value: object) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2, default=str))


def print_rows(rows: Sequence[Mapping[str, object]], *, as_json: bool, empty: str = "nothing") -> None:
    """Rows of one shape: the first one's keys are the columns. Control characters of stored data never reach a terminal."""
    if as_json:
        print_json(list(rows))
        return
    if not rows:
        typer.echo(empty)
        return
    columns = list(rows[0])
    cells = [[_cell(row.get(column)) for column in columns] for row in rows]
    widths = [max(len(column), *(len(line[i]) for line in cells)) for i, column in enumerate(columns)]
    typer.echo("  ".join(column.ljust(width) for column, width in zip(columns, widths, strict=True)).rstrip())
    for line in cells:
        typer.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def printable(text: str) -> str:
    """`text` without what could drive a terminal."""
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.1f}"
    text = printable(str(value)).replace("\n", " ")
    return text if len(text) <= CELL else text[: CELL - 1] + "…"
