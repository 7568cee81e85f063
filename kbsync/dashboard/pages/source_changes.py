"""What people change of a source: its settings and times, whether it is asked at all, whether it is there (LS-26)."""

from __future__ import annotations

from collections.abc import Mapping

from kbsync.dashboard.ask import Access, ActionRefused, Ask, Done
from kbsync.dashboard.knowledge_words import sentence
from kbsync.dashboard.page import Action
from kbsync.dashboard.pages.source_acts import source_of
from kbsync.dashboard.words import count
from kbsync.domain.errors import ProviderRefused, SettingsError, UnknownProvider
from kbsync.library import audit, source_setup, sources
from kbsync.library.source_setup import Schedule
from kbsync.providers.declaration import declaration_of
from kbsync.recovery.source_removal import StillWrittenTo, remove_source

# A person waits for the answer; what holds more goes by the command line, which shows how far it is.
MOST_REMOVED_HERE = 5_000
INTERVALS = {"": None, "1800": 1_800, "3600": 3_600, "21600": 21_600, "43200": 43_200}
DAILY = {"default": None, "yes": True, "no": False}


def typed_settings(source_type: str, config: Mapping[str, object]) -> str | None:
    """The provider's settings as NAME=VALUE lines; None for a provider that declares none here."""
    try:
        fields = declaration_of(source_type).config.model_fields
    except UnknownProvider:
        return None
    lines = []
    for name in fields:
        if name in config:
            value = config[name]
            shown = ",".join(map(str, value)) if isinstance(value, list) else str(value)
            lines += [f"{name}={key}={inner}" for key, inner in value.items()] if isinstance(value, dict) else [
                f"{name}={shown}"
            ]  # fmt: skip
    return "\n".join(lines)


def every(schedule: Schedule) -> str | None:
    """Its own interval in words."""
    if schedule.sync_every_s is None:
        return None
    minutes = schedule.sync_every_s // 60
    return count(minutes // 60, "hour") if minutes % 60 == 0 else count(minutes, "minute")


async def edit(ask: Ask) -> Done:
    """After: name, settings and times are what the form says; the next sync uses them."""
    source_id, organization_id = await source_of(ask)
    back = f"/sources/{source_id}"
    interval, daily = ask.form.get("every", ""), ask.form.get("daily", "default")
    async with ask.services.database.organization(organization_id) as connection:
        row = await sources.lock(connection, organization_id, source_id)
        now = await source_setup.schedule(connection, organization_id, source_id)
        assert row is not None
        assert now is not None
        if daily not in DAILY or (interval not in INTERVALS and interval != str(now.sync_every_s)):
            raise ActionRefused("These times can’t be chosen. Nothing was changed.", back)
        config = dict(row.config)
        if "settings" in ask.form:
            lines = [line.strip() for line in ask.form["settings"].splitlines() if line.strip()]
            if any("=" not in line for line in lines):
                raise ActionRefused("Write one setting a line, as NAME=VALUE. Nothing was changed.", back)
            pairs = [(name.strip(), value) for name, _, value in (line.partition("=") for line in lines)]
            try:
                declaration = declaration_of(row.type)
                # What the form does not show is not the person's to change.
                hidden = {key: value for key, value in config.items() if key not in declaration.config.model_fields}
                config = {**hidden, **declaration.read(pairs)}
            except (ProviderRefused, SettingsError, UnknownProvider) as error:
                raise ActionRefused(f"{sentence(str(error))} Nothing was changed.", back) from None
        name = ask.form.get("name", "").strip()[:200] or row.name
        await source_setup.change(
            connection, organization_id, source_id, name=name, config=config, daily_tick=DAILY[daily]
        )
        seconds = INTERVALS.get(interval, now.sync_every_s)
        if seconds != now.sync_every_s:
            await source_setup.set_interval(connection, organization_id, source_id, seconds)
        changed = sorted(key for key in {*config, *row.config} if config.get(key) != row.config.get(key))
        await audit.write(
            connection,
            actor=ask.principal.name,
            action="source.edit",
            target=f"source:{source_id}",
            organization_id=organization_id,
            detail={"settings": changed, "every_s": seconds, "daily": daily, "renamed": name != row.name},
        )
    what = f" {count(len(changed), 'setting')} changed." if changed else ""
    return Done(f"It is saved.{what} The next sync uses it.", back)


async def disable(ask: Ask) -> Done:
    """After: nobody asks its provider any more, but for a crawl that is under way."""
    return await _switch(ask, disabled=True)


async def enable(ask: Ask) -> Done:
    return await _switch(ask, disabled=False)


async def _switch(ask: Ask, *, disabled: bool) -> Done:
    source_id, organization_id = await source_of(ask)
    back = f"/sources/{source_id}"
    async with ask.services.database.organization(organization_id) as connection:
        if not await source_setup.set_disabled(connection, organization_id, source_id, disabled):
            raise ActionRefused(f"It was {'disabled' if disabled else 'enabled'} already. Nothing was done.", back)
        await audit.write(
            connection,
            actor=ask.principal.name,
            action="source.disable" if disabled else "source.enable",
            target=f"source:{source_id}",
            organization_id=organization_id,
            reason=ask.form.get("why", "").strip()[:200] or None,
        )
    if disabled:
        return Done("It is disabled: nobody asks its provider. What is stored stays, and is found.", back)
    return Done("It is enabled: the daily scan and its interval ask for it again.", back)


async def remove(ask: Ask) -> Done:
    """After: the source is gone with everything it held, if that is still what the page showed."""
    source_id, organization_id = await source_of(ask)
    back = f"/sources/{source_id}"
    async with ask.services.database.organization(organization_id) as connection:
        held = await source_setup.holdings_up_to(connection, organization_id, source_id, MOST_REMOVED_HERE + 1)
    if ask.form.get("documents") != str(held.documents):
        raise ActionRefused("What it holds has changed since you looked. Look again; nothing was done.", back)
    if held.documents > MOST_REMOVED_HERE:
        raise ActionRefused(
            f"It holds more than {count(MOST_REMOVED_HERE, 'document')}: remove it with `kbsync source remove {source_id} "
            f"--organization {organization_id} --yes`, which shows how far it is. Nothing was done.",
            back,
        )
    try:
        gone = await remove_source(ask.services.database, organization_id, source_id, actor=ask.principal.name)
    except StillWrittenTo as error:
        raise ActionRefused(f"Most of it is gone, but {error}.", "/sources") from None
    documents, chunks = (gone.documents, gone.chunks) if gone else (0, 0)
    return Done(f"It is removed, with {count(documents, 'document')} and {count(chunks, 'chunk')}.", "/sources")


ACTIONS = (
    Action("/sources/{id}/edit", edit, Access.ACT_ON_KNOWLEDGE),
    Action("/sources/{id}/disable", disable, Access.ACT_ON_KNOWLEDGE),
    Action("/sources/{id}/enable", enable, Access.ACT_ON_KNOWLEDGE),
    Action("/sources/{id}/remove", remove, Access.ACT_ON_KNOWLEDGE),
)
