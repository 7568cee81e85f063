"""Credentials that a provider refused: it is not asked with them again, whatever is queued (LS-07, LS-12)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from kbsync.domain.requests import SyncDocument, SyncSource
from kbsync.library import data_sources
from kbsync.library.credentials import Vault
from kbsync.settings import Settings
from tests.acceptance.deployment import Deployment, deployed, until
from tests.providers.fake_scribe import KEY, FakeScribe, ScribeAccount
from tests.providers.syncs import add_source, settled, status_is, with_keys

AT_ONCE = 2


@asynccontextmanager
async def revoked(settings: Settings, documents: int) -> AsyncIterator[tuple[Deployment, FakeScribe, int, int]]:
    """A source that was synced, all its documents queued once more, and then its key revoked."""
    async with FakeScribe().served() as fake, deployed(with_keys(settings, sync_concurrency=AT_ONCE)) as fleet:
        account = ScribeAccount(fake)
        account.fill(documents)
        organization = await fleet.organization()
        source = await add_source(fleet, account, organization)
        await fleet.ask(SyncSource(organization_id=organization, source_id=source))
        await until(lambda: settled(fleet, source), "the first sync")
        account.revoke()
        fake.log.clear()
        yield fleet, fake, organization, source


async def ask_for_every_document(fleet: Deployment, organization: int) -> None:
    async with fleet.runtime.database.fleet() as connection:
        rows = await connection.fetch(
            "select id from knowledge_base_documents where organization_id = $1", organization
        )
    await fleet.ask(*(SyncDocument(organization_id=organization, document_id=row["id"]) for row in rows))


async def all_ended(fleet: Deployment) -> bool:
    """Every unit that asks the provider; chunks ask nobody."""
    open_units = (
        "select count(*) from kbsync.unit_requests where kind <> 'document_chunks' "
        "and (ended_at is null or ended_at < requested_at)"
    )
    return await fleet.fetchval(open_units) == 0


async def error_of(fleet: Deployment, source: int) -> str:
    return str(await fleet.fetchval("select sync_error from knowledge_base_sources where id = $1", source))


@pytest.mark.spec("LS-07", "LS-12")
async def test_what_is_queued_does_not_ask_with_credentials_that_were_refused(settings: Settings) -> None:
    async with revoked(settings, 40) as (fleet, fake, organization, source):
        await ask_for_every_document(fleet, organization)
        await until(lambda: all_ended(fleet), "every unit to end")
        assert 1 <= len(fake.log) <= AT_ONCE
        assert await status_is(fleet, source, "failed")
        assert "refused" in await error_of(fleet, source)
        unreadable = "select count(*) from knowledge_base_documents where unreadable_reason is not null"
        assert 1 <= int(str(await fleet.fetchval(unreadable))) <= AT_ONCE


@pytest.mark.spec("LS-07")
async def test_a_sync_by_hand_says_so_and_the_next_days_one_tries(settings: Settings) -> None:
    async with revoked(settings, 3) as (fleet, fake, organization, source):
        again = SyncSource(organization_id=organization, source_id=source)
        await fleet.ask(again)
        await until(lambda: all_ended(fleet), "the sync that is refused")
        assert len(fake.log) == 1
        await fleet.ask(again)
        await until(lambda: all_ended(fleet), "the sync that does not ask")
        assert len(fake.log) == 1
        assert "not asked with them again" in await error_of(fleet, source)
        async with fleet.runtime.database.direct() as connection:
            await connection.execute("update data_sources set refused_at = now() - interval '21 hours'")
        await fleet.ask(again)
        await until(lambda: all_ended(fleet), "the next day's sync")
        assert len(fake.log) == 2
        fake.revoked = False
        async with fleet.runtime.database.direct() as connection:
            await connection.execute("update data_sources set refused_at = now() - interval '21 hours'")
        await fleet.ask(again)
        await until(lambda: settled(fleet, source), "a sync with credentials that are taken again")
        assert await fleet.fetchval("select refused_at from data_sources") is None


@pytest.mark.spec("LS-07", "LS-19")
async def test_new_credentials_end_it_and_older_refusals_do_not_blame_them(settings: Settings) -> None:
    async with revoked(settings, 3) as (fleet, fake, organization, source):
        again = SyncSource(organization_id=organization, source_id=source)
        data_source = int(str(await fleet.fetchval("select id from data_sources")))
        database = fleet.runtime.database
        async with database.organization(organization) as connection:
            before = await data_sources.get(connection, organization, data_source)
        assert before is not None
        await fleet.ask(again)
        await until(lambda: all_ended(fleet), "the sync that is refused")
        fake.revoked = False
        keys = fleet.runtime.settings.credentials_keys
        sealed = Vault(keys.get_secret_value() if keys else None).seal({"api_key": KEY})
        async with database.organization(organization) as connection:
            await data_sources.set_sealed_credentials(connection, organization, data_source, sealed)
        async with database.organization(organization) as connection:
            await data_sources.note_refusal(connection, before, "refused, says a unit that began before")
        await fleet.ask(again)
        await until(lambda: settled(fleet, source), "the sync with the new ones")
