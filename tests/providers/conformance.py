"""What every provider with an API must do, run against its own fake server on a real socket (LS-05 to LS-13, LS-18).

A provider's tests subclass `Conformance`, give it an `account` fixture, and get all of this:

    class TestExample(Conformance):
        @pytest.fixture
        async def account(self) -> AsyncIterator[Account]: ...
"""

from __future__ import annotations

import logging
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager

import pytest
from cryptography.fernet import Fernet

from kbsync.domain.errors import (
    CredentialsRefused,
    ItemGone,
    ItemUnreadable,
    ProviderBusy,
    ProviderError,
    ProviderRefused,
    ProviderUnreachable,
)
from kbsync.domain.ids import QueueName
from kbsync.domain.requests import SyncSource
from kbsync.http.addresses import AllowList
from kbsync.http.client import FetchLimits, SafeClient
from kbsync.library import data_sources, sources
from kbsync.library.credentials import Vault
from kbsync.providers.contract import (
    Checkable,
    Content,
    DocumentRef,
    ListedDocument,
    ListedSection,
    ListingEnd,
    ListingPart,
    Provider,
    SourceSetup,
    UnreadableItem,
)
from kbsync.providers.registry import ProviderEnvironment, build
from kbsync.settings import Settings
from tests.acceptance.deployment import Deployment, deployed, until
from tests.providers.fake_api import Asked, FakeApi, Fault

# The suite runs small on every change; `make scale` runs it with 2,000 items to sync and 10,000 to list.
SCALE = 1 if os.environ.get("KBSYNC_FULL_SCALE") else 5
SYNCED, LISTED = 2_000 // SCALE, 10_000 // SCALE
SECRET = "s3cret-" + "k" * 24
# Bounds short enough that a silent server is given up in a test, long enough for a busy machine.
LIMITS = FetchLimits(total_s=6, first_byte_s=1.5, connect_s=5, body_bytes=20_000_000, drip_grace_s=2)
PLENTY = {"source_sync": {"count": 100_000, "window_s": 1}, "document_sync": {"count": 100_000, "window_s": 1}}


class Account(ABC):
    """A made-up account at the fake server. External ids are the library's ids of the items."""

    type: str
    fake: FakeApi

    @abstractmethod
    def config(self) -> dict[str, object]: ...

    @abstractmethod
    def credentials(self) -> dict[str, str]:
        """With SECRET in it, so that a test can look for it where it must not be."""

    @abstractmethod
    def fill(self, count: int) -> list[str]:
        """Puts `count` more readable items into a few sections; answers their external ids."""

    @abstractmethod
    def truth(self) -> dict[str, str]:
        """Every item that a sync must end up with, unreadable ones left out: external id -> a word of its text."""

    @abstractmethod
    def change(self, ids: Iterable[str]) -> None:
        """New text (with a new word) and a later time."""

    @abstractmethod
    def delete(self, ids: Iterable[str]) -> None: ...

    @abstractmethod
    def lock(self, ids: Iterable[str]) -> None:
        """Still listed as far as the provider lists such items, and no longer readable with these credentials."""

    @abstractmethod
    def say(self, item: str, *, title: str, text: str) -> None:
        """Gives one item this title and a paragraph of this text."""

    @abstractmethod
    def revoke(self) -> None:
        """From now on the credentials are refused as the provider refuses them."""

    @abstractmethod
    def is_page(self, asked: Asked) -> bool:
        """Whether a request is one page of the listing of items."""

    @abstractmethod
    def is_fetch(self, asked: Asked) -> bool:
        """Whether a request fetches one document's content; never, where the listing brings it."""

    @abstractmethod
    def repeat_cursor(self) -> None:
        """From now on a page of the listing points to itself as its next one."""

    @abstractmethod
    def empty_page(self) -> None:
        """From now on the second page of the listing is empty and has a next one."""

    # What not every provider has

    lists_unreadable = True  # `lock` leaves an item in the listing (as unreadable), or the fetch says so
    word_in_title_only = False


@asynccontextmanager
async def provider_of(account: Account, limits: FetchLimits = LIMITS) -> AsyncIterator[Provider]:
    client = SafeClient(user_agent="kbsync-test", allowed=AllowList.of(["127.0.0.1"]), limits=limits)
    setup = SourceSetup(1, 1, account.config(), account.credentials())
    provider = build(account.type, setup, ProviderEnvironment(client))
    try:
        yield provider
    finally:
        await provider.close()
        await client.close()


async def listing(provider: Provider) -> list[ListingPart]:
    return [part async for part in provider.list_items()]


def listed(parts: Iterable[ListingPart]) -> list[str]:
    return [part.external_id for part in parts if isinstance(part, ListedDocument | UnreadableItem)]


def end_of(parts: list[ListingPart]) -> ListingEnd:
    assert isinstance(parts[-1], ListingEnd)
    return parts[-1]


async def text_of(provider: Provider, part: ListedDocument) -> Content:
    if part.content is not None:
        return part.content
    found = await provider.fetch_document(DocumentRef(part.external_id, part.url))
    assert isinstance(found, Content)
    return found


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


class Conformance:
    """Names that matter to a person are in the tests; what is left to a provider is in `Account`."""

    # --- the listing ---

    @pytest.mark.spec("LS-08", "LS-18")
    async def test_a_listing_has_every_item_once_and_says_that_it_is_complete(self, account: Account) -> None:
        ids = account.fill(250)
        async with provider_of(account) as provider:
            parts = await listing(provider)
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
        async with provider_of(account) as provider:
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
        async with provider_of(account) as provider:
            end = end_of(await listing(provider))
        assert not end.complete
        assert end.reason
        assert account.fake.asked_for(account.is_page) <= 12

    @pytest.mark.spec("LS-18")
    async def test_an_empty_page_with_a_next_one_is_not_the_end(self, account: Account) -> None:
        ids = account.fill(250)
        account.empty_page()
        async with provider_of(account) as provider:
            parts = await listing(provider)
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
        async with self._synced(account, settings) as (fleet, organization, source):
            await self._agrees(fleet, account, source)
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
            await until(lambda: _status_is(fleet, source, "failed"), "the second run to fail")
            assert await _kept(fleet, source) == SYNCED
            account.fake.heal()
            account.fake.log.clear()
            await fleet.ask(SyncSource(organization_id=organization, source_id=source))
            await until(lambda: _settled(fleet, source), "the third run")
            await self._agrees(fleet, account, source)
            # What changed and what locked is asked for; nothing else is, save what one coarse clock can't tell apart.
            assert account.fake.asked_for(account.is_fetch) <= len(changed) + len(locked) + 40

    @pytest.mark.spec("SE-02", "LS-18")
    async def test_two_organizations_with_the_same_ids_never_meet(self, account: Account, settings: Settings) -> None:
        account.fill(20)
        async with self._synced(account, settings) as (fleet, _, source):
            other = await fleet.organization("Globex")
            other_source = await _add_source(fleet, account, other)
            await fleet.ask(SyncSource(organization_id=other, source_id=other_source))
            await until(lambda: _settled(fleet, other_source), "the other organization's sync")
            account.delete(list(account.truth())[:2])
            await fleet.ask(SyncSource(organization_id=other, source_id=other_source))
            await until(lambda: _settled(fleet, other_source), "the other organization's second sync")
            assert (await _kept(fleet, source), await _kept(fleet, other_source)) == (20, 18)
            mixed = (
                "select count(*) from knowledge_base_documents d join knowledge_base_sources s on s.id = d.source_id "
                "where s.organization_id <> d.organization_id"
            )
            assert await fleet.fetchval(mixed) == 0

    @asynccontextmanager
    async def _synced(self, account: Account, settings: Settings) -> AsyncIterator[tuple[Deployment, int, int]]:
        keys = Fernet.generate_key().decode()
        with_keys = Settings(**{**settings.model_dump(), "credentials_keys": keys, "sync_concurrency": 50})
        async with deployed(with_keys) as fleet:
            organization = await fleet.organization()
            source = await _add_source(fleet, account, organization)
            await fleet.ask(SyncSource(organization_id=organization, source_id=source))
            await until(lambda: _settled(fleet, source), "the first sync", 120)
            yield fleet, organization, source

    async def _agrees(self, fleet: Deployment, account: Account, source: int) -> None:
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


async def _add_source(fleet: Deployment, account: Account, organization: int) -> int:
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


async def _status_is(fleet: Deployment, source: int, status: str) -> bool:
    return await fleet.fetchval("select sync_status from knowledge_base_sources where id = $1", source) == status


async def _settled(fleet: Deployment, source: int) -> bool:
    """Synced, and nothing of it is under way any more."""
    if not await _status_is(fleet, source, "synced"):
        return False
    for name in (QueueName.SYNC, QueueName.CHUNKS):
        counts = await fleet.runtime.fleet.queue(name).counts()
        if counts.waiting + counts.active + counts.delayed:
            return False
    return True


async def _kept(fleet: Deployment, source: int) -> int:
    query = "select count(*) from knowledge_base_documents where source_id = $1 and discarded_at is null"
    found = await fleet.fetchval(query, source)
    assert isinstance(found, int)
    return found
