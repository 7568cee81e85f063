"""Zendesk: the suite, and what only Zendesk does."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from kbsync.domain.errors import CredentialsRefused, ItemGone, ProviderBusy, ProviderRefused, ProviderUnreachable
from kbsync.providers.contract import AudienceKind, Checkable, Content, DocumentRef, ListedSection, UnreadableItem
from kbsync.providers.zendesk.config import authorization_of, zendesk_config
from tests.providers.account import SECRET, Account
from tests.providers.conformance import Conformance
from tests.providers.fake_api import Asked, Fault
from tests.providers.fake_zendesk import LATE, FakeZendesk, ZendeskAccount
from tests.providers.listings import documents, end_of, listed, listing, parts_of, provider_of


@pytest.fixture
async def fake() -> AsyncIterator[FakeZendesk]:
    async with FakeZendesk().served() as served:
        yield served


@pytest.fixture
def zendesk(fake: FakeZendesk) -> ZendeskAccount:
    return ZendeskAccount(fake)


class TestZendesk(Conformance):
    @pytest.fixture
    async def account(self, zendesk: ZendeskAccount) -> Account:
        return zendesk


def id_of(external_id: str) -> str:
    return external_id.partition(":")[0]


def in_french(asked: Asked) -> bool:
    return asked.path.endswith("/fr/articles")


@pytest.mark.spec("LS-09", "LS-18")
async def test_numbered_pages_and_a_next_page_that_is_the_same_one(fake: FakeZendesk, zendesk: ZendeskAccount) -> None:
    """C01: a next page that equals the request ends the list as incomplete, after the second sight of it."""
    fake.numbered = True
    ids = zendesk.fill(250)
    parts = await parts_of(zendesk)
    assert (sorted(listed(parts)), end_of(parts).complete) == (sorted(ids), True)
    fake.log.clear()
    fake.repeats = True
    end = end_of(await parts_of(zendesk))
    assert not end.complete
    assert fake.asked_for(zendesk.is_page) <= 4


@pytest.mark.spec("LS-18")
async def test_every_published_locale_is_a_document(fake: FakeZendesk, zendesk: ZendeskAccount) -> None:
    both, french_only, with_draft, source_is_french = (id_of(one) for one in zendesk.fill(4))
    zendesk.say_in(both, "fr", "Les deux", "<p>Bonjour</p>")
    zendesk.say_in(with_draft, "fr", "Brouillon", "<p>pas encore</p>", draft=True)
    fake.translations[french_only] = {}
    zendesk.say_in(french_only, "fr", "Seulement", "<p>en français</p>")
    fake.articles[french_only]["source_locale"] = "fr"
    fake.articles[source_is_french]["source_locale"] = "fr"
    zendesk.say_in(source_is_french, "fr", "Source", "<p>la source</p>")
    async with provider_of(zendesk) as provider:
        found = documents(parts := await listing(provider))
        assert end_of(parts).complete
        assert sorted(found) == sorted(
            [
                f"{both}:en-us", f"{both}:fr", f"{with_draft}:en-us", f"{french_only}:fr",
                f"{source_is_french}:en-us", f"{source_is_french}:fr",
            ]
        )  # fmt: skip
        french = found[f"{both}:fr"]
        assert french.content is not None
        assert (french.title, french.content.language, french.content.markdown) == ("Les deux", "fr", "Bonjour")
        fetched = await provider.fetch_document(DocumentRef(f"{both}:fr", None))
        assert isinstance(fetched, Content)
        assert fetched.markdown == "Bonjour"
        with pytest.raises(ItemGone, match="draft"):
            await provider.fetch_document(DocumentRef(f"{with_draft}:fr", None))


@pytest.mark.spec("LS-18")
async def test_wanted_locales_fall_back_to_the_source(fake: FakeZendesk, zendesk: ZendeskAccount) -> None:
    translated, not_translated = (id_of(one) for one in zendesk.fill(2))
    zendesk.say_in(translated, "fr", "Traduit", "<p>oui</p>")
    zendesk.more = {"locales": ["FR"]}
    parts = await parts_of(zendesk)
    assert sorted(listed(parts)) == sorted([f"{translated}:fr", f"{not_translated}:en-us"])


@pytest.mark.spec("LS-09")
async def test_a_translation_list_that_fails_keeps_what_is_known_and_removes_nothing(
    fake: FakeZendesk, zendesk: ZendeskAccount
) -> None:
    ids = zendesk.fill(3)
    zendesk.say_in(id_of(ids[0]), "fr", "Traduit", "<p>oui</p>")
    fake.fail(in_french, Fault(500))
    parts = await parts_of(zendesk)
    assert sorted(listed(parts)) == sorted(ids)
    assert not end_of(parts).complete
    assert "articles in fr" in str(end_of(parts).reason)
    fake.heal()
    fake.fail(in_french, Fault(429, "slow", "text/plain", headers={"Retry-After": "61"}))
    async with provider_of(zendesk) as provider:
        with pytest.raises(ProviderBusy) as raised:
            await listing(provider)
    assert raised.value.retry_after_s == 61


@pytest.mark.spec("LS-18")
async def test_brands_are_read_each_at_its_own_address(fake: FakeZendesk, zendesk: ZendeskAccount) -> None:
    fake.brands += [
        {"id": 2, "name": "Globex", "subdomain": "globex", "active": True, "has_help_center": True,
         "help_center_state": "restricted"},
        {"id": 3, "name": "Old", "subdomain": "old", "active": False, "has_help_center": True},
        {"id": 4, "name": "None", "subdomain": "none", "active": True, "has_help_center": False},
    ]  # fmt: skip
    fake.sections["globex"] = [{"id": 42, "name": "Same id", "category_id": None, "parent_section_id": None}]
    ours, theirs = zendesk.fill(2), zendesk.fill(2, brand="globex")
    async with provider_of(zendesk) as provider:
        parts = await listing(provider)
        found = documents(parts)
        assert sorted(found) == sorted([*ours, *theirs])
        assert end_of(parts).complete
        assert found[theirs[0]].section_external_ids == ("globex/s42",)
        assert {found[one].audience.kind for one in theirs} == {AudienceKind.MEMBERS}
        assert isinstance(await provider.fetch_document(DocumentRef(theirs[1], None)), Content)
        assert isinstance(provider, Checkable)
        assert (await provider.check()).sees == ("Acme", "Globex")
    sections = {part.external_id: part.parent_external_id for part in parts if isinstance(part, ListedSection)}
    assert sections["acme/s44"] == "acme/s43"
    assert sections["acme/s42"] == "acme/c7"
    zendesk.more = {"brands": ["globex", "elsewhere"]}
    parts = await parts_of(zendesk)
    assert sorted(listed(parts)) == sorted(theirs)
    assert "elsewhere" in str(end_of(parts).reason)


@pytest.mark.spec("LS-07")
async def test_one_brand_that_can_not_be_listed_leaves_the_others(fake: FakeZendesk, zendesk: ZendeskAccount) -> None:
    fake.brands.append({"id": 2, "name": "Globex", "subdomain": "globex", "active": True, "has_help_center": True})
    ids = zendesk.fill(2)
    fake.fail(lambda asked: asked.path.startswith("/globex/") and asked.path.endswith("/locales"), Fault(404))
    parts = await parts_of(zendesk)
    assert sorted(listed(parts)) == sorted(ids)
    assert not end_of(parts).complete


@pytest.mark.spec("LS-27")
async def test_user_segments_say_who_may_see_an_article(fake: FakeZendesk, zendesk: ZendeskAccount) -> None:
    ids = zendesk.fill(5)
    for one, segment in zip(ids[1:4], (500, 501, 502), strict=True):
        fake.articles[id_of(one)]["user_segment_id"] = segment
    fake.articles[id_of(ids[4])]["user_segment_ids"] = [501, 999]
    found = documents(await parts_of(zendesk))
    audiences = [(found[one].audience.kind.value, found[one].audience.groups) for one in ids]
    assert audiences == [
        ("public", ()),
        ("members", ()),
        ("groups", ("Agents",)),
        ("groups", ("Gold customers",)),
        ("unknown", ()),
    ]
    fake.may_list_segments = False
    found = documents(await parts_of(zendesk))
    assert [found[one].audience.kind.value for one in ids] == ["public", *["unknown"] * 4]


@pytest.mark.spec("LS-18")
async def test_an_end_user_lists_by_locale_and_sees_less(fake: FakeZendesk, zendesk: ZendeskAccount) -> None:
    ids = zendesk.fill(3)
    fake.articles[id_of(ids[0])]["user_segment_id"] = 501
    fake.role, fake.may_list_brands, fake.may_list_segments = "end-user", False, False
    zendesk.more = {"brand_urls": {"127": f"{fake.url}/acme"}}
    zendesk.is_page = lambda asked: asked.path.endswith("/articles")  # type: ignore[method-assign]
    async with provider_of(zendesk) as provider:
        parts = await listing(provider)
        assert isinstance(provider, Checkable)
        access = await provider.check()
    assert sorted(listed(parts)) == sorted(ids[1:])
    assert "an agent sees more" in access.notes[-1]


@pytest.mark.spec("LS-10")
async def test_a_touch_changes_the_time_and_not_the_text(fake: FakeZendesk, zendesk: ZendeskAccount) -> None:
    (id,) = zendesk.fill(1)
    async with provider_of(zendesk) as provider:
        first = documents(await listing(provider))[id]
        fake.articles[id_of(id)]["updated_at"] = LATE
        second = documents(await listing(provider))[id]
    assert first.changed_at != second.changed_at
    assert first.content == second.content


@pytest.mark.spec("LS-07")
@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault(403, "<html>cloudflare</html>", "text/html"), ProviderUnreachable),
        (Fault(409), ProviderUnreachable),
        (Fault(422, '{"error": "RecordInvalid", "details": {}}'), ProviderRefused),
        (Fault(521, "<html>", "text/html"), ProviderUnreachable),
        (Fault(200, '{"articles": [], "meta": {"has_more": true}}'), ProviderUnreachable),
    ],
)
async def test_what_the_edge_and_odd_pages_mean(zendesk: ZendeskAccount, fault: Fault, error: type[Exception]) -> None:
    zendesk.fill(1)
    zendesk.fake.fail(zendesk.is_page, fault)
    async with provider_of(zendesk) as provider:
        with pytest.raises(error) as raised:
            await listing(provider)
    assert type(raised.value) is error


@pytest.mark.spec("LS-07")
async def test_a_wrong_subdomain_is_said_to_be_one(fake: FakeZendesk, zendesk: ZendeskAccount) -> None:
    fake.no_account = True
    async with provider_of(zendesk) as provider:
        with pytest.raises(ProviderRefused, match="check the subdomain"):
            await listing(provider)


@pytest.mark.spec("LS-07")
async def test_null_missing_and_wrong_fields_stop_nobody_else(fake: FakeZendesk, zendesk: ZendeskAccount) -> None:
    ids = zendesk.fill(6)
    said = [fake.translations[id_of(one)]["en-us"] for one in ids]
    said[0] |= {"title": None, "body": None}
    said[1]["body"] = ["no text"]
    fake.articles[id_of(ids[2])] |= {"section_id": None, "html_url": None, "updated_at": None}
    fake.articles[id_of(ids[3])] |= {"user_segment_ids": None, "updated_at": "yesterday"}
    fake.articles[id_of(ids[4])] |= {"section_id": 45}
    parts = await parts_of(zendesk)
    assert end_of(parts).complete
    assert sorted(listed(parts)) == sorted(ids)
    assert [part.external_id for part in parts if isinstance(part, UnreadableItem)] == [ids[1]]
    assert documents(parts)[ids[0]].title == "Untitled"


def test_credentials_and_addresses_are_read_as_zendesk_wants_them() -> None:
    assert authorization_of({"oauth_token": SECRET}) == f"Bearer {SECRET}"
    assert authorization_of({"email": "a@b.test", "api_token": "t"}).startswith("Basic ")
    for wrong in ({}, {"email": "a@b.test"}, {"oauth_token": "bad\nheader"}):
        with pytest.raises(CredentialsRefused):
            authorization_of(wrong)
    config = zendesk_config({"base_url": "https://acme.zendesk.com"})
    assert config.url_of("globex") == "https://globex.zendesk.com"
    assert config.url_of("acme") == "https://acme.zendesk.com"
    with pytest.raises(ProviderRefused, match="base_url"):
        zendesk_config({"base_url": "https://acme.zendesk.com/agent"})
