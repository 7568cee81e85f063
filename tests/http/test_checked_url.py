"""An address that is handed to somebody else to follow: judged as one that is fetched (LS-17, LS-25)."""

from __future__ import annotations

import socket

import pytest
from aiohttp.abc import ResolveResult

from kbsync.domain.errors import AddressRefused, ProviderUnreachable
from kbsync.http.addresses import AllowList
from kbsync.http.client import SafeClient
from tests.http.support import StubResolver

SIGNED = "https://files.test/a%2Fb%20c/~x?X-Signature=aB%2B/=&X-Expires=60&b=1&a=2"


def client(*answers: list[str], allowed: AllowList = AllowList()) -> SafeClient:  # noqa: B008  # frozen, empty
    return SafeClient(user_agent="kbsync", resolver=StubResolver(*answers), allowed=allowed)


@pytest.mark.spec("LS-25")
async def test_a_signed_address_stays_letter_for_letter() -> None:
    assert await client(["8.8.8.8", "2001:4860:4860::8888"]).checked_url(SIGNED) == SIGNED
    assert await client(["8.8.8.8"]).checked_url("https://files.test:443/a#page=2") == "https://files.test/a"


@pytest.mark.spec("LS-17", "LS-25", "SE-03")
@pytest.mark.parametrize(
    "answers", [["10.0.0.7"], ["8.8.8.8", "127.0.0.1"], ["169.254.169.254"], ["::1"], ["64:ff9b::a00:1"]]
)
async def test_a_name_with_one_private_address_is_refused(answers: list[str]) -> None:
    with pytest.raises(AddressRefused, match="address not allowed"):
        await client(answers).checked_url(SIGNED)


@pytest.mark.spec("LS-17", "LS-25")
async def test_what_the_deployment_opens_is_open() -> None:
    opened = AllowList.of(["10.0.0.0/8"])
    assert await client(["10.0.0.7"], allowed=opened).checked_url("http://files.test:8080/a") == (
        "http://files.test:8080/a"
    )
    with pytest.raises(AddressRefused):
        await client(["10.0.0.7", "192.168.0.1"], allowed=opened).checked_url("http://files.test/a")


@pytest.mark.spec("LS-25")
@pytest.mark.parametrize(
    "url", ["", "/a", "ftp://files.test/", "https://u:p@files.test/", "https://", "https://fi les.test/", "http://1.2/"]
)
async def test_what_is_no_whole_http_address_is_refused(url: str) -> None:
    with pytest.raises(AddressRefused):
        await client(["8.8.8.8"]).checked_url(url)


@pytest.mark.spec("LS-25")
async def test_a_name_that_does_not_resolve_may_do_so_later() -> None:
    class Failing(StubResolver):
        async def resolve(
            self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
        ) -> list[ResolveResult]:
            raise OSError("no such name")

    with pytest.raises(ProviderUnreachable, match="doesn't resolve"):
        await SafeClient(user_agent="kbsync", resolver=Failing([])).checked_url(SIGNED)
