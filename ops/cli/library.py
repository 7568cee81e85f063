"""The library's verbs: search, ask for units by hand, run the daily scan now (LS-04)."""

from __future__ import annotations

import typer

from ops.cli.output import JSON_OPTION, print_json, print_rows, printable
from ops.cli.sources import ORGANIZATION

_GROUPS = typer.Option([], "--group", help="As a member of this group would be answered; may be repeated.")


def add_to(app: typer.Typer) -> None:
    app.command()(search)
    app.command()(enqueue)
    app.command()(tick)


def search(
    query: str = typer.Argument(help='Words, "a phrase", -without, or.'),
    organization: int = ORGANIZATION,
    limit: int = typer.Option(10, min=1, max=100),
    offset: int = typer.Option(0, min=0),
    asking_as: str = typer.Option("", "--as", help="As this principal of `kbsync token list` would be answered."),
    group: list[str] = _GROUPS,
    public_only: bool = typer.Option(False, "--public-only", help="As somebody who is no member would be answered."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Search an organization's library, as a member of no group unless told otherwise.

    Example: kbsync search "vacuum freeze" --organization 1
    Example: kbsync search refunds --organization 1 --as support-desk
    """
    from kbsync.domain.audience import Asker
    from kbsync.domain.errors import SettingsError
    from kbsync.library.principals import asker_named, asker_of
    from kbsync.library.search import search as search_library
    from ops.cli.context import connected, run
    from ops.hits import hit_as_json, print_hit

    if (asking_as and (group or public_only)) or (group and public_only):
        raise SettingsError("--as, --group and --public-only each say who asks: use one")

    async def look() -> list[dict[str, object]]:
        async with connected() as here:
            asker: Asker | None = asker_of(group, public_only=public_only)
            if asking_as:
                async with here.database.fleet() as connection:
                    asker = await asker_named(connection, asking_as)
            if asker is None:
                raise SettingsError(f"no principal is called {asking_as!r}: see `kbsync token list`")
            async with here.database.organization(organization) as connection:
                hits = await search_library(connection, organization, query, limit=limit, offset=offset, asker=asker)
                return [hit_as_json(hit) for hit in hits]

    hits = run(look)
    if as_json:
        print_json(hits)
        return
    for number, hit in enumerate(hits, offset + 1):
        print_hit(number, hit)
    if not hits:
        typer.echo(f"nothing found for {printable(query)!r}")


def enqueue(
    requests: str = typer.Argument(
        help='One request as JSON, or a list: {"type": "sync_source", ...}; - reads standard input.'
    ),
    as_json: bool = JSON_OPTION,
) -> None:
    """Ask for units by hand.

    Example: kbsync enqueue '{"type": "sync_document", "organization_id": 1, "document_id": 42}'
    """
    import json
    import sys

    from pydantic import ValidationError

    from kbsync.domain.errors import SettingsError
    from kbsync.domain.requests import library_request_adapter
    from ops.cli.context import connected, enqueue_by_hand, run

    text = sys.stdin.read() if requests == "-" else requests
    try:
        given = json.loads(text)
        wanted = [
            library_request_adapter.validate_python(one) for one in (given if isinstance(given, list) else [given])
        ]
    except ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors())
        raise SettingsError(f"not a request: {faults}") from None
    except ValueError as error:
        raise SettingsError(f"not JSON: {error}") from None

    async def ask() -> list[dict[str, object]]:
        async with connected() as here:
            done = await enqueue_by_hand(here, wanted)
            return [{"job": one.job_id, "outcome": str(one.outcome), "rerun": one.rerun} for one in done]

    print_rows(run(ask), as_json=as_json)


def tick(as_json: bool = JSON_OPTION) -> None:
    """Run the daily scan now: every source is asked for, and every document whose chunks are missing."""
    from ops.cli.context import connected, run, scan_by_hand

    async def ask() -> dict[str, object]:
        async with connected() as here:
            done = await scan_by_hand(here)
            return {"job": done.job_id, "outcome": str(done.outcome)}

    print_rows([run(ask)], as_json=as_json)
