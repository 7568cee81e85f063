"""`GET /v1/documents/{id}/assets/{asset}` over a Scribe account on a real socket (LS-25, LS-27)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from cryptography.fernet import Fernet

from kbsync.api.services import ApiServices
from kbsync.domain.ids import job_id
from kbsync.domain.requests import DocumentChunks, LibraryRequest, SyncDocument, SyncSource
from kbsync.library import data_sources, organizations, sources
from kbsync.library.principals import Role, create_token
from kbsync.settings import Settings
from kbsync.sync.assets import NAME
from kbsync.sync.chunks import document_chunks
from kbsync.sync.context import Run
from kbsync.sync.document import sync_document
from kbsync.sync.source import sync_source
from ratelimits.scope import DataSourceScope
from tests.api.conftest import Client, serve
from tests.providers.account import SECRET
from tests.providers.fake_api import Fault
from tests.providers.fake_scribe import FakeScribe, ScribeAccount
from tests.sync.toy import follow_ups
from workers.runtime import Runtime


@dataclass
class Answer:
    status: int
    headers: Mapping[str, str]
    body: str

    @property
    def location(self) -> str:
        return self.headers["Location"]


@dataclass
class Library:
    """One organization with a Scribe source of one document, synced; and people to ask for its pictures."""

    runtime: Runtime
    client: Client
    account: ScribeAccount
    organization_id: int
    source_id: int
    data_source_id: int
    document_id: int = 0
    asset: str = ""
    tokens: int = 0

    async def sync(self) -> list[LibraryRequest]:
        """The source and everything that follows; answers the units that ran after it."""
        first = SyncSource(organization_id=self.organization_id, source_id=self.source_id)
        waiting = await follow_ups(await sync_source(self.runtime.units, first, run_of(first)))
        ran: list[LibraryRequest] = []
        while waiting:
            ran.append(one := waiting.pop())
            if isinstance(one, SyncDocument):
                waiting += await follow_ups(await sync_document(self.runtime.units, one, run_of(one)))
            elif isinstance(one, DocumentChunks):
                await document_chunks(self.runtime.units, one, run_of(one))
        return ran

    async def token(self, *roles: Role, bound: int | None = None, public_only: bool = False) -> str:
        self.tokens += 1
        async with self.runtime.database.fleet() as connection:
            made = await create_token(
                connection,
                f"p{self.tokens}",
                roles=roles or (Role.READER,),
                organization_id=bound,
                public_only=public_only,
            )
        return made.text

    async def get(self, token: str, asset: str | None = None, document_id: int | str | None = None) -> Answer:
        path = f"/v1/documents/{document_id or self.document_id}/assets/{self.asset if asset is None else asset}"
        async with self.client.get(path, headers={"Authorization": f"Bearer {token}"}, allow_redirects=False) as answer:
            return Answer(answer.status, dict(answer.headers), await answer.text())

    @property
    def fetches(self) -> int:
        return self.account.fake.asked_for(self.account.is_fetch)

    async def rows(self, query: str) -> list[dict[str, object]]:
        async with self.runtime.database.direct() as connection:
            return [dict(row) for row in await connection.fetch(query)]

    async def execute(self, query: str) -> None:
        async with self.runtime.database.direct() as connection:
            await connection.execute(query)


def run_of(request: LibraryRequest) -> Run:
    return Run(job_id(request), datetime.now(UTC))


@pytest.fixture
async def library(settings: Settings) -> AsyncIterator[Library]:
    with_keys = Settings(**{**settings.model_dump(), "credentials_keys": Fernet.generate_key().decode()})
    async with FakeScribe().served() as fake:
        fake.pictures = f"{fake.url}/pictures"
        account = ScribeAccount(fake)
        runtime = await Runtime.open(with_keys)
        async with runtime.database.fleet() as connection:
            organization_id = await organizations.create(connection, "Acme")
        async with runtime.database.organization(organization_id) as connection:
            data_source_id = await data_sources.create(
                connection,
                organization_id,
                provider="scribe",
                sealed_credentials=runtime.units.vault.seal(account.credentials()),
            )
            source_id = await sources.create(
                connection, organization_id, type="scribe", config=account.config(), data_source_id=data_source_id
            )
        assert source_id is not None
        services = ApiServices(
            runtime.database, runtime.fleet, runtime.fleet, runtime.kill_switch, with_keys, runtime.assets
        )
        client = await serve(services)
        made = Library(runtime, client, account, organization_id, source_id, data_source_id)
        (item,) = account.fill(1)
        made.asset = f"action-a-{item}"
        await made.sync()
        (row,) = await made.rows("select id from knowledge_base_documents")
        made.document_id = int(str(row["id"]))
        yield made
        await client.close()
        await runtime.close()


@pytest.mark.spec("LS-25")
async def test_it_leads_on_to_the_address_of_this_moment_and_keeps_none(library: Library) -> None:
    token = await library.token()
    first, second = await library.get(token), await library.get(token)
    for answer in (first, second):
        assert answer.status == 302
        assert answer.location.startswith(f"{library.account.fake.url}/pictures/a-")
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.body == ""
        assert SECRET not in str(answer.headers)
    assert first.location != second.location
    (row,) = await library.rows("select content from knowledge_base_documents")
    assert f"kbsync-asset:{library.asset}" in str(row["content"])
    assert "signature" not in str(row["content"])


@pytest.mark.spec("LS-25", "LS-10")
async def test_a_re_read_with_new_signatures_changes_nothing(library: Library) -> None:
    def state() -> str:
        return (
            "select chunk.id, chunk.content, chunk.content_hash, chunk.updated_at, document.content_hash as hash,"
            " document.chunks_synced_at from document_chunks chunk join knowledge_base_documents document"
            " on document.id = chunk.source_id order by chunk.id"
        )

    before, signed = await library.rows(state()), library.account.fake.signatures
    assert before
    document = next(iter(library.account.fake.documents.values()))
    document["updated_at"] = "2026-03-01T00:00:00Z"  # so that it is read again
    ran = await library.sync()
    assert [type(one) for one in ran] == [SyncDocument]
    assert library.account.fake.signatures > signed
    assert await library.rows(state()) == before
    (row,) = await library.rows("select source_version, synced_version from knowledge_base_documents")
    assert row["source_version"] == row["synced_version"] == "2026-03-01T00:00:00Z"


@pytest.mark.spec("LS-25", "LS-27", "SE-02")
async def test_what_the_asker_may_not_find_is_not_there_and_nobody_is_asked_for_it(library: Library) -> None:
    async with library.runtime.database.fleet() as connection:
        other = await organizations.create(connection, "Other")
    ours, theirs = library.organization_id, other
    fetched = library.fetches
    foreign = await library.get(await library.token(bound=theirs))
    public = await library.get(await library.token(public_only=True))
    unknown = await library.get(await library.token(), "action-nobody-wrote-this")
    nowhere = await library.get(await library.token(), document_id=library.document_id + 1)
    for answer in (foreign, public, unknown, nowhere):
        assert (answer.status, answer.body) == (404, foreign.body)
        assert "Location" not in answer.headers
    await library.execute("update knowledge_base_documents set audience = 'unknown'")
    assert (await library.get(await library.token())).status == 404
    await library.execute("update knowledge_base_documents set audience = 'members', discarded_at = now()")
    assert (await library.get(await library.token())).status == 404
    await library.execute("update knowledge_base_documents set discarded_at = null")
    assert (await library.get(await library.token(Role.VIEWER))).status == 403
    assert (await library.get("nobody's")).status == 401
    assert library.fetches == fetched
    assert (await library.get(await library.token(bound=ours))).status == 302


@pytest.mark.spec("LS-25")
async def test_odd_names_and_ids_are_not_there(library: Library) -> None:
    token, fetched = await library.token(), library.fetches
    for asset in ("%20", "a%20b", "%00", "%ED%A0%80", "x" * 301, "..%2f..%2fetc", "%3Cscript%3E", "%0d%0aX:1", "%25"):
        assert (await library.get(token, asset)).status == 404, asset
    for document_id in ("x", "-1", "1e3", str(2**63), "9" * 40, "%D9%A1"):
        assert (await library.get(token, document_id=document_id)).status == 404, document_id
    assert library.fetches == fetched
    assert NAME.fullmatch(library.asset)


@pytest.mark.spec("LS-25")
async def test_what_the_provider_has_no_more_is_gone(library: Library) -> None:
    token = await library.token()
    (document,) = library.account.fake.documents.values()
    document["actions"][0]["screenshot_url"] = None
    assert (await library.get(token)).status == 410
    library.account.delete([document["id"]])
    assert (await library.get(token)).status == 410


@pytest.mark.spec("LS-25", "RL-05")
async def test_a_busy_provider_is_left_alone_by_readers_and_units_alike(library: Library) -> None:
    token = await library.token()
    library.account.fake.fail(library.account.is_fetch, Fault(429, headers={"Retry-After": "70"}))
    first = await library.get(token)
    assert (first.status, first.headers["Retry-After"]) == (503, "70")
    scope = DataSourceScope("scribe", library.organization_id, library.data_source_id)
    assert await library.runtime.throttle.closed_until(scope) is not None
    library.account.fake.heal()
    fetched = library.fetches
    second = await library.get(token)
    assert second.status == 503
    assert 60 <= int(second.headers["Retry-After"]) <= 70
    assert library.fetches == fetched
    assert await library.runtime.throttle.windows() == [] or all(
        view.reserved == 0 for view in await library.runtime.throttle.windows()
    ), "readers hold no slot behind a closure"
    await library.runtime.throttle.reopen(scope)
    assert (await library.get(token)).status == 302


@pytest.mark.spec("LS-25", "RL-01")
async def test_it_shares_the_window_of_document_syncs_and_says_when_to_come_back(library: Library) -> None:
    token = await library.token()
    # A window of a month: no test stands on its border.
    limit = '{"document_sync": {"count": 1, "window_s": 2678400}}'
    await library.execute(f"update data_sources set limits = '{limit}'")
    assert (await library.get(token)).status == 302
    fetched = library.fetches
    full, again = await library.get(token), await library.get(token)
    assert (full.status, again.status) == (429, 429)
    assert int(full.headers["Retry-After"]) > 0
    assert library.fetches == fetched
    (window,) = [view for view in await library.runtime.throttle.windows() if view.window_s == 2678400]
    assert (window.used, window.reserved) == (1, 1), "the same picture holds one slot, however often it is asked for"


@pytest.mark.spec("LS-25", "LS-19")
async def test_a_provider_that_fails_or_refuses_is_503_and_nothing_of_it_is_told(library: Library) -> None:
    token = await library.token()
    for fault in (Fault(500), Fault(200, "<html>", "text/html"), Fault(reset=True), Fault(401), Fault(400)):
        library.account.fake.heal()
        library.account.fake.fail(library.account.is_fetch, fault)
        answer = await library.get(token)
        assert (answer.status, answer.headers["Content-Type"].split(";")[0]) == (503, "application/problem+json"), fault
        assert int(answer.headers["Retry-After"]) > 0
        for secret in (SECRET, library.account.fake.url, "127.0.0.1"):
            assert secret not in answer.body + str(answer.headers)
    library.account.fake.heal()
    await library.execute("update data_sources set refused_at = null, limits = '{\"document_sync\": 7}'")
    assert (await library.get(token)).status == 503


@pytest.mark.spec("LS-25", "SE-03", "SE-04")
@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)//",
        "data:text/html,x",
        "file:///etc/passwd",
        "http://10.0.0.1",
        "http://169.254.169.254",
        "http://[::ffff:127.0.0.2]",
        "http://0x7f.1",
        "http://metadata.google.internal",
        "http://user:pw@127.0.0.1",
        "http://8.8.8.8:22",
        "nonsense",
    ],
)
async def test_an_address_that_may_not_be_followed_is_never_given_out(library: Library, address: str) -> None:
    library.account.fake.pictures = address
    answer = await library.get(await library.token())
    assert answer.status == 404
    assert "Location" not in answer.headers
    assert "127.0.0.1" not in answer.body


@pytest.mark.spec("LS-25", "SE-04")
async def test_an_address_is_handed_on_as_it_was_signed_and_splits_no_header(library: Library) -> None:
    base = f"{library.account.fake.url}/a%2Fb%7E+c"
    library.account.fake.pictures = base
    answer = await library.get(await library.token())
    assert answer.location.startswith(f"{base}/a-")
    library.account.fake.pictures = f"{library.account.fake.url}/a\r\nSet-Cookie: x=1\r\n\r\nü"
    answer = await library.get(await library.token())
    assert answer.status == 302
    assert "Set-Cookie" not in answer.headers
    assert answer.location.isascii()


@pytest.mark.spec("LS-25")
async def test_a_source_without_such_files_and_a_process_without_providers_have_none(library: Library) -> None:
    token = await library.token()
    async with library.runtime.database.organization(library.organization_id) as connection:
        await connection.execute(
            "update knowledge_base_sources set type = 'website', config = '{\"start_url\": \"https://a.test/\"}'"
        )
    assert (await library.get(token)).status == 404
    await library.execute("update knowledge_base_sources set discarded_at = now()")
    assert (await library.get(token)).status == 404
    runtime = library.runtime
    bare = await serve(
        ApiServices(runtime.database, runtime.fleet, runtime.fleet, runtime.kill_switch, runtime.settings)
    )
    headers = {"Authorization": f"Bearer {token}"}
    async with bare.get(f"/v1/documents/{library.document_id}/assets/{library.asset}", headers=headers) as answer:
        assert answer.status == 404
    await bare.close()
