"""Scribe: the suite, and what only Scribe does."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from kbsync.domain.errors import CredentialsRefused, ItemGone, ItemUnreadable, ProviderBusy, ProviderRefused
from kbsync.providers.contract import (
    AssetSource,
    AudienceKind,
    Checkable,
    Content,
    DocumentRef,
    ListedDocument,
    ListingEnd,
    UnreadableItem,
)
from kbsync.providers.scribe.config import scribe_config
from kbsync.providers.scribe.render import render
from tests.providers.account import Account
from tests.providers.conformance import Conformance
from tests.providers.fake_api import Fault
from tests.providers.fake_scribe import FakeScribe, ScribeAccount, uuid
from tests.providers.listings import end_of, listed, listing, parts_of, provider_of


@pytest.fixture
async def fake() -> AsyncIterator[FakeScribe]:
    async with FakeScribe().served() as served:
        yield served


@pytest.fixture
def scribe(fake: FakeScribe) -> ScribeAccount:
    return ScribeAccount(fake)


class TestScribe(Conformance):
    @pytest.fixture
    async def account(self, scribe: ScribeAccount) -> Account:
        return scribe


@pytest.mark.spec("LS-09")
@pytest.mark.parametrize("between", ["deleted", "created"])
async def test_a_list_that_shifts_while_it_is_read_proves_nothing(scribe: ScribeAccount, between: str) -> None:
    """Offsets over a newest-first list: a document that goes makes the next page skip one."""
    ids = scribe.fill(250)
    async with provider_of(scribe) as provider:
        parts = []
        async for part in provider.list_items():
            parts.append(part)
            if len(listed(parts)) == 100:  # the first page was read, the second is not asked for yet
                if between == "deleted":
                    scribe.delete([ids[-1]])
                else:
                    scribe.fill(1)
                break
        async for part in provider.list_items():  # a listing anew, undisturbed, is complete again
            last = part
        assert last == ListingEnd(True)
        seen: list[str] = []
        pages = 0
        async for part in provider.list_items():
            if isinstance(part, ListedDocument):
                seen.append(part.external_id)
                if len(seen) == 100 and pages == 0:
                    pages = 1
                    scribe.delete([list(scribe.fake.documents)[-1]]) if between == "deleted" else scribe.fill(1)
            last = part
    assert isinstance(last, ListingEnd)
    assert not last.complete
    assert "changed while it was read" in str(last.reason)


@pytest.mark.spec("LS-18")
async def test_a_session_token_alone_reads_nothing_and_says_so(fake: FakeScribe, scribe: ScribeAccount) -> None:
    scribe.fill(3)
    scribe.credentials = lambda: {"session_token": "abc"}  # type: ignore[method-assign]
    async with provider_of(scribe) as provider:
        (end,) = await listing(provider)
        assert isinstance(provider, Checkable)
        access = await provider.check()
        with pytest.raises(ItemUnreadable):
            await provider.fetch_document(DocumentRef(uuid(0), None))
    assert isinstance(end, ListingEnd)
    assert (end.complete, "only a session token" in str(end.reason)) == (False, True)
    assert access.notes
    assert fake.log == []


@pytest.mark.spec("RL-05", "LS-18")
async def test_waits_stand_in_headers_or_in_the_text_and_a_month_is_a_quota(scribe: ScribeAccount) -> None:
    scribe.fill(1)
    minute = '{"detail": "Request was throttled. Expected available in 34 seconds."}'
    month = '{"detail": "Monthly request limit exceeded for your plan."}'
    for fault, quota in (
        (Fault(429, minute), False),
        (Fault(429, minute, headers={"Retry-After": "12"}), False),
        (Fault(429, month), True),
    ):
        scribe.fake.heal()
        scribe.fake.fail(scribe.is_page, fault)
        async with provider_of(scribe) as provider:
            with pytest.raises(ProviderBusy) as raised:
                await listing(provider)
        assert raised.value.quota is quota
        assert raised.value.retry_after_s is not None
        if not quota:
            assert raised.value.retry_after_s == (12 if fault.headers else 34)


@pytest.mark.spec("LS-07")
async def test_a_plan_without_the_api_and_an_absent_key_are_told_apart(fake: FakeScribe, scribe: ScribeAccount) -> None:
    fake.plan_is_too_small = True
    async with provider_of(scribe) as provider:
        assert isinstance(provider, Checkable)
        with pytest.raises(ProviderRefused, match="plan has no public API"):
            await provider.check()
    scribe.credentials = dict  # type: ignore[method-assign]
    with pytest.raises(CredentialsRefused, match="Developer Access"):
        async with provider_of(scribe):
            pass


@pytest.mark.spec("LS-25", "LS-27")
async def test_pictures_keep_their_name_while_their_address_is_signed_anew(scribe: ScribeAccount) -> None:
    (item,) = scribe.fill(1)
    ref = DocumentRef(item, None)
    async with provider_of(scribe) as provider:
        first, second = [await provider.fetch_document(ref) for _ in range(2)]
        assert isinstance(first, Content)
        assert isinstance(second, Content)
        assert first.markdown == second.markdown
        assert f"kbsync-asset:action-a-{item}" in first.markdown
        assert first.audience is not None
        assert first.audience.kind is AudienceKind.MEMBERS
        assert isinstance(provider, AssetSource)
        one, two = [await provider.asset_url(ref, f"action-a-{item}") for _ in range(2)]
        assert one.startswith("https://pictures.test/")
        assert one != two
        with pytest.raises(ItemGone):
            await provider.asset_url(ref, "action-none")


async def test_links_of_a_proxy_are_followed_by_their_offset_alone(fake: FakeScribe, scribe: ScribeAccount) -> None:
    ids = scribe.fill(150)
    fake.host_in_links = "http://internal.proxy.test:8080"
    parts = await parts_of(scribe)
    assert sorted(listed(parts)) == sorted(ids)
    assert end_of(parts).complete


async def test_teams_scope_the_list(fake: FakeScribe, scribe: ScribeAccount) -> None:
    scribe.fill(30)
    team = next(iter(fake.teams))
    config = scribe.config()
    scribe.config = lambda: {**config, "team_ids": [team]}  # type: ignore[method-assign]
    parts = await parts_of(scribe)
    assert len(listed(parts)) == 10
    assert end_of(parts).complete


@pytest.mark.spec("LS-07")
async def test_null_missing_and_wrong_fields_stop_nobody_else(fake: FakeScribe, scribe: ScribeAccount) -> None:
    ids = scribe.fill(8)
    documents = fake.documents
    documents[ids[0]]["name"] = None
    documents[ids[1]]["team"] = {"id": None, "name": None}
    documents[ids[2]]["updated_at"] = 17
    documents[ids[3]]["actions"] = None
    documents[ids[4]]["actions"] = [None, "x", {"id": None, "description": 5}, {"description": "Only this"}]
    documents[ids[5]]["link"] = ["no"]
    del documents[ids[6]]["description"]
    async with provider_of(scribe) as provider:
        parts = await listing(provider)
        assert end_of(parts).complete
        assert sorted(listed(parts)) == sorted(ids)
        titles = {part.external_id: part.title for part in parts if isinstance(part, ListedDocument | UnreadableItem)}
        assert titles[ids[0]] == ids[0]
        for id in ids:
            assert isinstance(await provider.fetch_document(DocumentRef(id, None)), Content)


PAGE = {
    "id": "p",
    "type": "page",
    "description": "About <b>passwords</b>",
    "actions": [],
    "content": {
        "blocks": [
            {"id": "1", "type": "header", "data": {"text": "Reset", "level": 3}},
            {"id": "2", "type": "paragraph", "data": {"text": "Use <code>ls -l</code> &amp; wait"}},
            {
                "id": "3",
                "type": "list",
                "data": {
                    "style": "ordered",
                    "items": ["one", {"content": "two", "items": [{"content": "two a", "items": []}]}],
                },
            },
            {
                "id": "4",
                "type": "checklist",
                "data": {"items": [{"text": "done", "checked": True}, {"text": "open", "checked": False}]},
            },
            {"id": "5", "type": "quote", "data": {"text": "Said", "caption": "Ada"}},
            {"id": "6", "type": "code", "data": {"code": "a = ```b```"}},
            {
                "id": "7",
                "type": "table",
                "data": {"withHeadings": True, "content": [["Name", "Use"], ["a|b", "x"], ["only"]]},
            },
            {"id": "8", "type": "image", "data": {"file": {"url": "https://pictures.test/1.png?sig=1"}, "caption": "Screen"}},
            {"id": "9", "type": "embed", "data": {"source": "https://video.test/1", "caption": "Film"}},
            {"id": "10", "type": "delimiter", "data": {}},
            {"id": "11", "type": "warning", "data": {"title": "Mind", "message": "the gap"}},
            {"id": "12", "type": "linkTool", "data": {"link": "https://example.test/", "meta": {"title": "Example"}}},
            {"id": "13", "type": "raw", "data": {"html": "<p>Raw <i>text</i></p>"}},
            {"id": "14", "type": "scribeEmbed", "data": {"title": "Another guide", "steps": [{"text": "first"}]}},
            {"id": "15", "type": None, "data": None},
            "nonsense",
        ]
    },
}  # fmt: skip

PAGE_AS_MARKDOWN = """\
About **passwords**

### Reset

Use `ls -l` & wait

1. one
2. two
    1. two a

- [x] done
- [ ] open

> Said
>
> Ada

````
a = ```b```
````

| Name | Use |
| --- | --- |
| a\\|b | x |
| only |  |

![Screen](kbsync-asset:block-8)

[Film](https://video.test/1)

---

> **Mind**
> the gap

[Example](https://example.test/)

Raw *text*

Another guide
first"""


@pytest.mark.spec("LS-18")
def test_every_block_of_a_page_becomes_markdown() -> None:
    rendered = render(PAGE)
    assert rendered.markdown == PAGE_AS_MARKDOWN
    assert rendered.unknown == {"scribeEmbed": 1, "(no type)": 1}


def test_a_page_without_content_is_unreadable_and_says_so() -> None:
    with pytest.raises(ItemUnreadable, match="without content"):
        render({"type": "page", "content": None})


def test_a_wrong_setup_is_named_without_its_value() -> None:
    with pytest.raises(ProviderRefused, match="base_url") as raised:
        scribe_config({"base_url": "ftp://secret.test"})
    assert "secret.test" not in str(raised.value)
