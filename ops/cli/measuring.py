"""`kbsync bench`: the measured targets, as `make bench` runs them."""

from __future__ import annotations

import typer

from ops.cli.output import JSON_OPTION


def add_to(app: typer.Typer) -> None:
    app.command()(bench)


def bench(
    only: str = typer.Option("", help="Spec ids, separated by commas (PF-01,PF-03); else all but the soak (RB-05)."),
    quick: bool = typer.Option(False, "--quick", help="Small counts and one round: does it work? Nothing is kept."),
    rounds: int = typer.Option(3, min=1, help="Interleaved rounds of each side."),
    minutes: float = typer.Option(30.0, min=0.05, help="How long the soak lasts."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Measure this version against its targets and against other queues, on servers of its own.

    Other queues are installed below .cache/bench when they are measured first. Exits 1 when a target is missed.

    Example: kbsync bench --only PF-01,PF-03 --quick
    """
    from ops.bench.run import run_bench

    raise typer.Exit(run_bench(only, quick=quick, as_json=as_json, rounds=rounds, minutes=minutes))
