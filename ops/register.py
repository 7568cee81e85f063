"""A new source with its data source, in one transaction: what `source add` and the demo share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kbsync.db.pool import Database
from kbsync.domain.errors import SettingsError
from kbsync.library import audit, data_sources, organizations, source_setup, sources
from kbsync.providers.files.config import allowed_path, files_config
from kbsync.providers.website.config import website_config


@dataclass(frozen=True)
class NewSource:
    """`sync_every_s`: how often it is synced besides the daily tick."""

    type: str
    name: str
    config: Mapping[str, object]
    sealed_credentials: str | None = None
    sync_every_s: int | None = None


def check_setup(source_type: str, config: Mapping[str, object], files_roots: Sequence[str]) -> None:
    """Refuses what the provider would refuse at its first sync. Raises ProviderRefused in words for an editor."""
    if source_type == "website":
        website_config(config)
    elif source_type == "files":
        allowed_path(files_config(config).path, files_roots)


@dataclass(frozen=True)
class Registered:
    organization_id: int
    source_id: int


async def find_or_register(database: Database, new: NewSource, organization_name: str) -> Registered:
    """As `register_source`; an organization and a source of that very name and setup are taken as they are."""
    async with database.fleet() as connection:
        organization_id = await organizations.named(connection, organization_name)
    if organization_id is not None:
        async with database.organization(organization_id) as connection:
            for known in await sources.kept(connection, organization_id):
                if (known.type, known.name, dict(known.config)) == (new.type, new.name, dict(new.config)):
                    return Registered(organization_id, known.id)
    return await register_source(database, new, organization_id, organization_name)


async def register_source(
    database: Database,
    new: NewSource,
    organization_id: int | None,
    new_organization: str | None = None,
    *,
    actor: str | None = None,
) -> Registered:
    """Makes the organization when `new_organization` names one; with `actor` it is audited.
    Raises SettingsError for an unknown organization."""
    if organization_id is None:
        async with database.fleet() as connection:
            organization_id = await organizations.create(connection, new_organization or "")
    async with database.organization(organization_id) as connection:
        if await organizations.get(connection, organization_id) is None:
            raise SettingsError(f"no organization {organization_id}")
        data_source_id = await data_sources.create(
            connection, organization_id, provider=new.type, name=new.name, sealed_credentials=new.sealed_credentials
        )
        source_id = await sources.create(
            connection,
            organization_id,
            type=new.type,
            name=new.name,
            config=new.config,
            data_source_id=data_source_id,
        )
        assert source_id is not None  # the data source was made in this very transaction
        if new.sync_every_s is not None:
            await source_setup.set_interval(connection, organization_id, source_id, new.sync_every_s)
        if actor is not None:
            await audit.write(
                connection,
                actor=actor,
                action="source.add",
                target=f"source:{source_id}",
                organization_id=organization_id,
                detail={"type": new.type, "has_credentials": new.sealed_credentials is not None},
            )
    return Registered(organization_id, source_id)
