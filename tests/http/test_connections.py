"""How connections end that are slow, not there, not vouched for or given up, and that the others are kept."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from aiohttp.abc import ResolveResult
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from kbsync.domain.errors import ProviderRefused, ProviderUnreachable
from kbsync.http.addresses import AllowList
from kbsync.http.client import FetchLimits, SafeClient
from tests.http.support import TIGHT, StubResolver
from tests.website.fake_site import FakeSite, Reply


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


async def test_the_environment_s_proxy_is_not_used(site: FakeSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    site.page("/", "x")
    assert (await site.client().get(site.url + "/")).status == 200
