"""Notion: the suite, its errors and its setup. Beside it: its listing, its documents, and how they are rendered."""

from __future__ import annotations

import pytest

from kbsync.domain.errors import CredentialsRefused, ItemGone, ProviderBusy, ProviderRefused, ProviderUnreachable
from kbsync.domain.requests import SyncSource
from kbsync.providers.contract import Audience, AudienceKind, Checkable, DocumentRef, UnreadableItem
from kbsync.providers.notion.config import notion_config, token_in
from kbsync.settings import Settings
from tests.acceptance.deployment import until
from tests.providers.account import Account
from tests.providers.conformance import Conformance
from tests.providers.fake_api import Fault
from tests.providers.listings import documents, end_of, listed, listing, parts_of, provider_of
from tests.providers.notion.fake import FakeNotion, NotionAccount
from tests.providers.notion.state import uuid
from tests.providers.syncs import after_first_sync, settled

MEMBERS = Audience(AudienceKind.MEMBERS)


class TestNotion(Conformance):
    @pytest.fixture
    async def account(self, notion: NotionAccount) -> Account:
        return notion

    @pytest.mark.spec("LS-09", "LS-08")
    async def test_what_search_forgets_stays_what_is_trashed_goes_and_what_returns_keeps_its_id(
        self, fake: FakeNotion, notion: NotionAccount, settings: Settings
    ) -> None:
        """Absence from the index proves nothing: one page is only forgotten, one trashed, one purged, one unshared."""
        first, forgotten, trashed, purged, unshared = [
            fake.page(number, f"Page {number}", f"Word-{number}") for number in range(1, 6)
        ]
        notion.settings = {"walk_requests": 0}

        async def synced() -> dict[str, int]:
            fake.log.clear()
            await fleet.ask(SyncSource(organization_id=organization, source_id=source))
            await until(lambda: settled(fleet, source), "the sync")
            async with fleet.runtime.database.fleet() as connection:
                rows = await connection.fetch(
                    "select id, external_id from knowledge_base_documents where source_id = $1 and discarded_at is null",
                    source,
                )
            return {row["external_id"]: row["id"] for row in rows}

        async with after_first_sync(notion, settings) as (fleet, organization, source):
            before = await synced()
            assert fake.asked_for(notion.is_fetch) == 0
            fake.hidden_from_search.add(forgotten)
            fake.pages[trashed].trashed = True
            del fake.pages[purged]
            fake.unshared.add(unshared)
            assert await synced() == {first: before[first], forgotten: before[forgotten]}
            assert fake.asked_for(notion.is_fetch) == 4
            fake.hidden_from_search.clear()
            fake.unshared.clear()
            fake.pages[trashed].trashed = False
            after = await synced()
        assert after == {id: before[id] for id in (first, forgotten, trashed, unshared)}


# --- errors, setup, check ---


@pytest.mark.spec("LS-07", "RL-05")
@pytest.mark.parametrize(
    ("fault", "error", "wait"),
    [
        (Fault(529, headers={"Retry-After": "7"}), ProviderBusy, 7),
        (Fault(429, '{"code": "rate_limited"}', headers={"Retry-After": "75"}), ProviderBusy, 75),
        (Fault(529), ProviderUnreachable, None),
        (Fault(409, '{"code": "conflict_error"}'), ProviderUnreachable, None),
        (Fault(503, "<html>busy</html>", "text/html"), ProviderUnreachable, None),
        (Fault(504, '{"code": "gateway_timeout"}'), ProviderUnreachable, None),
        (Fault(403, "<html>edge</html>", "text/html"), ProviderUnreachable, None),
        (Fault(403, '{"code": "restricted_resource"}'), ProviderRefused, None),
        (Fault(400, '{"code": "invalid_grant"}'), CredentialsRefused, None),
        (Fault(400, '{"code": "missing_version", "message": "no version"}'), ProviderRefused, None),
        (Fault(302, headers={"Location": "https://elsewhere.test/"}), ProviderRefused, None),
    ],
)
async def test_each_ending_is_what_it_means(
    notion: NotionAccount, fault: Fault, error: type[Exception], wait: float | None
) -> None:
    notion.fill(3)
    notion.fake.fail(notion.is_page, fault)
    with pytest.raises(error) as raised:
        await parts_of(notion)
    assert type(raised.value) is error
    assert getattr(raised.value, "retry_after_s", None) == wait


@pytest.mark.spec("LS-07", "LS-09")
async def test_not_found_is_believed_only_while_the_token_is_known(fake: FakeNotion, notion: NotionAccount) -> None:
    ref = DocumentRef(uuid(77), None)
    async with provider_of(notion) as provider:
        with pytest.raises(ItemGone):
            await provider.fetch_document(ref)
        fake.fail(lambda asked: asked.path == "/v1/users/me", Fault(401))
        with pytest.raises(CredentialsRefused):
            await provider.fetch_document(ref)
    fake.heal()
    notion.settings = {"base_url": f"{fake.url}/v9"}
    fake.fail(lambda asked: asked.path.startswith("/v9"), Fault(404, "<html>nothing</html>", "text/html"))
    async with provider_of(notion) as provider:
        with pytest.raises(ProviderRefused):
            await provider.fetch_document(ref)


@pytest.mark.spec("LS-07")
async def test_a_check_says_whose_the_token_is_and_what_it_opens(fake: FakeNotion, notion: NotionAccount) -> None:
    missing = uuid(99)
    notion.settings = {"root_page_ids": [missing]}
    async with provider_of(notion) as provider:
        assert isinstance(provider, Checkable)
        access = await provider.check()
        assert access.account == "Acme"
        assert "Nothing is shared" in access.notes[0]
        assert missing in access.notes[1]
        fake.page(1, "Home", "x")
        assert (await provider.check()).sees == ("Home",)


@pytest.mark.spec("LS-07")
async def test_null_missing_and_wrong_fields_stop_nobody_else(fake: FakeNotion, any_version: NotionAccount) -> None:
    """C07: each page has one field null, missing, empty or of another type, or is shown by its id alone."""
    wrong: list[dict[str, object]] = [
        {"properties": None}, {"properties": {}}, {"properties": {"title": None}},
        {"properties": {"title": {"type": "title", "title": None}, "Tags": {"id": "a", "type": "select", "select": 5}}},
        {"properties": {"title": {"type": "title", "title": [None, 7]}}}, {"properties": ["a"]},
        {"last_edited_time": None}, {"last_edited_time": "yesterday"}, {"last_edited_time": 5},
        {"url": None, "parent": None}, {"url": ["no"], "parent": "workspace"}, {"public_url": 5, "created_time": None},
        {"parent": {"type": "database_id", "database_id": None}}, {"parent": {"type": "agent_id", "agent_id": uuid(50)}},
    ]  # fmt: skip
    ids = [fake.page(number, f"Page {number}", f"Word-{number}", raw=raw) for number, raw in enumerate(wrong, 1)]
    healthy = fake.page(40, "Healthy", "fine")
    fake.blocks[ids[8]] = [{"id": None, "type": None}, {"id": uuid(1, 0xB), "type": "paragraph", "paragraph": None}]
    async with provider_of(any_version) as provider:
        parts = await listing(provider)
        assert end_of(parts).complete
        assert sorted(listed(parts)) == sorted([*ids, healthy])
        assert documents(parts)[ids[0]].title == f"Untitled ({ids[0]})"
        assert documents(parts)[ids[0]].audience == MEMBERS
        for id in [*ids, healthy]:
            content = await provider.fetch_document(DocumentRef(id, None))
            assert content
    partial = (
        f'{{"results": [{{"object": "page", "id": "{uuid(60)}"}}, null, 7, {{"object": "page"}}], "has_more": false}}'
    )
    fake.fail(any_version.is_page, Fault(body=partial))
    parts = await parts_of(any_version)
    assert [part.reason for part in parts if isinstance(part, UnreadableItem)] == [
        "Notion shows only its id: may the connection read content?"
    ]
    assert not end_of(parts).complete


def test_a_wrong_setup_is_named_without_its_value() -> None:
    with pytest.raises(ProviderRefused, match="root_page_ids") as raised:
        notion_config({"root_page_ids": ["https://secret.test/page"]})
    assert "secret.test" not in str(raised.value)
    with pytest.raises(ProviderRefused, match="api_version"):
        notion_config({"api_version": "2026-04-01"})
    with pytest.raises(CredentialsRefused, match="token of a connection"):
        token_in({"token": " "})
    assert token_in({"token": "secret_old"}) == "secret_old"
    assert notion_config({}).requests_per_second == 3
