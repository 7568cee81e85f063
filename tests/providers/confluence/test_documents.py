"""Confluence: one page with its people, files and forms, and who may find it (LS-25, LS-27)."""

from __future__ import annotations

import json

import pytest
from aiohttp import ClientSession, web
from hypothesis import given
from hypothesis import strategies as st

from kbsync.domain.errors import ItemGone, ItemUnreadable, ProviderUnreachable
from kbsync.providers.confluence.audience import Reach, audience_of, space_audience
from kbsync.providers.confluence.macros import attachment_name
from kbsync.providers.confluence.payloads import entry_of, readers_in, space_of
from kbsync.providers.contract import (
    PUBLIC,
    AssetSource,
    Audience,
    AudienceKind,
    Content,
    DocumentRef,
    ListedDocument,
    Provider,
)
from tests.providers.account import SECRET, Account
from tests.providers.confluence.accounts import CloudAccount, DataCenterAccount
from tests.providers.confluence.fake import ANYBODY, CONTEXT, PUBLIC_BASE, FakeConfluence, Item, permission
from tests.providers.fake_api import Asked, FakeApi, Fault
from tests.providers.listings import parts_of, provider_of

UNKNOWN, MEMBERS = Audience(AudienceKind.UNKNOWN), Audience(AudienceKind.MEMBERS)


def named(*groups: str) -> Audience:
    return Audience(AudienceKind.GROUPS, groups)


async def audiences(account: Account) -> dict[str, Audience]:
    return {one.external_id: one.audience for one in await parts_of(account) if isinstance(one, ListedDocument)}


async def read(provider: Provider, id: str) -> str:
    content = await provider.fetch_document(DocumentRef(id, None))
    assert isinstance(content, Content)
    assert content.audience is None  # as listed: the listing knows what is above the page
    return content.markdown


def is_restriction(asked: Asked) -> bool:
    return "/restriction/" in asked.path


def is_search(asked: Asked) -> bool:
    return asked.path.endswith("/content/search")


# --- who may find it ---


@pytest.mark.spec("LS-27")
@pytest.mark.parametrize(
    ("permissions", "audience"),
    [
        (permission(anonymous=True), PUBLIC),
        (ANYBODY, MEMBERS),
        (permission("hr", "board"), named("board", "hr")),
        (permission(), UNKNOWN),
        ([], UNKNOWN),
        (None, UNKNOWN),
        ("refused", UNKNOWN),
    ],
)
async def test_a_space_says_who_its_pages_are_for(
    fake: FakeConfluence, either: CloudAccount, permissions: object, audience: Audience
) -> None:
    (id,) = either.fill(1)
    fake.permissions["SUP"] = permissions
    assert (await audiences(either))[id] == audience
    if audience == UNKNOWN:
        for said, meant in (("members", MEMBERS), ("public", PUBLIC)):
            either.more = {"space_audience": said}
            assert (await audiences(either))[id] == meant


@pytest.mark.spec("LS-27")
async def test_a_restriction_holds_for_all_that_stands_below(fake: FakeConfluence, either: CloudAccount) -> None:
    tree = {
        "1": (None, [], []), "2": ("1", ["hr", "board"], []), "3": ("2", [], []), "4": ("3", ["board"], ["5b10a"]),
        "5": ("3", ["sales"], []), "6": (None, ["confluence-users"], []), "7": ("6", [], ["5b10a"]),
    }  # fmt: skip
    for id, (parent, groups, people) in tree.items():
        fake.add(Item(id, "SUP", f"Page {id}", "<p>x</p>", parent=parent, groups=groups, people=people))
    found = await audiences(either)
    assert found == {
        "1": PUBLIC, "2": named("board", "hr"), "3": named("board", "hr"), "4": named("board"), "5": UNKNOWN,
        "6": MEMBERS, "7": named("user:5b10a"),
    }  # fmt: skip
    fake.permissions["SUP"] = permission("hr")
    narrowed = await audiences(either)
    assert [narrowed[id] for id in "1234"] == [named("hr"), named("hr"), named("hr"), UNKNOWN]


@pytest.mark.spec("LS-27", "LS-08")
async def test_a_restriction_is_seen_although_the_page_has_no_new_version(
    fake: FakeConfluence, either: CloudAccount
) -> None:
    ids = either.fill(250)
    before = await audiences(either)
    assert set(before.values()) == {PUBLIC}
    fake.items[ids[200]].groups = ["hr"]
    fake.log.clear()
    after = await audiences(either)
    assert {id: one for id, one in after.items() if one != PUBLIC} == {ids[200]: named("hr")}
    assert fake.asked_for(either.is_fetch) == fake.asked_for(is_restriction) == 0
    assert fake.asked_for(is_search) == (3 if type(either) is CloudAccount else 0)  # 250 in pages of 100


@pytest.mark.spec("LS-27")
async def test_what_no_list_tells_is_asked_for_one_by_one_within_bounds(
    fake: FakeConfluence, cloud: CloudAccount
) -> None:
    ids = cloud.fill(30)
    fake.unindexed = set(ids[:2])
    fake.items[ids[0]].groups = ["hr"]
    found = await audiences(cloud)
    assert (found[ids[0]], found[ids[1]]) == (named("hr"), PUBLIC)
    assert fake.asked_for(is_restriction) == 2
    fake.search_refused = True
    fake.log.clear()
    cloud.more = {"single_calls": 10}
    found = await audiences(cloud)
    assert [found[id] for id in ids[:10]] == [named("hr"), *[PUBLIC] * 6, named("hr"), *[PUBLIC] * 2]
    assert {found[id] for id in ids[10:]} == {UNKNOWN}
    assert fake.asked_for(is_restriction) == 10
    for id in ids:
        fake.items[id].odd = {"no-restrictions": True}
    fake.log.clear()
    assert set((await audiences(cloud)).values()) == {UNKNOWN}
    assert fake.asked_for(is_restriction) == 3


@pytest.mark.spec("LS-27")
async def test_what_can_not_be_seen_above_a_page_hides_it(fake: FakeConfluence, cloud: CloudAccount) -> None:
    fake.add(Item("70", "SUP", "Folder", None, kind="folder", groups=["hr"]))
    fake.add(Item("71", "SUP", "Draft above", "<p>x</p>", status="draft", odd={"no-restrictions": True}))
    for id, parent, kind in (("1", "70", "folder"), ("2", "71", "page"), ("3", "99", "database"), ("4", None, "page")):
        fake.add(Item(id, "SUP", f"Title {id}", "<p>x</p>", parent=parent, parent_kind=kind))
    fake.add(Item("5", "SUP", "Circle", "<p>x</p>", parent="6"))
    fake.add(Item("6", "SUP", "Circle", "<p>x</p>", parent="5"))
    fake.add(Item("7", "SUP", "Own way round", "<p>x</p>", parent="7"))
    found = await audiences(cloud)
    assert found == {"1": named("hr"), **dict.fromkeys("23567", UNKNOWN), "4": PUBLIC}


@pytest.mark.spec("LS-27")
async def test_restrictions_that_may_pass_end_the_run_and_odd_ones_hide(
    fake: FakeConfluence, cloud: CloudAccount
) -> None:
    (id,) = cloud.fill(1)
    fake.fail(is_search, Fault(500))
    with pytest.raises(ProviderUnreachable):
        await audiences(cloud)
    fake.heal()
    half = {"id": id, "restrictions": {"read": {"restrictions": {"group": {"results": [{}]}}}}}
    fake.fail(is_search, Fault(200, json.dumps({"results": [half]})))
    fake.fail(is_restriction, Fault(200, '{"restrictions": {"group": {"results": [{"name": null}]}, "user": null}}'))
    assert (await audiences(cloud))[id] == UNKNOWN


def test_names_are_compared_as_they_are() -> None:
    reach = Reach().within(frozenset({"a", "b"}), ()).within(frozenset(), ()).within(frozenset({"b", "c"}), ())
    assert audience_of(PUBLIC, reach) == named("b")
    assert audience_of(named("c"), reach) == UNKNOWN
    assert audience_of(UNKNOWN, Reach()) == UNKNOWN
    assert audience_of(PUBLIC, reach.within(None, ())) == UNKNOWN
    unlicensed = [{"operation": {"operation": "read", "targetType": "space"}, "unlicensedAccess": True}]
    assert space_audience(unlicensed, ()) == MEMBERS
    assert space_audience([None, {"operation": None}, *permission("staff")], ("st*",)) == MEMBERS


FIELDS = [
    "id", "key", "title", "status", "version", "number", "createdAt", "when", "ancestors", "restrictions", "read", "group",
    "user", "results", "name", "accountId", "_links", "webui", "base", "operation", "subjects", "parentId", "extensions",
]  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=3), inner, max_size=5)
    ),
    max_leaves=12,
)


@pytest.mark.spec("LS-07")
@given(JSON)
def test_nothing_that_json_can_hold_is_a_fault_of_ours(value: object) -> None:
    """C07: whatever comes is an entry with defaults, or none."""
    for entry in (value, {"id": "1", "title": value, "version": value, "ancestors": value, "_links": value}):
        found = entry_of(entry, "page", "https://acme.test/wiki")
        assert found is None or (found.id and found.title)
    space_of(value)
    assert readers_in(value) is None or isinstance(value, dict)
    assert space_audience(value, ()).kind in AudienceKind


# --- people and forms ---


@pytest.mark.spec("LS-10")
async def test_people_are_named_with_one_call_and_strangers_stay_people(
    fake: FakeConfluence, either: CloudAccount
) -> None:
    kind = "account-id" if type(either) is CloudAccount else "userkey"
    ids = either.fill(2)
    mention = '<p>Ask <ac:link><ri:user ri:{}="{}" /></ac:link>.</p>'
    for id in ids:
        fake.items[id].body = mention.format(kind, "5b10a") * 2 + mention.format(kind, "gone")
    asks = "users-bulk" if kind == "account-id" else "/rest/api/user"
    async with provider_of(either) as provider:
        text = await read(provider, ids[0])
        assert text == "Ask @Ada Lovelace.\n\nAsk @Ada Lovelace.\n\nAsk @user."
        first = fake.asked_for(lambda asked: asked.path.endswith(asks))
        assert await read(provider, ids[1]) == text
        again = fake.asked_for(lambda asked: asked.path.endswith(asks))
    assert (first, again) == ((1, 2) if kind == "account-id" else (2, 3))  # who is known is not asked for again
    fake.fail(lambda asked: asked.path.endswith(asks), Fault(403))
    async with provider_of(either) as provider:
        assert "Ask @user." in await read(provider, ids[0])
    fake.heal()
    fake.fail(lambda asked: asked.path.endswith(asks), Fault(500))
    async with provider_of(either) as provider:
        with pytest.raises(ProviderUnreachable):  # else the text would change with every outage
            await read(provider, ids[0])


@pytest.mark.spec("LS-07", "LS-10")
async def test_a_page_without_storage_is_read_as_it_is_shown(fake: FakeConfluence, either: CloudAccount) -> None:
    shown, empty, nothing = either.fill(3)
    picture = '<p>Shown</p><img src="/wiki/download/attachments/1/a.png?version=2&amp;token=17" alt="A">'
    fake.items[shown].shown_as = picture
    fake.items[empty].body = ""
    fake.items[nothing].body = None
    async with provider_of(either) as provider:
        text = await read(provider, shown)
        assert text.startswith("Shown")
        assert fake.asked_for(either.is_fetch) == 2
        assert await read(provider, empty) == ""
        with pytest.raises(ItemUnreadable, match="no text"):
            await read(provider, nothing)
        asset = text.split("kbsync-asset:")[1].rstrip(")")
        assert isinstance(provider, AssetSource)
        address = await provider.asset_url(DocumentRef(shown, None), asset)
        assert address.endswith("a.png?version=2&token=17")


@pytest.mark.spec("LS-18")
async def test_same_space_links_take_the_key_from_the_pages_own_address(
    fake: FakeConfluence, either: CloudAccount
) -> None:
    (id,) = either.fill(1)
    fake.items[id].body = '<ac:link><ri:page ri:content-title="Next door" /></ac:link>'
    async with provider_of(either) as provider:
        site = PUBLIC_BASE if type(either) is CloudAccount else fake.url + CONTEXT
        assert await read(provider, id) == f"[Next door]({site}/display/SUP/Next+door)"


# --- files ---


class Media(FakeApi):
    async def answer(self, asked: Asked, request: web.Request) -> web.StreamResponse:
        return web.Response(body=b"picture")


@pytest.mark.spec("LS-25", "LS-19")
async def test_a_file_keeps_its_name_while_its_address_is_signed_anew(
    fake: FakeConfluence, cloud: CloudAccount
) -> None:
    """The API sends to a media host: that address is answered, and nothing of ours goes there."""
    (id,) = cloud.fill(1)
    fake.items[id].files = {"att1": "a.png", "att2": "flow (2).png", "att3": "b.png"}
    fake.items[id].body = '<p><ac:image><ri:attachment ri:filename="flow (2).png" /></ac:image></p>'
    name, ref = attachment_name("flow (2).png"), DocumentRef(id, None)
    async with Media().served() as media, provider_of(cloud) as provider:
        fake.media_url = media.url
        assert await read(provider, id) == f"![flow (2).png](kbsync-asset:{name})"
        assert isinstance(provider, AssetSource)
        first, second = [await provider.asset_url(ref, name) for _ in range(2)]
        assert media.log == []
        assert first.startswith(f"{media.url}/file/att2/")
        assert first != second
        async with ClientSession() as client, client.get(second) as answer:
            assert await answer.read() == b"picture"
        assert not [asked for asked in media.log if SECRET in str(asked.headers) or "authorization" in asked.headers]
        with pytest.raises(ItemGone, match="no such file"):
            await provider.asset_url(ref, attachment_name("gone.png"))
        fake.items[id].hidden = True
        with pytest.raises(ItemGone):
            await provider.asset_url(ref, "0" * 24)


@pytest.mark.spec("LS-25")
async def test_a_file_of_data_center_is_at_the_site_itself(fake: FakeConfluence) -> None:
    account = DataCenterAccount(fake)
    (id,) = account.fill(1)
    fake.items[id].files = {f"att{number}": f"f {number}.png" for number in range(150)}
    async with provider_of(account) as provider:
        assert isinstance(provider, AssetSource)
        found = await provider.asset_url(DocumentRef(id, None), attachment_name("f 149.png"))
    assert found == f"{fake.url}{CONTEXT}/download/attachments/{id}/f%20149.png"
