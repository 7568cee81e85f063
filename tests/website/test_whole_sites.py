"""Whole sites: traps beside real pages (D09), addresses of every spelling (D08), and the PostgreSQL manual."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbsync.domain.errors import AddressRefused, ProviderRefused
from kbsync.domain.url_scope import host_and_port
from kbsync.http.addresses import AllowList
from kbsync.http.client import Response, SafeClient
from kbsync.providers.contract import CrawledPage, FoundUrl, PageRefused, SourceSetup
from kbsync.providers.website.page import read_page
from kbsync.providers.website.provider import WebsiteProvider
from tests.conftest import POSTGRES_MANUAL
from tests.website.crawl import crawl
from tests.website.fake_site import USER_AGENT, Asked, FakeSite, Reply

TRAP = "<p>The same text every time.</p>"


def _month(month: str, by: int) -> str:
    number = int(month[:4]) * 12 + int(month[5:]) - 1 + by
    return f"{number // 12:04}-{number % 12 + 1:02}"


def _growing(asked: Asked) -> Reply:
    return Reply(body=f"{TRAP}<a href='?{asked.target.partition('?')[2]}&amp;q='>more</a>")


def _calendar(asked: Asked) -> Reply:
    month = asked.target.partition("m=")[2] or "2024-01"
    return Reply(body=TRAP + "".join(f"<a href='/cal?m={_month(month, by)}'>x</a>" for by in (1, -1)))


def _session(asked: Asked) -> Reply:
    return Reply(body=f"{TRAP}<a href='/shop;jsessionid={len(asked.target):032}?PHPSESSID={asked.at}'>x</a>")


@pytest.mark.spec("LS-16")
async def test_traps_beside_real_pages_end_and_take_little(site: FakeSite) -> None:
    real = "".join(
        f"<a href='/real/{name}.html'>x</a>" for name in (f"{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(50))
    )
    site.page(
        "/",
        f"<p>home</p><a href='/t?q='>t</a><a href='/cal?m=2024-01'>c</a><a href='/a/'>a</a><a href='/shop'>s</a>{real}",
    )
    site.answer("/real/", lambda asked: Reply(body=f"<p>{asked.target}</p>"))
    site.answer("/t", _growing)
    site.answer("/cal", _calendar)
    site.answer("/a/", lambda _: Reply(body=f"{TRAP}<a href='a/'>deeper</a>"))
    site.answer("/shop", _session)
    done = await crawl(site.provider(max_urls=500, max_urls_per_pattern=200, use_sitemaps=False, max_depth=100))
    count = {kind: sum(f"/{kind}" in path for path in done.paths()) for kind in ("real", "t?", "cal", "a/", "shop")}
    assert count["real"] == 50
    assert count["t?"] == 2
    assert count["cal"] == 20, "a tenth of the bound of a pattern"
    assert count["a/"] == 2
    assert count["shop"] == 1
    assert done.bounded == {f"{site.host}/cal?m"}
    deepest = done.results[site.at("/a/a/")]
    assert isinstance(deepest, CrawledPage)
    assert deepest.detail == "links: 1 left out, trap: path repeats itself 3 times"


@pytest.mark.spec("SE-03", "LS-17")
async def test_mapped_addresses_are_refused_as_seed_and_as_link(site: FakeSite) -> None:
    hosts = [
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::FFFF:7F00:0001]",
        "[0:0:0:0:0:ffff:127.0.0.1]",
        "[::ffff:169.254.169.254]",
        "[::ffff:a9fe:a9fe]",
        "[::ffff:10.0.0.1]",
        "[::1]",
        "[::1%25lo]",
        "[::]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "0x7f.1",
        "2130706433",
        "127.0.0.1",
        "localhost",
    ]
    client = site.client(allowed=AllowList(), ports={80, 443, site.port})
    for host in hosts:
        start = f"http://{host}:{site.port}/"
        with pytest.raises((AddressRefused, ProviderRefused), match=r"not allowed|unusual spelling"):
            await WebsiteProvider(SourceSetup(1, 1, {"start_url": start}), client).crawl_plan()
    assert site.requests == []
    listed = [host for host in hosts if "%" not in host and "x" not in host and "[" in host]
    site.page("/", "<p>x</p>" + "".join(f"<a href='http://{host}:{site.port}/in'>x</a>" for host in hosts))
    provider = site.provider(hosts=[f"{host}:{site.port}" for host in listed], use_sitemaps=False)
    done = await crawl(provider)
    refused = [result for url, result in done.results.items() if url != site.at("/") and "//127." not in url]
    assert refused
    assert set(refused) == {PageRefused("address not allowed")}
    assert not any(asked.host != site.host for asked in site.requests)


async def _crawl_with(provider: WebsiteProvider, workers: int) -> dict[str, CrawledPage]:
    pages: dict[str, CrawledPage] = {}
    waiting: asyncio.Queue[FoundUrl] = asyncio.Queue()
    seen: set[str] = set()

    def claim(links: tuple[FoundUrl, ...]) -> None:
        for link in links:
            if link.url not in seen:
                seen.add(link.url)
                waiting.put_nowait(link)

    async def work() -> None:
        while True:
            found = await waiting.get()
            result = await provider.crawl_page(found)
            assert isinstance(result, CrawledPage), found
            pages[found.url] = result
            claim(result.links)
            waiting.task_done()

    claim((await provider.crawl_plan()).seeds)
    tasks = [asyncio.create_task(work()) for _ in range(workers)]
    joined = asyncio.create_task(waiting.join())
    await asyncio.wait([joined, *tasks], return_when=asyncio.FIRST_COMPLETED)
    for task in [joined, *tasks]:
        if task.done():
            task.result()
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return pages


def _linked_files(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("*.html")}


@pytest.mark.needs("postgresql-doc-15")
@pytest.mark.spec("LS-16")
async def test_the_whole_manual_is_found(manual: str) -> None:
    client = SafeClient(user_agent=USER_AGENT, allowed=AllowList.of(["127.0.0.1"]))
    provider = WebsiteProvider(SourceSetup(1, 1, {"start_url": f"{manual}/index.html"}), client)
    pages = await _crawl_with(provider, 8)
    await client.close()
    assert {url.rpartition("/")[2] for url in pages} == _linked_files(POSTGRES_MANUAL)
    assert all(page.content is not None and page.content.markdown for page in pages.values())
    assert host_and_port(f"{manual}/index.html") == manual.removeprefix("http://")


PIECE = st.sampled_from(
    [
        "<a href='",
        "'>",
        "<base href=",
        "<meta charset=",
        "<!--",
        "]]>",
        "<p>",
        "</p>",
        "<table>",
        "&#0;",
        "&#xD800;",
        "\x00",
    ]
)


@given(
    body=st.lists(PIECE | st.text(max_size=6), max_size=40).map(lambda parts: "".join(parts).encode("utf-8", "replace"))
    | st.binary(max_size=300),
    headers=st.fixed_dictionaries(
        {},
        optional={
            "content-type": st.text(max_size=30),
            "x-robots-tag": st.text(max_size=30),
            "link": st.text(max_size=40),
        },
    ),
)
@settings(max_examples=150, deadline=None)
def test_any_answer_can_be_read(body: bytes, headers: dict[str, str]) -> None:
    reading = read_page(Response(200, "http://h.test/x", (), headers, body), "kbsync")
    for link in reading.markup.links:
        assert link.identity.startswith("http")
    if reading.content is not None:
        assert "\0" not in reading.content.markdown + reading.content.title
