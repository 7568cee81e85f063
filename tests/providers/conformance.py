"""What every provider with an API must do, run against its own fake server on a real socket (LS-05 to LS-13, LS-18).

A provider's tests subclass `Conformance`, give it an `account` fixture, and get all of this:

    class TestExample(Conformance):
        @pytest.fixture
        async def account(self) -> AsyncIterator[Account]: ...
"""

from __future__ import annotations

import logging
import os

import pytest

from kbsync.domain.errors import (
    CredentialsRefused,
    ItemGone,
    ItemUnreadable,
    ProviderBusy,
    ProviderError,
    ProviderRefused,
    ProviderUnreachable,
)
from kbsync.domain.requests import SyncSource
from kbsync.providers.contract import (
    Checkable,
    Content,
    DocumentRef,
    ListedDocument,
    ListedSection,
    ListingEnd,
    ListingPart,
    Provider,
)
from kbsync.settings import Settings
from tests.acceptance.deployment import until
from tests.providers.account import SECRET, Account
from tests.providers.fake_api import Fault
from tests.providers.listings import IMPATIENT, LIMITS, end_of, listed, listing, parts_of, provider_of
from tests.providers.syncs import add_source, after_first_sync, agrees, kept_documents, settled, status_is

# The suite runs small on every change; `make scale` runs it with 2,000 items to sync and 10,000 to list.
SCALE = 1 if os.environ.get("KBSYNC_FULL_SCALE") else 5
SYNCED, LISTED = 2_000 // SCALE, 10_000 // SCALE

FAULTS = [
    pytest.param(Fault(500), ProviderUnreachable, id="500"),
    pytest.param(Fault(502, "<html>", "text/html"), ProviderUnreachable, id="502-html"),
    pytest.param(Fault(503), ProviderUnreachable, id="503"),
    pytest.param(Fault(504), ProviderUnreachable, id="504"),
    pytest.param(Fault(408), ProviderUnreachable, id="408"),
    pytest.param(Fault(425), ProviderUnreachable, id="425"),
    pytest.param(Fault(429, headers={"Retry-After": "3"}), ProviderBusy, id="429"),
    pytest.param(Fault(429, "slow down", "text/plain"), ProviderBusy, id="429-no-wait"),
    pytest.param(Fault(503, headers={"Retry-After": "9"}), ProviderBusy, id="503-wait"),
    pytest.param(Fault(401), CredentialsRefused, id="401"),
    pytest.param(Fault(200, "<html>Please sign in</html>", "text/html"), ProviderUnreachable, id="200-html"),
    pytest.param(Fault(200, '{"results": [', cut=True), ProviderUnreachable, id="truncated"),
    pytest.param(Fault(200, '{"results": ['), ProviderUnreachable, id="malformed"),
    pytest.param(Fault(reset=True), ProviderUnreachable, id="reset"),
    pytest.param(Fault(silent_s=3), ProviderUnreachable, id="silent"),
]


async def text_of(provider: Provider, part: ListedDocument) -> Content:
    if part.content is not None:
        return part.content
    found = await provider.fetch_document(DocumentRef(part.external_id, part.url))
    assert isinstance(found, Content)
    return found


class Conformance:
    """Names that matter to a person are in the tests; what is left to a provider is in `Account`."""

    # --- the listing ---

    @pytest.mark.spec("LS-08", "LS-18")
    async def test_a_listing_has_every_item_once_and_says_that_it_is_complete(self, account: Account) -> None:
        ids = account.fill(250)
        parts = await parts_of(account)
        assert end_of(parts) == ListingEnd(True)
        assert sorted(listed(parts)) == sorted(ids)
        sections = [part.external_id for part in parts if isinstance(part, ListedSection)]
        assert len(sections) == len(set(sections))
        told: set[str] = set()
        for part in parts:
            if isinstance(part, ListedSection):
                told.add(part.external_id)
            elif isinstance(part, ListedDocument):
                assert told >= set(part.section_external_ids), "a document before its section"

    @pytest.mark.spec("LS-09", "LS-18")
    @pytest.mark.parametrize("at", [0, 1])
    @pytest.mark.parametrize(("fault", "error"), FAULTS)
    async def test_a_page_that_fails_ends_the_listing_as_what_it_is(
        self, account: Account, fault: Fault, error: type[ProviderError], at: int
    ) -> None:
        account.fill(250)
        account.fake.fail(account.is_page, fault, skip=at)
        parts: list[ListingPart] = []
        async with provider_of(account, IMPATIENT if fault.silent_s else LIMITS) as provider:
            with pytest.raises(ProviderError) as raised:
                async for part in provider.list_items():
                    parts.append(part)
        assert type(raised.value) is error
        assert not [part for part in parts if isinstance(part, ListingEnd)]
        assert SECRET not in str(raised.value)
        if isinstance(raised.value, ProviderBusy) and "Retry-After" in fault.headers:
            assert raised.value.retry_after_s == float(fault.headers["Retry-After"])

    @pytest.mark.spec("LS-07", "LS-18")
    @pytest.mark.parametrize("status", [400, 403, 404])
    async def test_a_page_that_is_refused_is_never_the_end(self, account: Account, status: int) -> None:
        """403 or 404 for a page of the listing is about the source, not about a document."""
        account.fill(250)
        account.fake.fail(account.is_page, Fault(status), skip=1)
        async with provider_of(account) as provider:
            try:
                parts = await listing(provider)
            except (ProviderRefused, ProviderUnreachable):
                return
        assert not end_of(parts).complete

    @pytest.mark.spec("LS-09")
    async def test_a_cursor_that_repeats_ends_incomplete_and_soon(self, account: Account) -> None:
        account.fill(250)
        account.repeat_cursor()
        end = end_of(await parts_of(account))
        assert not end.complete
        assert end.reason
        assert account.fake.asked_for(account.is_page) <= 12

    @pytest.mark.spec("LS-18")
    async def test_an_empty_page_with_a_next_one_is_not_the_end(self, account: Account) -> None:
        ids = account.fill(250)
        account.empty_page()
        parts = await parts_of(account)
        assert sorted(listed(parts)) == sorted(ids)
        assert end_of(parts).complete

    @pytest.mark.spec("LS-18")
    async def test_a_long_listing_is_read_to_its_end(self, account: Account) -> None:
        ids = account.fill(LISTED)
        async with provider_of(account) as provider:
            seen = 0
            last: ListingPart | None = None
            async for part in provider.list_items():
                seen += isinstance(part, ListedDocument)
                last = part
        assert seen == len(ids)
        assert last == ListingEnd(True)

    # --- one document ---

    async def _one(self, account: Account, provider: Provider) -> ListedDocument:
        parts = await listing(provider)
        return next(part for part in parts if isinstance(part, ListedDocument))

    @pytest.mark.spec("LS-07", "LS-18")
    @pytest.mark.parametrize(
        ("fault", "error"),
        [
            (Fault(404), ItemGone),
            (Fault(410), ItemGone),
            (Fault(403), ItemUnreadable),
            (Fault(401), CredentialsRefused),
            (Fault(500), ProviderUnreachable),
            (Fault(429, headers={"Retry-After": "2"}), ProviderBusy),
            (Fault(200, "{", cut=True), ProviderUnreachable),
        ],
    )
    async def test_a_document_that_fails_says_how(
        self, account: Account, fault: Fault, error: type[ProviderError]
    ) -> None:
        account.fill(3)
        async with provider_of(account) as provider:
            one = await self._one(account, provider)
            account.fake.fail(account.is_fetch, fault)
            if one.content is not None:
                return  # nothing is fetched: the pages' tests say it
            with pytest.raises(ProviderError) as raised:
                await provider.fetch_document(DocumentRef(one.external_id, one.url))
        assert type(raised.value) is error

    @pytest.mark.spec("LS-13", "LS-18")
    @pytest.mark.parametrize(
        ("title", "text"),
        [
            ("Ünïcödé 日本語 🚀", "Grüße aus 東京 🎌 שלום"),
            ("<script>alert(1)</script>", "1 < 2 && 3 > 2 | pipes * stars _ lines ` ticks"),
            ("a" * 2_000, "b" * 20_000),
            ("Right\u202eto left", "Zero\u200bwidth and \u2028 lines"),
        ],
    )
    async def test_text_of_every_kind_arrives_as_text(self, account: Account, title: str, text: str) -> None:
        (item,) = account.fill(1)
        account.say(item, title=title, text=text)
        async with provider_of(account) as provider:
            one = await self._one(account, provider)
            content = await text_of(provider, one)
        assert one.title.split()[0][:50] == title.split()[0][:50]
        plain = content.markdown.replace("\\", "")
        assert text.split()[0][:500] in plain
        assert text.split()[-1][-20:] in plain.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
        assert "<script>" not in plain.replace(title, "")

    # --- the credentials ---

    @pytest.mark.spec("LS-19")
    async def test_credentials_can_be_tried_and_say_what_they_open(
        self, account: Account, caplog: pytest.LogCaptureFixture
    ) -> None:
        account.fill(3)
        caplog.set_level(logging.DEBUG)
        async with provider_of(account) as provider:
            assert isinstance(provider, Checkable)
            access = await provider.check()
            assert access.account
            account.revoke()
            with pytest.raises(CredentialsRefused) as raised:
                await provider.check()
            with pytest.raises(CredentialsRefused):
                await listing(provider)
        for said in (repr(access), str(raised.value), repr(provider), caplog.text):
            assert SECRET not in said

    # --- through the queue and the library ---

    @pytest.mark.spec("LS-08", "LS-09", "LS-10")
    async def test_items_change_vanish_and_lock_and_the_library_follows(
        self, account: Account, settings: Settings
    ) -> None:
        """5 % change, 2 % go, 1 % lock, and a page fails in the second run: it removes nothing, the third converges."""
        ids = account.fill(SYNCED)
        async with after_first_sync(account, settings) as (fleet, organization, source):
            await agrees(fleet, account, source)
            first = account.fake.asked_for(account.is_fetch)
            assert first in (0, SYNCED)
            twentieth = SYNCED // 20
            changed, gone = ids[:twentieth], ids[twentieth : twentieth + SYNCED // 50]
            locked = ids[twentieth + SYNCED // 50 :][: SYNCED // 100]
            account.change(changed)
            account.delete(gone)
            account.lock(locked)
            account.fake.fail(account.is_page, Fault(500), skip=1)
            await fleet.ask(SyncSource(organization_id=organization, source_id=source))
            await until(lambda: status_is(fleet, source, "failed"), "the second run to fail")
            assert await kept_documents(fleet, source) == SYNCED
            account.fake.heal()
            account.fake.log.clear()
            await fleet.ask(SyncSource(organization_id=organization, source_id=source))
            await until(lambda: settled(fleet, source), "the third run")
            await agrees(fleet, account, source)
            # What changed and what locked is asked for; nothing else is, save what one coarse clock can't tell apart.
            assert account.fake.asked_for(account.is_fetch) <= len(changed) + len(locked) + 40

    @pytest.mark.spec("SE-02", "LS-18")
    async def test_two_organizations_with_the_same_ids_never_meet(self, account: Account, settings: Settings) -> None:
        account.fill(20)
        async with after_first_sync(account, settings) as (fleet, _, source):
            other = await fleet.organization("Globex")
            other_source = await add_source(fleet, account, other)
            await fleet.ask(SyncSource(organization_id=other, source_id=other_source))
            await until(lambda: settled(fleet, other_source), "the other organization's sync")
            account.delete(list(account.truth())[:2])
            await fleet.ask(SyncSource(organization_id=other, source_id=other_source))
            await until(lambda: settled(fleet, other_source), "the other organization's second sync")
            assert (await kept_documents(fleet, source), await kept_documents(fleet, other_source)) == (20, 18)
            mixed = (
                "select count(*) from knowledge_base_documents d join knowledge_base_sources s on s.id = d.source_id "
                "where s.organization_id <> d.organization_id"
            )
            assert await fleet.fetchval(mixed) == 0
