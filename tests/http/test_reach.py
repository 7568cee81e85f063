"""Where the client that strangers' URLs are fetched with may go: the addresses it connects to, the hops it follows."""

from __future__ import annotations

import pytest

from kbsync.domain.errors import AddressRefused
from kbsync.http.addresses import AllowList
from kbsync.http.client import SafeClient
from kbsync.http.errors import RedirectRefused
from tests.http.support import StubResolver
from tests.website.fake_site import FakeSite, Reply

# --- addresses ----------------------------------------------------------------------------------------------------


@pytest.mark.spec("LS-17", "SE-03")
@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "2130706433",
        "127.1",
        "0x7f.1",
        "0177.0.0.1",
        "%31%32%37.0.0.1",
        "[::1]",
        "[::]",
        "[::1%25lo]",
        "[::ffff:127.0.0.1]",
        "[::FFFF:7F00:0001]",
        "[0:0:0:0:0:ffff:127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "localhost",
        "metadata.google.internal",
        "169.254.169.254",
        "[fd00:ec2::254]",
    ],
)
async def test_no_spelling_of_an_inner_address_is_connected_to(site: FakeSite, host: str) -> None:
    client = site.client(allowed=AllowList(), ports={80, 443, site.port})
    with pytest.raises(AddressRefused):
        await client.get(f"http://{host}:{site.port}/")
    assert site.requests == []


@pytest.mark.spec("LS-17", "SE-03")
async def test_one_inner_address_among_the_answers_refuses_the_name(site: FakeSite) -> None:
    resolver = StubResolver(["8.8.8.8", "127.0.0.1"])
    client = site.client(allowed=AllowList(), resolver=resolver, ports={site.port})
    with pytest.raises(AddressRefused, match="address not allowed"):
        await client.get(f"http://rebind.test:{site.port}/")
    assert resolver.asked == 1
    assert site.requests == []


@pytest.mark.spec("LS-17", "SE-03")
async def test_a_name_that_is_rebound_is_judged_again_and_never_looked_up_twice_for_one_connection() -> None:
    async with FakeSite() as outer:
        outer.on("/", Reply(body="outer", headers={"Connection": "close"}))
        resolver = StubResolver(["127.0.0.1"], ["127.0.0.2"])
        client = outer.client(allowed=AllowList.of(["127.0.0.1"]), resolver=resolver)
        assert (await client.get(f"http://rebind.test:{outer.port}/")).body == b"outer"
        assert resolver.asked == 1
        # The checked answer is kept for the next connection; once it is forgotten the new one is judged, and refused.
        assert (await client.get(f"http://rebind.test:{outer.port}/")).body == b"outer"
        assert resolver.asked == 1
        session = client._session
        assert session is not None
        session.connector.clear_dns_cache()  # type: ignore[union-attr]
        with pytest.raises(AddressRefused):
            await client.get(f"http://rebind.test:{outer.port}/")
        assert len(outer.requests) == 2


@pytest.mark.spec("LS-17", "SE-03")
async def test_the_connection_itself_is_checked_when_all_else_was_passed_by(site: FakeSite) -> None:
    client = site.client(allowed=AllowList(), ports={site.port})
    session = client._opened()
    with pytest.raises(AddressRefused):
        await session.get(site.url)
    assert site.requests == []


@pytest.mark.spec("LS-17", "SE-03")
@pytest.mark.parametrize(
    "location",
    [
        "http://127.0.0.2:{port}/inner",
        "http://[::ffff:127.0.0.1]:{port}/inner",
        "http://[::1]:{port}/inner",
        "http://169.254.169.254/latest/",
        "http://0x7f.1:{port}/inner",
    ],
)
async def test_each_redirect_is_judged_anew(site: FakeSite, location: str) -> None:
    site.redirect("/", location.format(port=site.port))
    with pytest.raises((AddressRefused, RedirectRefused)):
        await site.client().get(site.url + "/")
    assert site.targets == ["/"]


@pytest.mark.spec("SE-03")
@pytest.mark.parametrize("location", ["file:///etc/passwd", "ftp://x.test/", "gopher://x.test/", "http://u:p@x.test/"])
async def test_a_redirect_leaves_the_web_s_schemes_nowhere(site: FakeSite, location: str) -> None:
    site.redirect("/", location)
    with pytest.raises(RedirectRefused):
        await site.client().get(site.url + "/")


@pytest.mark.spec("LS-17")
async def test_an_odd_port_is_open_for_listed_addresses_alone() -> None:
    client = SafeClient(user_agent="kbsync", allowed=AllowList())
    with pytest.raises(AddressRefused, match="port 8080 not allowed"):
        await client.get("http://8.8.8.8:8080/")
    resolved = SafeClient(user_agent="kbsync", resolver=StubResolver(["8.8.8.8"]))
    with pytest.raises(AddressRefused, match="port 22 not allowed"):
        await resolved.get("http://name.test:22/")
    await client.close()
    await resolved.close()


@pytest.mark.spec("LS-17")
async def test_an_allow_list_belongs_to_one_client(site: FakeSite) -> None:
    site.page("/", "x")
    opened, closed = site.client(), site.client(allowed=AllowList(), ports={site.port})
    assert (await opened.get(site.url + "/")).status == 200
    with pytest.raises(AddressRefused):
        await closed.get(site.url + "/")
    assert len(site.requests) == 1


# --- redirects ----------------------------------------------------------------------------------------------------


@pytest.mark.spec("LS-16")
async def test_redirects_are_followed_by_hand_and_told(site: FakeSite) -> None:
    site.redirect("/a", "/b?x=1", 301)
    site.redirect("/b", "c", 302)
    site.page("/c", "end")
    asked: list[str] = []

    async def on_hop(url: str) -> None:
        asked.append(url)

    response = await site.client().get(site.at("/a"), on_hop=on_hop)
    assert (response.status, response.url) == (200, site.at("/c"))
    assert [(hop.status, hop.url) for hop in response.hops] == [(301, site.at("/a")), (302, site.at("/b?x=1"))]
    assert asked == [site.at("/b?x=1"), site.at("/c")]


@pytest.mark.spec("LS-16")
async def test_a_caller_can_refuse_a_hop_before_it_is_fetched(site: FakeSite) -> None:
    site.redirect("/a", "/b")

    async def refuse(url: str) -> None:
        raise RedirectRefused("no")

    with pytest.raises(RedirectRefused, match="no"):
        await site.client().get(site.at("/a"), on_hop=refuse)
    assert site.targets == ["/a"]


async def test_loops_and_endless_chains_end(site: FakeSite) -> None:
    site.redirect("/loop", "/loop2")
    site.redirect("/loop2", "/loop#again")
    with pytest.raises(RedirectRefused, match="loop"):
        await site.client().get(site.at("/loop"))
    site.answer(
        "/n", lambda asked: Reply(302, headers={"Location": f"/n?{int(asked.target.partition('?')[2] or 0) + 1}"})
    )
    site.requests.clear()
    with pytest.raises(RedirectRefused, match="more than 5"):
        await site.client().get(site.at("/n"))
    assert len(site.requests) == 6


async def test_headers_are_asked_for_hop_by_hop(site: FakeSite) -> None:
    site.redirect("/a", "/b")
    site.page("/b", "x")
    await site.client().get(site.at("/a"), headers=lambda url: {"X-Secret": "1"} if url.endswith("/a") else {})
    assert ["X-Secret" in asked.headers for asked in site.requests] == [True, False]
