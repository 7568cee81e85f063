"""An account's source in a whole deployment: added, synced, and compared with the account."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from cryptography.fernet import Fernet

from kbsync.domain.ids import QueueName
from kbsync.domain.requests import SyncSource
from kbsync.library import data_sources, sources
from kbsync.library.credentials import Vault
from kbsync.settings import Settings
from tests.acceptance.deployment import Deployment, deployed, until
from tests.providers.account import Account

PLENTY = {"source_sync": {"count": 100_000, "window_s": 1}, "document_sync": {"count": 100_000, "window_s": 1}}


def with_keys(settings: Settings, **more: object) -> Settings:
    """Settings of a deployment that can keep credentials."""
    return Settings(**{**settings.model_dump(), "credentials_keys": Fernet.generate_key().decode(), **more})


@asynccontextmanager
async def after_first_sync(account: Account, settings: Settings) -> AsyncIterator[tuple[Deployment, int, int]]:
    """The deployment, the organization and the source, once everything in the account has arrived."""
    async with deployed(with_keys(settings, sync_concurrency=50)) as fleet:
        organization = await fleet.organization()
        source = await add_source(fleet, account, organization)
        await fleet.ask(SyncSource(organization_id=organization, source_id=source))
        await until(lambda: settled(fleet, source), "the first sync", 120)
        yield fleet, organization, source


async def add_source(fleet: Deployment, account: Account, organization: int) -> int:
    keys = fleet.runtime.settings.credentials_keys
    vault = Vault(keys.get_secret_value() if keys else None)
    async with fleet.runtime.database.organization(organization) as connection:
        data_source = await data_sources.create(
            connection,
            organization,
            provider=account.type,
            sealed_credentials=vault.seal(account.credentials()),
            limits=PLENTY,
        )
        config: Mapping[str, object] = account.config()
        made = await sources.create(
            connection, organization, type=account.type, config=config, data_source_id=data_source
        )
    assert made is not None
    return made


async def status_is(fleet: Deployment, source: int, status: str) -> bool:
    return await fleet.fetchval("select sync_status from knowledge_base_sources where id = $1", source) == status


async def settled(fleet: Deployment, source: int) -> bool:
    """Synced, and nothing of it is under way any more."""
    if not await status_is(fleet, source, "synced"):
        return False
    for name in (QueueName.SYNC, QueueName.CHUNKS):
        counts = await fleet.runtime.fleet.queue(name).counts()
        if counts.waiting + counts.active + counts.delayed:
            return False
    return True


async def kept_documents(fleet: Deployment, source: int) -> int:
    query = "select count(*) from knowledge_base_documents where source_id = $1 and discarded_at is null"
    found = await fleet.fetchval(query, source)
    assert isinstance(found, int)
    return found


async def agrees(fleet: Deployment, account: Account, source: int) -> None:
    """The library has exactly the account's items, each with its word."""
    async with fleet.runtime.database.fleet() as connection:
        rows = await connection.fetch(
            "select external_id, content, title, unreadable_reason from knowledge_base_documents "
            "where source_id = $1 and discarded_at is null",
            source,
        )
    kept = {row["external_id"]: row for row in rows}
    truth = account.truth()
    readable = {key for key, row in kept.items() if row["unreadable_reason"] is None}
    assert readable == set(truth)
    wrong = [key for key in truth if truth[key] not in f"{kept[key]['title']} {kept[key]['content']}"]
    assert wrong == []
