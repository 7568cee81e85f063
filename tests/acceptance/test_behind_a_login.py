"""A site behind a login: sealed credentials open it, and without them the source says so in words."""

from __future__ import annotations

from base64 import b64encode

import pytest
from cryptography.fernet import Fernet
from pydantic import SecretStr

from kbsync.domain.requests import SyncSource
from kbsync.library import data_sources
from kbsync.library.credentials import Vault
from kbsync.settings import Settings
from tests.acceptance.deployment import deployed, until
from tests.website.fake_site import Asked, FakeSite, Reply

LOGIN = "Basic " + b64encode(b"reader:s3cret").decode()
PAGE = "<html><head><title>Inside</title></head><body><h1>Inside</h1><p>Only for readers.</p></body></html>"


def guarded(asked: Asked) -> Reply:
    given = {name.lower(): value for name, value in asked.headers.items()}.get("authorization")
    return Reply(body=PAGE) if given == LOGIN else Reply(401, body="who are you?")


@pytest.mark.spec("LS-07", "LS-12")
async def test_sealed_credentials_open_a_site_and_their_absence_is_said(settings: Settings) -> None:
    key = Fernet.generate_key().decode()
    async with FakeSite() as site:
        site.answer("/inside", guarded)
        async with deployed(settings.model_copy(update={"credentials_keys": SecretStr(key)})) as fleet:
            organization = await fleet.organization()
            config = {"start_url": site.at("/inside"), "use_sitemaps": False}
            source = await fleet.source(organization, "website", config)
            request = SyncSource(organization_id=organization, source_id=source)

            async def ended_as(status: str) -> bool:
                return await fleet.fetchval("select sync_status from knowledge_base_sources") == status

            await fleet.ask(request)
            await until(lambda: ended_as("failed"), "the crawl without a login")
            assert await fleet.fetchval("select count(*) from knowledge_base_documents") == 0
            error = str(await fleet.fetchval("select sync_error from knowledge_base_sources"))
            assert "start page" in error
            assert "401" in error

            sealed = Vault(key).seal({"username": "reader", "password": "s3cret"})
            async with fleet.runtime.database.organization(organization) as connection:
                row = await connection.fetchval("select data_source_id from knowledge_base_sources")
                await data_sources.set_sealed_credentials(connection, organization, row, sealed)
            await fleet.ask(request)

            async def stored() -> bool:
                return await fleet.fetchval("select count(*) from knowledge_base_documents") == 1

            await until(stored, "the page behind the login")
            await until(lambda: ended_as("synced"), "a source that is well again")
