"""What every provider's API has in common: statuses, quotas, and credentials that stay at home (LS-07, RL-05)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest
from aiohttp import web

from kbsync.domain.errors import (
    AddressRefused,
    CredentialsRefused,
    ItemGone,
    ItemUnreadable,
    ProviderBusy,
    ProviderError,
    ProviderRefused,
    ProviderUnreachable,
)
from kbsync.http.addresses import AllowList
from kbsync.http.client import SafeClient
from kbsync.providers.api import JsonApi

Reply = Callable[[web.Request], web.Response]


class Host:
    def __init__(self) -> None:
        self.reply: Reply = lambda request: web.json_response({})
        self.asked: list[tuple[str, str | None]] = []
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        await request.read()
        self.asked.append((request.path_qs, request.headers.get("Authorization")))
        return self.reply(request)


@pytest.fixture
async def host() -> AsyncIterator[Host]:
    made = Host()
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", made.answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield made
    await runner.cleanup()


class Clock:
    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 3))
        self.now += seconds


@pytest.fixture
async def client() -> AsyncIterator[SafeClient]:
    made = SafeClient(user_agent="kbsync-test", allowed=AllowList.of(["127.0.0.1"]))
    yield made
    await made.close()


def api_of(host: Host, client: SafeClient, clock: Clock, per_second: float | None = None) -> JsonApi:
    return JsonApi(
        client,
        host.url + "/api/",
        headers={"Authorization": "Bearer secret"},
        what="Example",
        per_second=per_second,
        sleep=clock.sleep,
        clock=clock,
    )


@pytest.mark.parametrize(
    ("status", "body", "headers", "error"),
    [
        (400, '{"message": "bad filter"}', {}, ProviderRefused),
        (401, "{}", {}, CredentialsRefused),
        (403, "{}", {}, ItemUnreadable),
        (404, "{}", {}, ItemGone),
        (410, "", {}, ItemGone),
        (408, "", {}, ProviderUnreachable),
        (425, "", {}, ProviderUnreachable),
        (429, "slow down", {}, ProviderBusy),
        (500, "<html>", {}, ProviderUnreachable),
        (503, "<html>", {}, ProviderUnreachable),
        (503, "", {"Retry-After": "7"}, ProviderBusy),
        (302, "", {"Location": "http://elsewhere.test/"}, ProviderRefused),
        (200, "<html>", {}, ProviderUnreachable),
        (200, '{"cut": ', {}, ProviderUnreachable),
        (200, "[" * 200_000, {}, ProviderUnreachable),
        (204, "", {}, ProviderUnreachable),
    ],
)
async def test_every_ending_is_one_of_the_provider_errors(
    host: Host, client: SafeClient, status: int, body: str, headers: dict[str, str], error: type[ProviderError]
) -> None:
    host.reply = lambda request: web.Response(status=status, text=body, headers=headers)
    with pytest.raises(error) as raised:
        await api_of(host, client, Clock()).get("items")
    assert type(raised.value) is error
    assert "secret" not in str(raised.value)
    if isinstance(raised.value, ProviderBusy) and headers:
        assert raised.value.retry_after_s == 7


async def test_a_failure_says_which_call_or_which_host_it_was(host: Host, client: SafeClient) -> None:
    host.reply = lambda request: web.json_response({}, status=500)
    with pytest.raises(ProviderUnreachable, match=r"answered 500 for /api/v1/things$"):
        await api_of(host, client, Clock()).get("v1/things", {"cursor": "long"})
    host.url = "http://127.0.0.1:9"
    with pytest.raises(ProviderUnreachable, match=r"^Example at 127\.0\.0\.1:9 can't be reached: "):
        await api_of(host, client, Clock()).get("v1/things")
    host.url = "http://ada:pw@127.0.0.1:9"
    with pytest.raises(AddressRefused, match=r"^Example at 127\.0\.0\.1:9 can't be asked: .* in the URL\.$"):
        await api_of(host, client, Clock()).get("v1/things")


async def test_credentials_stay_at_the_apis_own_origin(host: Host, client: SafeClient) -> None:
    api = api_of(host, client, Clock())
    await api.get("items", {"q": "a b", "limit": 2})
    await api.get(host.url + "/api/next?cursor=x")
    await api.post("search", {"query": ""})
    assert host.asked == [
        ("/api/items?q=a+b&limit=2", "Bearer secret"),
        ("/api/next?cursor=x", "Bearer secret"),
        ("/api/search", "Bearer secret"),
    ]
    for elsewhere in (
        "http://elsewhere.test/api/next",
        "//elsewhere.test/",
        host.url.replace("http", "https") + "/api",
    ):
        with pytest.raises(ProviderUnreachable, match="another host"):
            await api.get(elsewhere)
    assert len(host.asked) == 3


async def test_a_run_keeps_below_the_rate_and_waits_for_a_spent_window(host: Host, client: SafeClient) -> None:
    clock = Clock()
    api = api_of(host, client, clock, per_second=4)
    for _ in range(3):
        await api.get("items")
    assert clock.slept == [0.25, 0.25]
    host.reply = lambda request: web.json_response({}, headers={"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "5"})
    await api.get("items")
    await api.get("items")
    assert clock.slept[-1] == 5.0
    host.reply = lambda request: web.json_response(
        {}, headers={"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "600"}
    )
    await api.get("items")
    with pytest.raises(ProviderBusy) as raised:  # too long to hold a worker: the job is delayed instead
        await api.get("items")
    assert raised.value.retry_after_s is not None
    assert 590 < raised.value.retry_after_s <= 600


async def test_where_a_file_is_kept_is_asked_for_and_not_gone_to(host: Host, client: SafeClient) -> None:
    api = api_of(host, client, Clock())
    host.reply = lambda request: web.Response(status=302, headers={"Location": "https://media.test/f?token=1"})
    assert await api.redirect("files/1") == "https://media.test/f?token=1"
    host.reply = lambda request: web.Response(body=b"the file itself")
    assert await api.redirect("files/1") is None
    assert [path for path, _ in host.asked] == ["/api/files/1", "/api/files/1"]
    for status, headers, error in (
        (404, {}, ItemGone),
        (401, {}, CredentialsRefused),
        (429, {"Retry-After": "7"}, ProviderBusy),
        (302, {"Location": "mailto:a@b.test"}, ProviderRefused),
        (304, {}, ProviderRefused),
    ):
        host.reply = lambda request, status=status, headers=headers: web.Response(  # type: ignore[misc]
            status=status, headers=headers
        )
        with pytest.raises(error):
            await api.redirect("files/1")
