"""Intercom: the suite, and what only Intercom does."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from kbsync.domain.errors import ItemGone, ProviderBusy, ProviderRefused, ProviderUnreachable
from kbsync.providers.contract import (
    AssetSource,
    AudienceKind,
    Content,
    DocumentRef,
    ListedDocument,
    ListedSection,
    ListingEnd,
    UnreadableItem,
)
from tests.providers.account import Account
from tests.providers.conformance import Conformance
from tests.providers.fake_api import Fault
from tests.providers.fake_intercom import LATE, FakeIntercom, IntercomAccount
from tests.providers.listings import end_of, listed, listing, parts_of, provider_of


@pytest.fixture
async def fake() -> AsyncIterator[FakeIntercom]:
    async with FakeIntercom().served() as served:
        yield served


@pytest.fixture
def intercom(fake: FakeIntercom) -> IntercomAccount:
    return IntercomAccount(fake)


class TestIntercom(Conformance):
    @pytest.fixture
    async def account(self, intercom: IntercomAccount) -> Account:
        return intercom


def with_config(account: IntercomAccount, **more: object) -> None:
    config = {**account.config(), **more}
    account.config = lambda: config  # type: ignore[method-assign]


@pytest.mark.parametrize("how", ["next_is_object", "next_is_missing"])
async def test_the_next_page_comes_in_every_form(fake: FakeIntercom, intercom: IntercomAccount, how: str) -> None:
    setattr(fake, how, True)
    ids = intercom.fill(250)
    parts = await parts_of(intercom)
    assert (sorted(listed(parts)), end_of(parts)) == (sorted(ids), ListingEnd(True))
    assert all(asked.headers["intercom-version"] == "2.14" for asked in fake.log)


@pytest.mark.spec("LS-09")
@pytest.mark.parametrize("twice", [False, True])
async def test_an_edit_while_pages_are_read_is_met_by_a_second_pass(intercom: IntercomAccount, twice: bool) -> None:
    """The edited article moves to the front and pushes one over the edge; only a pass without that proves anything."""
    ids = intercom.fill(250)
    edits = iter([ids[0], ids[1]] if twice else [ids[0]])
    async with provider_of(intercom) as provider:
        seen: list[str] = []
        pages = 0
        async for part in provider.list_items():
            if isinstance(part, ListedDocument):
                seen.append(part.external_id)
            asked = intercom.fake.asked_for(intercom.is_page)
            if asked > pages and asked in (1, 4):
                edited = next(edits, None)
                if edited is not None:
                    intercom.fake.articles[edited]["updated_at"] = LATE + asked
            pages = asked
            last = part
    assert isinstance(last, ListingEnd)
    assert len(seen) == len(set(seen))
    if not twice:
        assert last.complete
        assert sorted(seen) == sorted(ids)


@pytest.mark.spec("LS-09")
async def test_without_a_count_two_passes_must_agree(fake: FakeIntercom, intercom: IntercomAccount) -> None:
    fake.counts = False
    intercom.fill(120)
    assert end_of(await parts_of(intercom)).complete
    assert fake.asked_for(intercom.is_page) == 4


@pytest.mark.spec("LS-18")
async def test_each_published_locale_is_a_document_and_a_repeated_default_is_one(
    fake: FakeIntercom, intercom: IntercomAccount
) -> None:
    (id,) = intercom.fill(1)
    fake.articles[id]["translated_content"] = {
        "type": "article_translated_content",
        "en": {"title": "Repeated", "body": "<p>again</p>", "state": "published", "updated_at": 1},
        "fr": {
            "title": "Remboursements",
            "body": "<p>Bonjour</p>",
            "state": "published",
            "updated_at": LATE,
            "url": None,
        },
        "de": {"title": "Entwurf", "body": "<p>nicht fertig</p>", "state": "draft"},
        "pt-BR": None,
    }
    async with provider_of(intercom) as provider:
        parts = await listing(provider)
        documents = {part.external_id: part for part in parts if isinstance(part, ListedDocument)}
        assert sorted(documents) == [id, f"{id}:fr"]
        french = documents[f"{id}:fr"]
        assert french.content is not None
        assert (french.title, french.content.language, french.content.markdown) == ("Remboursements", "fr", "Bonjour")
        fetched = await provider.fetch_document(DocumentRef(f"{id}:fr", None))
        assert isinstance(fetched, Content)
        assert fetched.markdown == "Bonjour"
        with pytest.raises(ItemGone, match="in de"):
            await provider.fetch_document(DocumentRef(f"{id}:de", None))
    with_config(intercom, locales=["fr"])
    assert listed(await parts_of(intercom)) == [f"{id}:fr"]


@pytest.mark.spec("LS-09")
async def test_translations_that_one_answer_leaves_out_are_not_taken_for_gone(
    fake: FakeIntercom, intercom: IntercomAccount
) -> None:
    ids = intercom.fill(3)
    del fake.articles[ids[1]]["translated_content"]
    assert not end_of(await parts_of(intercom)).complete
    for id in ids:
        fake.articles[id].pop("translated_content", None)  # a workspace of one language has none at all
    assert end_of(await parts_of(intercom)).complete


@pytest.mark.spec("LS-18")
async def test_collections_are_sections_and_help_centers_choose(fake: FakeIntercom, intercom: IntercomAccount) -> None:
    ids = intercom.fill(4)
    loose = intercom.fill(1)[0]
    fake.articles[loose] |= {"parent_id": None, "parent_ids": []}
    parts = await parts_of(intercom)
    sections = {part.external_id: part.parent_external_id for part in parts if isinstance(part, ListedSection)}
    assert sections == {"4": None, "18": "4", "19": "18", "30": None}
    documents = {part.external_id: part.section_external_ids for part in parts if isinstance(part, ListedDocument)}
    assert documents == {ids[0]: ("4",), ids[1]: ("18",), ids[2]: ("19",), ids[3]: ("30",)}
    with_config(intercom, help_center_ids=[2])
    assert listed(await parts_of(intercom)) == [ids[3]]
    with_config(intercom, help_center_ids=[], include_loose_articles=True, api_version="2.16")
    assert sorted(listed(await parts_of(intercom))) == sorted([*ids, loose])


@pytest.mark.spec("LS-25")
async def test_pictures_keep_their_name_while_their_address_is_signed_anew(
    fake: FakeIntercom, intercom: IntercomAccount
) -> None:
    (id,) = intercom.fill(1)
    picture = "https://downloads.intercomcdn.com/i/o/1/a.png"
    fake.articles[id]["body"] = (
        f'<p>See <img src="{picture}?signed" alt="A"> and <a href="https://acme.test/x?y=1">this</a></p>'
    )
    async with provider_of(intercom) as provider:
        texts = []
        for _ in range(2):
            (one,) = [part for part in await listing(provider) if isinstance(part, ListedDocument)]
            assert one.content is not None
            texts.append(one.content.markdown)
        assert texts[0] == texts[1]
        assert "intercomcdn" not in texts[0]
        assert "https://acme.test/x?y=1" in texts[0]
        name = texts[0].split("kbsync-asset:")[1].split(")")[0]
        assert isinstance(provider, AssetSource)
        assert (await provider.asset_url(DocumentRef(id, None), name)).startswith(picture + "?expires=1&signature=")
        with pytest.raises(ItemGone):
            await provider.asset_url(DocumentRef(id, None), "0" * 24)


@pytest.mark.spec("LS-27")
async def test_who_may_see_an_article(fake: FakeIntercom, intercom: IntercomAccount) -> None:
    ids = intercom.fill(3)
    fake.articles[ids[1]]["help_center_audience"] = {"type": "everyone"}
    fake.articles[ids[2]]["help_center_audience"] = {"type": "segment", "ids": ["x"]}
    parts = await parts_of(intercom)
    kinds = {part.external_id: part.audience.kind for part in parts if isinstance(part, ListedDocument)}
    assert kinds == {ids[0]: AudienceKind.PUBLIC, ids[1]: AudienceKind.PUBLIC, ids[2]: AudienceKind.UNKNOWN}


@pytest.mark.spec("RL-05", "LS-07")
@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault(405, "<html>captcha</html>", "text/html"), ProviderUnreachable),
        (Fault(405, '{"errors": []}'), ProviderRefused),
        (Fault(403, '{"errors": [{"code": "api_plan_restricted"}]}'), ProviderRefused),
        (Fault(429, '{"errors": []}', headers={"X-RateLimit-Reset": "4102444800"}), ProviderBusy),
        (Fault(429, '{"errors": [{"code": "too_many_requests"}]}'), ProviderBusy),
        (Fault(200, '{"data": [], "pages": {"next": "https://api.intercom.test/articles?cursor=x"}}'), ProviderUnreachable),
    ],
)  # fmt: skip
async def test_what_the_edge_and_the_limits_answer(
    intercom: IntercomAccount, fault: Fault, error: type[Exception]
) -> None:
    intercom.fill(1)
    intercom.fake.fail(intercom.is_page, fault)
    async with provider_of(intercom) as provider:
        with pytest.raises(error):
            await listing(provider)


@pytest.mark.spec("LS-07")
async def test_null_missing_and_wrong_fields_stop_nobody_else(fake: FakeIntercom, intercom: IntercomAccount) -> None:
    ids = intercom.fill(6)
    fake.articles[ids[0]] |= {"title": None, "body": None, "url": 5, "description": None}
    fake.articles[ids[1]]["body"] = {"not": "text"}
    fake.articles[ids[2]]["default_locale"] = None
    fake.articles[ids[3]]["translated_content"] = {"fr": [], "de": {"state": "published"}}
    fake.articles[ids[4]]["parent_ids"] = [999]
    parts = await parts_of(intercom)
    assert end_of(parts).complete
    assert sorted(listed(parts)) == sorted([*ids, f"{ids[3]}:de"])
    reasons = {part.external_id: part.reason for part in parts if isinstance(part, UnreadableItem)}
    assert list(reasons) == [ids[1]]
    titles = {part.external_id: part.title for part in parts if isinstance(part, ListedDocument)}
    assert titles[ids[0]] == "Untitled"
