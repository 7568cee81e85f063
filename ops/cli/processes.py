"""kbsync's own processes: all of them (`up`), or one at a time against servers given by URL (OP-02)."""

from __future__ import annotations

import os

import typer

from ops.cli.output import JSON_OPTION, print_json

UP_HELP = """Start everything on this machine: servers, API, workers, scheduler.

Postgres and Valkey/Redis are started from ./.kbsync (or KBSYNC_HOME) unless KBSYNC_DATABASE_URL / KBSYNC_REDIS_URL name
others. Prints the address and the admin token; Ctrl-C drains and stops all of it.

Example: kbsync up --port 8080
"""

_FILES = typer.Option([], "--files", help="Let files sources read below this folder, from now on; may be given again.")
_QUEUES = typer.Argument(None, help="Queues to work on; without any, all of them.")


_HEALTH_PORT = typer.Option(
    0, help="Serve /healthz, /readyz and /metrics on this port of KBSYNC_HEALTH_HOST (loopback); 0 serves none."
)


def add_to(app: typer.Typer) -> None:
    app.command(help=UP_HELP)(up)
    app.command()(demo)
    app.command()(migrate)
    app.command()(api)
    app.command()(worker)
    app.command()(scheduler)


def up(
    port: int = typer.Option(8080, help="The API's port on loopback; 0 takes a free one."),
    files: list[str] = _FILES,
) -> None:
    from pathlib import Path

    from kbsync.settings import load_settings
    from ops.state import local_state
    from ops.up import run_up

    for folder in files:
        local_state().add_files_root(Path(folder).expanduser().resolve())

    raise typer.Exit(run_up(load_settings(profile="embedded", log_format="console"), local_state(), port, os.environ))


def demo(
    source: str = typer.Option("", help="A URL or a folder to sync instead of the built-in sample."),
    keep: bool = typer.Option(False, "--keep", help="Leave everything running afterwards."),
) -> None:
    """Run the main job on real input: crawl a site, sync a folder, search both, print where to look next.

    Example: kbsync demo --source https://docs.example.org/guide/
    """
    from ops.demo import run_demo
    from ops.state import local_state

    raise typer.Exit(run_demo(local_state(), source or None, os.environ, keep=keep))


def migrate(
    dry_run: bool = typer.Option(False, "--dry-run", help="Say what would be applied, apply nothing."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Bring the database to this version's schema. Safe to run from many machines at once.

    Needs a direct address: KBSYNC_DATABASE_DIRECT_URL when KBSYNC_DATABASE_URL goes through a pooler.
    """
    from kbsync.db.migrate import migrate as run_migrations
    from ops.cli.context import run, settings_for_database

    settings = settings_for_database()
    plan = run(lambda: run_migrations(settings.database_direct_url or settings.database_url or "", dry_run=dry_run))
    if as_json:
        print_json({"migrations": plan.migrations, "routines": plan.routines, "dry_run": dry_run})
        return
    did = "would apply" if dry_run else "applied"
    for name in (*plan.migrations, *plan.routines):
        typer.echo(f"{did} {name}")
    if not plan.migrations and not plan.routines:
        typer.echo("the schema is up to date")


def api(
    host: str = typer.Option("", help="Address to listen on (KBSYNC_API_HOST, default 127.0.0.1)."),
    port: int = typer.Option(-1, help="Port to listen on (KBSYNC_API_PORT, default 8080)."),
    openapi: bool = typer.Option(False, "--openapi", help="Print the API's OpenAPI document and serve nothing."),
) -> None:
    """Serve the HTTP API."""
    if openapi:
        from kbsync.api.app import ROUTES
        from kbsync.api.openapi import document_of

        print_json(document_of(ROUTES))
        return
    from kbsync.queue.loop import run as run_loop
    from ops.cli.context import settings_here
    from ops.serve.api import serve_api

    settings = settings_here()
    chosen = settings.model_copy(
        update={"api_host": host or settings.api_host, "api_port": settings.api_port if port < 0 else port}
    )
    run_loop(serve_api(chosen))


def worker(
    queues: list[str] = _QUEUES,
    health_port: int = _HEALTH_PORT,
) -> None:
    """Run jobs. SIGTERM drains, a second one puts running jobs back at once; both lose and consume nothing.

    Example: kbsync worker knowledge-base-sync knowledge-base-chunks
    """
    from kbsync.queue.loop import run as run_loop
    from ops.cli.context import settings_here
    from ops.serve.workers import serve_workers

    run_loop(serve_workers(settings_here(), queues or None, health_port))


def scheduler(health_port: int = _HEALTH_PORT) -> None:
    """Run the clock's side: the daily tick, the outbox relay and the reconciler. Any number may run side by side."""
    from kbsync.queue.loop import run as run_loop
    from ops.cli.context import settings_here
    from ops.serve.scheduler import serve_scheduler

    run_loop(serve_scheduler(settings_here(), health_port))
