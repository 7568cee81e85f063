"""The client that strangers' URLs are fetched with, against a listener that counts what reaches it."""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
import time
import zlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from kbsync.domain.errors import AddressRefused, ProviderRefused, ProviderUnreachable
from kbsync.http.addresses import AllowList
from kbsync.http.body import BodyLimits, Inflater
from kbsync.http.client import FetchLimits, SafeClient
from kbsync.http.errors import RedirectRefused, ResponseRefused
from tests.website.fake_site import FakeSite, Reply


@pytest.fixture
async def site() -> AsyncIterator[FakeSite]:
    async with FakeSite() as started:
        yield started


class StubResolver(AbstractResolver):
    """Answers each look-up with the next list of addresses; the last one repeats."""

    def __init__(self, *answers: list[str]) -> None:
        self._answers = list(answers)
        self.asked = 0

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        self.asked += 1
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return [
            ResolveResult(
                hostname=host,
                host=ip,
                port=port,
                family=socket.AF_INET6 if ":" in ip else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for ip in answer
        ]

    async def close(self) -> None:
        return None


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


async def test_the_environment_s_proxy_is_not_used(site: FakeSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    site.page("/", "x")
    assert (await site.client().get(site.url + "/")).status == 200


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


# --- bounds -------------------------------------------------------------------------------------------------------

TIGHT = FetchLimits(total_s=5, first_byte_s=0.3, body_bytes=100_000, drip_grace_s=0.2, min_bytes_per_s=1_000)


@pytest.mark.spec("SE-05")
async def test_a_body_over_its_bound_is_refused_or_cut(site: FakeSite) -> None:
    site.on("/big", Reply(body=b"x" * 300_000))
    site.on("/big-gzip", Reply(body=b"ab" * 300_000).gzipped())
    client = site.client(limits=TIGHT)
    for target in ("/big", "/big-gzip"):
        with pytest.raises(ResponseRefused, match="larger than 100000"):
            await client.get(site.at(target))
        response = await client.get(site.at(target), cut=True, max_bytes=10)
        assert (len(response.body), response.cut) == (10, True)


@pytest.mark.spec("SE-05")
async def test_bombs_and_stacked_encodings_are_refused(site: FakeSite) -> None:
    bomb = gzip.compress(b" " * (32 << 20))
    site.on("/bomb", Reply(body=bomb, headers={"Content-Encoding": "gzip"}))
    site.on("/stacked", Reply(body=gzip.compress(bomb), headers={"Content-Encoding": "gzip, gzip"}))
    site.on("/brotli", Reply(body=b"\x0b", headers={"Content-Encoding": "br"}))
    client = site.client(limits=FetchLimits(body_bytes=64 << 20))
    with pytest.raises(ResponseRefused, match="unpacks to far more"):
        await client.get(site.at("/bomb"))
    with pytest.raises(ResponseRefused, match="several times"):
        await client.get(site.at("/stacked"))
    with pytest.raises(ResponseRefused, match="not asked for"):
        await client.get(site.at("/brotli"))


@pytest.mark.parametrize(
    ("encoding", "packed"),
    [
        ("gzip", gzip.compress(b"hello", mtime=0)),
        ("x-gzip", gzip.compress(b"hel", mtime=0) + gzip.compress(b"lo", mtime=0)),
        ("deflate", zlib.compress(b"hello")),
        ("deflate", zlib.compress(b"hello")[2:-4]),
        ("identity", b"hello"),
        ("gzip", gzip.compress(b"hello", mtime=0) + b"\0\0\0"),
    ],
)
async def test_what_was_packed_honestly_is_unpacked(site: FakeSite, encoding: str, packed: bytes) -> None:
    site.on("/", Reply(body=packed, headers={"Content-Encoding": encoding}))
    assert (await site.client().get(site.url + "/")).body == b"hello"


def test_the_unpacker_never_holds_more_than_its_bound() -> None:
    inflater = Inflater("gzip", BodyLimits(1_000, cut=True))
    assert inflater.feed(gzip.compress(b"x" * 10_000_000)) is False
    assert len(inflater.output) == 1_000


@pytest.mark.spec("SE-05", "LS-07")
async def test_truncated_and_malformed_bodies_are_worth_a_retry(site: FakeSite) -> None:
    packed = gzip.compress(bytes(range(256)) * 50)
    site.on("/short", Reply(body=b"x" * 1_000, truncate_to=10))
    site.on("/short-gzip", Reply(body=packed[:-20], headers={"Content-Encoding": "gzip"}))
    site.on("/broken-gzip", Reply(body=b"\x1f\x8b" + b"junk" * 9, headers={"Content-Encoding": "gzip"}))
    site.on("/reset", Reply(reset=True))
    for target in ("/short", "/short-gzip", "/broken-gzip", "/reset"):
        with pytest.raises(ProviderUnreachable):
            await site.client().get(site.at(target))


@pytest.mark.spec("SE-05")
async def test_headers_without_end_are_refused(site: FakeSite) -> None:
    site.on("/long", Reply(headers={"X-Long": "x" * 40_000}))
    site.on("/many", Reply(headers={f"X-{n}": "x" for n in range(500)}))
    for target in ("/long", "/many"):
        with pytest.raises(ResponseRefused, match="headers"):
            await site.client().get(site.at(target))


@pytest.mark.spec("SE-05", "LS-07")
async def test_slow_answers_are_cut_off(site: FakeSite) -> None:
    site.on("/hang", Reply(hang=True))
    site.on("/drip", Reply(body=b"x" * 10_000, drip_s=0.02))
    client = site.client(limits=TIGHT)
    began = time.monotonic()
    with pytest.raises(ProviderUnreachable, match="no answer within"):
        await client.get(site.at("/hang"))
    with pytest.raises(ProviderUnreachable, match="too slowly"):
        await client.get(site.at("/drip"))
    whole = site.client(limits=FetchLimits(total_s=0.3))
    with pytest.raises(ProviderUnreachable, match="no complete answer"):
        await whole.get(site.at("/drip"))
    assert time.monotonic() - began < 3


@pytest.mark.spec("LS-07")
async def test_a_host_that_is_not_there_is_worth_a_retry() -> None:
    class Failing(StubResolver):
        async def resolve(
            self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
        ) -> list[ResolveResult]:
            raise OSError("no such name")

    client = SafeClient(user_agent="kbsync", resolver=Failing([]), allowed=AllowList.of(["127.0.0.1"]))
    with pytest.raises(ProviderUnreachable, match="doesn't resolve"):
        await client.get("http://nowhere.test/")
    with pytest.raises(ProviderUnreachable, match="connection failed"):
        await client.get("http://127.0.0.1:1/")
    await client.close()


def _own_certificate(folder: Path) -> ssl.SSLContext:
    """A certificate for 127.0.0.1 that nobody vouches for."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    today = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), today, today + timedelta(1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = folder / "own.pem"
    pem.write_bytes(
        certificate.public_bytes(Encoding.PEM) + key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    return context


@pytest.mark.spec("LS-07")
async def test_a_certificate_that_nobody_vouches_for_is_refused_for_good(tmp_path: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=_own_certificate(tmp_path))
    port = server.sockets[0].getsockname()[1]
    client = SafeClient(user_agent="kbsync", allowed=AllowList.of(["127.0.0.1"]))
    with pytest.raises(ProviderRefused, match="certificate"):
        await client.get(f"https://127.0.0.1:{port}/")
    await client.close()
    server.close()
    await server.wait_closed()


async def test_connections_are_kept(site: FakeSite) -> None:
    site.page("/", "x" * 100_000)
    client = site.client()
    for _ in range(5):
        await client.get(site.url + "/")
    session = client._session
    assert session is not None
    pooled = session.connector._conns  # type: ignore[union-attr]
    assert sum(len(kept) for kept in pooled.values()) == 1


async def test_a_cancelled_fetch_leaves_nothing_behind(site: FakeSite) -> None:
    site.on("/hang", Reply(hang=True))
    client = site.client()
    task = asyncio.create_task(client.get(site.at("/hang")))
    while not site.requests:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    session = client._session
    assert session is not None
    assert not session.connector._acquired  # type: ignore[union-attr]
