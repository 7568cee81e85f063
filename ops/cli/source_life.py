"""`kbsync source edit`, `disable`, `enable`, `remove` and `runs`: what becomes of a source once it is there (LS-26)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from ops.cli.output import JSON_OPTION, print_json, print_rows
from ops.cli.source_add import CONFIG
from ops.cli.sources import ORGANIZATION, kept_source
from ops.cli.typed import pairs_of

if TYPE_CHECKING:
    from kbsync.library.source_setup import Holdings

_ID = typer.Argument(help="The source's id.")
_UNSET = typer.Option([], "--unset", metavar="NAME", help="A setting to forget; its default holds then.")


def add_to(group: typer.Typer) -> None:
    group.command()(edit)
    group.command()(disable)
    group.command()(enable)
    group.command()(remove)
    group.command()(runs)


def edit(
    source_id: int = _ID,
    organization: int = ORGANIZATION,
    name: str = typer.Option("", help="Another name for people."),
    config: list[str] = CONFIG,
    unset: list[str] = _UNSET,
    every: str = typer.Option("", help="Sync it so often besides the daily tick: 30m, 6h, 2d; never: only the tick."),
    daily: str = typer.Option(
        "", help="Whether the daily tick asks for it: yes, no, or default for its provider's way."
    ),
    as_json: bool = JSON_OPTION,
) -> None:
    """Change a source's name, settings or times. The next sync uses them.

    Example: kbsync source edit 7 --organization 1 --config max_urls=500 --every 6h
    """
    from kbsync.domain.errors import SettingsError
    from kbsync.library import source_setup
    from kbsync.providers.declaration import declaration_of
    from ops.cli.context import allowed_files_roots, audited, connected, run
    from ops.intervals import seconds_of
    from ops.register import check_setup

    if not (name or config or unset or every or daily):
        raise SettingsError("say what changes: --name, --config, --unset, --every or --daily")
    if daily not in ("", "yes", "no", "default"):
        raise SettingsError("--daily is yes, no or default")
    seconds = None if every in ("", "never") else seconds_of(every)
    pairs = pairs_of(config)

    async def change() -> dict[str, object]:
        async with connected() as here, here.database.organization(organization) as connection:
            source = await kept_source(connection, organization, source_id)
            now = await source_setup.schedule(connection, organization, source_id)
            assert now is not None
            declaration = declaration_of(source.type)
            unknown = [one for one in unset if one not in declaration.config.model_fields]
            if unknown:
                raise SettingsError(f"{declaration.a_source} has no setting {unknown[0][:60]!r}")
            new = declaration.read(pairs, {key: value for key, value in source.config.items() if key not in unset})
            check_setup(source.type, new, allowed_files_roots())
            tick = {"yes": True, "no": False, "default": None, "": now.daily_tick}[daily]
            await source_setup.change(
                connection, organization, source_id, name=name or source.name, config=new, daily_tick=tick
            )
            if every:
                await source_setup.set_interval(connection, organization, source_id, seconds)
            changed = [key for key in sorted({*new, *source.config}) if new.get(key) != source.config.get(key)]
            about = [
                *(["name"] if name and name != source.name else []),
                *(["every"] if every and seconds != now.sync_every_s else []),
                *(["daily"] if tick != now.daily_tick else []),
            ]
            detail = {
                "settings": changed,
                **({"name": name} if name else {}),
                **({"every_s": seconds} if every else {}),
                **({"daily": daily} if daily else {}),
            }
            await audited(connection, "source.edit", f"source:{source_id}", organization_id=organization, detail=detail)
            said = {"name": name or source.name, "config": new, "changed": [*changed, *about]}
            return {"source_id": source_id, **said}

    done = run(change)
    if as_json:
        print_json(done)
    else:
        changed = done["changed"]
        assert isinstance(changed, list)
        typer.echo(
            f"source {source_id}: {', '.join(changed)} changed; the next sync uses it"
            if changed
            else f"source {source_id}: it was so already"
        )


def disable(
    source_id: int = _ID,
    organization: int = ORGANIZATION,
    reason: str = typer.Option("", help="Why; kept in the audit."),
) -> None:
    """Stop asking a source's provider: no tick, no interval, no sync. What is stored stays and is found. A crawl that is
    under way goes on to its end."""
    _switch(source_id, organization, reason, disabled=True)


def enable(
    source_id: int = _ID,
    organization: int = ORGANIZATION,
    reason: str = typer.Option("", help="Why; kept in the audit."),
) -> None:
    """Let a disabled source be synced again, by the tick and by its interval."""
    _switch(source_id, organization, reason, disabled=False)


def _switch(source_id: int, organization: int, reason: str, *, disabled: bool) -> None:
    from kbsync.library import source_setup
    from ops.cli.context import audited, connected, run

    word = "disabled" if disabled else "enabled"

    async def change() -> bool:
        async with connected() as here, here.database.organization(organization) as connection:
            await kept_source(connection, organization, source_id)
            changed = await source_setup.set_disabled(connection, organization, source_id, disabled)
            if changed:
                action = f"source.{'disable' if disabled else 'enable'}"
                await audited(
                    connection, action, f"source:{source_id}", organization_id=organization, reason=reason or None
                )
            return changed

    typer.echo(f"source {source_id}: {word}" if run(change) else f"source {source_id}: it was {word} already")


def remove(
    source_id: int = _ID,
    organization: int = ORGANIZATION,
    yes: bool = typer.Option(False, "--yes", help="Do it; without it only what would go is shown."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Remove a source with its documents, chunks, sections, crawls and credentials. First look, then --yes.

    A removal that was stopped goes on where it was when it is asked for again.
    """
    from dataclasses import asdict

    from kbsync.domain.errors import SettingsError
    from kbsync.library import source_setup, sources
    from kbsync.recovery.source_removal import remove_source
    from ops.cli.context import connected, run, who

    async def main() -> tuple[Holdings, int]:
        gone = 0
        async with connected() as here:
            if yes:
                held = await remove_source(here.database, organization, source_id, actor=who())
            else:
                async with here.database.organization(organization) as connection:
                    there = await source_setup.is_there(connection, organization, source_id)
                    held = await source_setup.holdings(connection, organization, source_id) if there else None
                    source = await sources.get(connection, organization, source_id)
                    kept = source.counts.get("documents") if source is not None else None
                    if held is not None and isinstance(kept, int):
                        gone = max(0, held.documents - kept)
            if held is None:
                raise SettingsError(f"organization {organization} has no source {source_id}")
            return held, gone

    held, gone = run(main)
    counts = asdict(held)
    if as_json:
        print_json({"source_id": source_id, "removed": yes, **counts})
        return
    words = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items())
    if gone:
        words = words.replace(" documents", f" documents ({gone} of them removed before)", 1)
    typer.echo(f"source {source_id}: {'removed with' if yes else 'with it would go'} {words}")
    if not yes:
        typer.echo("nothing was changed; add --yes to remove it")


def runs(
    source_id: int = _ID,
    organization: int = ORGANIZATION,
    limit: int = typer.Option(10, min=1, max=50),
    as_json: bool = JSON_OPTION,
) -> None:
    """What a source's newest runs came to: documents added, changed, unchanged, removed and unreadable."""
    from kbsync.library import source_runs
    from ops.cli.context import connected, run

    async def look() -> list[dict[str, object]]:
        async with connected() as here, here.database.organization(organization) as connection:
            await kept_source(connection, organization, source_id)
            return [
                {
                    "began": f"{one.started_at:%Y-%m-%d %H:%M:%S}",
                    "ended": one.ended_at and f"{one.ended_at:%Y-%m-%d %H:%M:%S}",
                    "outcome": one.outcome or "under way",
                    "added": one.added,
                    "changed": one.changed,
                    "unchanged": one.unchanged,
                    "removed": one.removed,
                    "unreadable": one.unreadable,
                    "attempts": one.attempts,
                    "reason": one.reason,
                }
                for one in await source_runs.newest(connection, organization, source_id, limit)
            ]

    print_rows(run(look), as_json=as_json, empty="no run yet")
