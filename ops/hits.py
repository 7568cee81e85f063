"""A search hit, for a person at a terminal and as JSON."""

from __future__ import annotations

from collections.abc import Mapping

import typer

from kbsync.library.search import Hit
from ops.cli.output import printable


def hit_as_json(hit: Hit) -> dict[str, object]:
    return {
        "document_id": hit.document_id,
        "source_id": hit.source_id,
        "title": hit.title,
        "link": hit.link,
        "heading_path": list(hit.heading_path),
        "snippet": hit.snippet,
        "highlights": [list(stretch) for stretch in hit.highlights],
        "score": hit.score,
    }


def print_hit(number: int, hit: Mapping[str, object]) -> None:
    """Number, title, link, and the snippet with its matches in bold (plain where colours are off)."""
    typer.echo(f"{number:2}. {printable(str(hit['title']))}")
    path = hit["heading_path"]
    assert isinstance(path, list)
    place = hit["link"] or " > ".join(path)
    if place:
        typer.echo(f"    {printable(str(place))}")
    snippet = str(hit["snippet"])
    stretches = hit["highlights"]
    assert isinstance(stretches, list)
    shown, copied = [], 0
    for start, end in stretches:
        shown += [printable(snippet[copied:start]), typer.style(printable(snippet[start:end]), bold=True)]
        copied = end
    shown.append(printable(snippet[copied:]))
    typer.echo("    " + " ".join("".join(shown).split()))
