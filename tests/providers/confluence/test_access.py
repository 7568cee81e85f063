"""Confluence: whose the credentials are, what each refusal means, and how a source is set up."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from aiohttp import ClientSession

from kbsync.domain.errors import (
    CredentialsRefused,
    ItemGone,
    ProviderBusy,
    ProviderError,
    ProviderRefused,
    ProviderUnreachable,
)
from kbsync.providers.confluence.config import authorization_of, confluence_config
from kbsync.providers.contract import Checkable, DocumentRef, ListedDocument
from tests.providers.account import SECRET
from tests.providers.confluence.accounts import CloudAccount, GatewayAccount
from tests.providers.confluence.fake import BASIC, GATEWAY, PUBLIC_BASE, FakeConfluence
from tests.providers.fake_api import Fault
from tests.providers.listings import end_of, listed, listing, parts_of, provider_of


@pytest.mark.spec("LS-18")
async def test_a_token_with_scopes_goes_through_the_gateway_alone(fake: FakeConfluence) -> None:
    account = GatewayAccount(fake)
    ids = account.fill(250)
    parts = await parts_of(account)
    assert (sorted(listed(parts)), end_of(parts).complete) == (sorted(ids), True)
    assert all(asked.path.startswith(GATEWAY + "/") for asked in fake.log)
    assert all(str(part.url).startswith(PUBLIC_BASE) for part in parts if isinstance(part, ListedDocument))
    at_the_site = CloudAccount(fake)
    with pytest.raises(CredentialsRefused, match="cloud_id"):
        await parts_of(at_the_site)


@pytest.mark.spec("LS-07")
async def test_a_missing_scope_is_no_wrong_token(fake: FakeConfluence) -> None:
    account = GatewayAccount(fake)
    account.fill(3)
    fake.missing_scopes = ("rest/api/user/current", "users-bulk")
    assert end_of(await parts_of(account)).complete
    fake.missing_scopes = ("api/v2/spaces",)
    with pytest.raises(ProviderRefused, match="lacks a scope") as raised:
        await parts_of(account)
    assert not isinstance(raised.value, CredentialsRefused)


@pytest.mark.spec("LS-09", "LS-07")
async def test_a_stranger_is_never_believed(fake: FakeConfluence, either: CloudAccount) -> None:
    """An expired session on a public site: 200 with less, and 404 for every page that is not public."""
    ids = either.fill(3)
    fake.is_stranger = True
    async with provider_of(either) as provider:
        with pytest.raises(CredentialsRefused, match="knows nobody"):
            await listing(provider)
        fake.items[ids[0]].hidden = True
        with pytest.raises(CredentialsRefused):
            await provider.fetch_document(DocumentRef(ids[0], None))
        fake.is_stranger = False
        with pytest.raises(ItemGone):
            await provider.fetch_document(DocumentRef(ids[0], None))


IN_HALF_AN_HOUR = "a time that the test fills in"
QUOTA = {
    "X-RateLimit-Limit": "65000", "X-RateLimit-Remaining": "0", "X-RateLimit-NearLimit": "true",
    "RateLimit-Reason": "confluence-quota-tenant-based", "X-RateLimit-Reset": IN_HALF_AN_HOUR,
}  # fmt: skip
LICENCE = '{"statusCode": 403, "message": "Current user not permitted to use Confluence"}'
SCOPE = '{"code": 401, "message": "Unauthorized; scope does not match"}'


@pytest.mark.spec("LS-07", "RL-05")
@pytest.mark.parametrize(
    ("fault", "error", "words"),
    [
        (Fault(401, "<html>log in</html>", "text/html"), CredentialsRefused, "new token"),
        (Fault(401, SCOPE), ProviderRefused, "scope"),
        (Fault(403, LICENCE), ProviderRefused, "may not use Confluence"),
        (Fault(403, '{"message": "IP allowlist"}'), ProviderRefused, "allow-list"),
        (Fault(403), ProviderRefused, "does not list"),
        (Fault(404), ProviderRefused, "Check the address"),
        (Fault(400, '{"errors": [{"title": "bad sort"}]}'), ProviderRefused, "bad sort"),
        (Fault(429, headers={**QUOTA, "Retry-After": "40"}), ProviderBusy, "429"),
        (Fault(429, headers=QUOTA), ProviderBusy, "429"),
        (Fault(429, headers={"Retry-After": "0"}), ProviderBusy, "429"),
        (Fault(503, headers={"Retry-After": "12"}), ProviderBusy, "503"),
        (Fault(504, "<html>", "text/html"), ProviderUnreachable, "504"),
        (Fault(302, headers={"Location": "/login"}), ProviderRefused, "redirect"),
    ],
)
async def test_every_refusal_says_what_it_is(
    either: CloudAccount, fault: Fault, error: type[ProviderError], words: str
) -> None:
    either.fill(1)
    reset = (datetime.now(UTC) + timedelta(minutes=30)).strftime("%Y-%m-%dT%H:%MZ")
    headers = {name: value.replace(IN_HALF_AN_HOUR, reset) for name, value in fault.headers.items()}
    either.fake.fail(either.is_page, replace(fault, headers=headers))
    with pytest.raises(ProviderError, match=words) as raised:
        await parts_of(either)
    assert type(raised.value) is error
    if isinstance(raised.value, ProviderBusy):
        wait = raised.value.retry_after_s
        assert wait is not None
        stated = fault.headers.get("Retry-After")
        assert wait == max(1, int(stated)) if stated else 1_600 < wait <= 1_800


@pytest.mark.spec("LS-19")
async def test_a_check_says_who_sees_what_and_what_is_missing(fake: FakeConfluence, either: CloudAccount) -> None:
    either.fill(1)
    async with provider_of(either) as provider:
        assert isinstance(provider, Checkable)
        access = await provider.check()
        assert (access.account, access.sees, access.notes) == ("Ada Lovelace", ("Support",), ())
        fake.permissions["SUP"] = "refused"
        assert "space_audience" in (await provider.check()).notes[0]
        fake.spaces.clear()
        assert "see no space" in (await provider.check()).notes[0]
    either.more = {"base_url": fake.url + "/elsewhere"}
    async with provider_of(either) as provider:
        assert isinstance(provider, Checkable)
        with pytest.raises(ProviderRefused, match="Check the address"):
            await provider.check()


def test_addresses_and_credentials_are_read_as_each_deployment_wants_them() -> None:
    def config(**fields: object) -> object:
        return confluence_config({"base_url": "https://acme.atlassian.net", **fields})

    assert confluence_config({"base_url": "https://acme.atlassian.net"}).api == "https://acme.atlassian.net/wiki"
    assert confluence_config({"base_url": "https://acme.atlassian.net/wiki/"}).site == "https://acme.atlassian.net/wiki"
    behind = confluence_config({"base_url": "https://acme.atlassian.net", "cloud_id": "ab-1"})
    assert (behind.api, behind.site) == (
        "https://api.atlassian.com/ex/confluence/ab-1/wiki", "https://acme.atlassian.net/wiki"
    )  # fmt: skip
    own = confluence_config({"base_url": "https://docs.acme.test/confluence", "deployment": "data_center"})
    assert own.api == "https://docs.acme.test/confluence"
    assert authorization_of(behind, {"email": "ada@acme.test", "api_token": SECRET}) == BASIC
    assert authorization_of(own, {"token": SECRET}) == f"Bearer {SECRET}"
    assert authorization_of(own, {"username": "ada", "password": "p"}).startswith("Basic ")
    for wrong in ({}, {"email": "a@b.test"}, {"token": SECRET}, {"access_token": "bad\nheader"}):
        with pytest.raises(CredentialsRefused):
            authorization_of(behind, wrong)
    for field, value in (("base_url", "ftp://x.test"), ("deployment", "server"), ("cloud_id", "a/b"), ("nonsense", 1)):
        with pytest.raises(ProviderRefused, match=field):
            config(**{field: value})


async def test_the_fake_is_as_particular_as_the_real_one(fake: FakeConfluence, cloud: CloudAccount) -> None:
    ids = cloud.fill(3)
    fake.items[ids[0]].status, fake.items[ids[1]].status = "archived", "trashed"
    pages = f"{fake.url}/wiki/api/v2/spaces/{fake.spaces['SUP']['id']}/pages"
    async with ClientSession(headers={"Authorization": BASIC}) as client:
        async with client.get(pages, params={"limit": "1"}) as answer:
            value = await answer.json()
            assert value["_links"]["next"].startswith("/wiki/api/v2/")
            assert not value["_links"]["next"].endswith("=")
            assert 'rel="next"' in answer.headers["Link"]
        async with client.get(pages) as answer:
            assert [one["id"] for one in (await answer.json())["results"]] == [ids[0], ids[2]]
        for query, status in (({"body-format": "view"}, 400), ({"cursor": "old"}, 400)):
            async with client.get(pages, params=query) as answer:
                assert (answer.status, "errors" in await answer.json()) == (status, True)
        one = f"{fake.url}/wiki/api/v2/pages/{ids[1]}"
        for query, status in (({}, 404), ({"status": "trashed"}, 200)):
            async with client.get(one, params=query) as answer:
                assert answer.status == status
