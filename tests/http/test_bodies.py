"""What an answer may weigh: bodies packed and plain, cut short or broken, and headers (SE-05)."""

from __future__ import annotations

import gzip
import zlib

import pytest

from kbsync.domain.errors import ProviderUnreachable
from kbsync.http.body import BodyLimits, Inflater
from kbsync.http.client import FetchLimits
from kbsync.http.errors import ResponseRefused
from tests.http.support import TIGHT
from tests.website.fake_site import FakeSite, Reply


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
