"""robots.txt as found in the wild (field case D04)."""

from __future__ import annotations

import asyncio
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbsync.domain.errors import AddressRefused, ProviderBusy, ProviderUnreachable
from kbsync.http.addresses import AllowList
from kbsync.providers.contract import CrawledPage, PageRefused
from kbsync.providers.website.robots import RobotsCache, RobotsRules, parse_robots, robot_token
from tests.website.fake_site import FakeSite, Reply

FORBID_ALL = "User-agent: *\r\nDisallow: /\r\n"


def rules(text: str | bytes) -> RobotsRules:
    return parse_robots(text if isinstance(text, bytes) else text.encode(), "kbsync")


@pytest.mark.spec("LS-16")
@pytest.mark.parametrize(
    "body",
    [
        b"\xef\xbb\xbf" + FORBID_ALL.encode(),
        FORBID_ALL.encode("utf-16"),
        b"\xfe\xff" + FORBID_ALL.encode("utf-16-be"),
        FORBID_ALL.replace("\r\n", "\r").encode(),
        b"# hello\n\nUSER-AGENT: *   # all\nDISALLOW:/ # everything\n",
        b"user-agent: KBsync/1.0\ndisallow: /\n",
        b"User-agent: other\nUser-agent: kbsync\nDisallow: /\n",
        b"User-agent: kbsync\nAllow: /a\n\nUser-agent: x\nDisallow: /q\n\nUser-agent: kbsync\nDisallow: /\n",
        FORBID_ALL.encode() + b"x" * 700_000,
        b"Disallow: /before-any-group\n" + FORBID_ALL.encode(),
        b"User-agent: *\n\x00Disallow: /\n",
    ],
)
async def test_a_site_that_forbids_everything_is_not_fetched(site: FakeSite, body: bytes) -> None:
    site.robots(body)
    site.page("/", "x")
    provider = site.provider(use_sitemaps=False)
    plan = await provider.crawl_plan()
    assert plan.seeds == ()
    assert plan.blocked == "blocked by robots: robots.txt forbids the start page"
    assert await provider.crawl_page(site.found("/")) == PageRefused("robots.txt forbids it")
    assert site.pages == []


@pytest.mark.spec("LS-16")
@pytest.mark.parametrize(
    ("text", "path", "allowed"),
    [
        ("User-agent: *\nDisallow:\n", "/a", True),
        ("User-agent: *\nDisallow: /fr\n", "/france", False),
        ("User-agent: *\nDisallow: /a\nAllow: /a/b\n", "/a/b/c", True),
        ("User-agent: *\nAllow: /a\nDisallow: /a\n", "/a", True),
        ("User-agent: *\nDisallow: /*.pdf$\n", "/x/y.pdf", False),
        ("User-agent: *\nDisallow: /*.pdf$\n", "/x/y.pdf?z", True),
        ("User-agent: *\nDisallow: /a*b\n", "/aXXbYY", False),
        ("User-agent: *\nDisallow: /*?q=\n", "/s?q=1", False),
        ("User-agent: *\nDisallow: /Case\n", "/case", True),
        ("User-agent: *\nDisallow: /%7Eu\n", "/~u", False),
        ("User-agent: *\nDisallow: /\n\nUser-agent: kbsync\nAllow: /\n", "/a", True),
        ("User-agent: *\nAllow: /\n\nUser-agent: kb\nDisallow: /\n", "/a", True),
        ("User-agent: *\nAllow: /\n\nUser-agent: kbsync-news\nDisallow: /\n", "/a", True),
        ("<html><body>User-agent: *<br>\nDisallow: /\n</body></html>", "/a", True),
        ("", "/a", True),
        (FORBID_ALL, "/robots.txt", True),
    ],
)
def test_rules(text: str, path: str, allowed: bool) -> None:
    assert rules(text).allows(f"http://h.test{path}") is allowed


@pytest.mark.spec("LS-16")
@pytest.mark.parametrize("status", [404, 410, 401, 403, 451, 204])
async def test_no_file_is_no_rule(site: FakeSite, status: int) -> None:
    site.robots(FORBID_ALL, status)
    site.page("/", "x")
    assert (await site.provider(use_sitemaps=False).crawl_plan()).seeds == (site.found("/"),)


@pytest.mark.spec("LS-16", "LS-07")
@pytest.mark.parametrize("status", [500, 502, 504, 520, 408])
async def test_while_robots_can_t_be_read_nothing_is_fetched_and_the_failure_is_not_kept(
    site: FakeSite, status: int
) -> None:
    site.on("/robots.txt", Reply(status), Reply(status), Reply(200, "", "text/plain"))
    site.page("/", "x")
    provider = site.provider(use_sitemaps=False)
    with pytest.raises(ProviderUnreachable, match="robots"):
        await provider.crawl_plan()
    with pytest.raises(ProviderUnreachable, match="robots"):
        await provider.crawl_page(site.found("/"))
    assert site.pages == []
    assert isinstance(await provider.crawl_page(site.found("/")), CrawledPage)


@pytest.mark.spec("LS-16", "LS-07")
@pytest.mark.parametrize("broken", [Reply(reset=True), Reply(200, FORBID_ALL, truncate_to=5)])
async def test_a_broken_connection_is_no_permission(site: FakeSite, broken: Reply) -> None:
    site.on("/robots.txt", broken)
    with pytest.raises(ProviderUnreachable):
        await site.provider().crawl_plan()


@pytest.mark.spec("RL-05")
async def test_a_busy_robots_file_says_when(site: FakeSite) -> None:
    site.on("/robots.txt", Reply(429, headers={"Retry-After": "7"}))
    with pytest.raises(ProviderBusy) as caught:
        await site.provider().crawl_plan()
    assert caught.value.retry_after_s == 7


@pytest.mark.spec("LS-16")
async def test_robots_redirects_are_followed_across_hosts_and_rule_the_first(site: FakeSite) -> None:
    async with FakeSite() as other:
        other.on("/rules.txt", Reply(200, "User-agent: *\nDisallow: /x\n", "text/plain"))
        site.redirect("/robots.txt", other.at("/rules.txt"), 301)
        provider = site.provider(use_sitemaps=False)
        assert await provider.crawl_page(site.found("/x")) == PageRefused("robots.txt forbids it")
        site.redirect("/robots.txt", "/robots.txt")
        assert (await provider.crawl_plan()).seeds, "redirects without end are as no file"


@pytest.mark.spec("LS-17", "SE-03")
async def test_robots_redirects_reach_no_inner_address(site: FakeSite) -> None:
    site.redirect("/robots.txt", f"http://127.0.0.2:{site.port}/")
    with pytest.raises(ProviderUnreachable, match="address not allowed"):
        await site.provider().crawl_plan()
    closed = site.provider(client=site.client(allowed=AllowList(), ports={site.port}))
    with pytest.raises(AddressRefused):
        await closed.crawl_plan()
    assert site.targets == ["/robots.txt"]


async def test_crawl_delay_is_read_and_capped(site: FakeSite) -> None:
    site.robots("User-agent: *\nCrawl-delay: 2.5\n")
    assert await site.provider().crawl_delay_s() == 2.5
    assert rules("User-agent: *\nCrawl-delay: 9999\n").crawl_delay_s == 30
    assert rules("User-agent: *\nCrawl-delay: soon\n").crawl_delay_s is None


async def test_one_fetch_serves_all_pages_of_a_source_and_none_of_another(site: FakeSite) -> None:
    site.robots("")
    site.page("/a", "a")
    client = site.client()
    first, again = site.provider(client=client), site.provider(client=client)
    await asyncio.gather(*(provider.crawl_page(site.found("/a")) for provider in (first, first, again)))
    assert site.times_asked("/robots.txt") == 1
    await first.crawl_plan()
    assert site.times_asked("/robots.txt") == 2, "a new crawl asks again"


async def test_waiting_pages_share_a_failure_and_survive_a_cancelled_one() -> None:
    cache, release, loads = RobotsCache(), asyncio.Event(), 0

    async def load() -> RobotsRules:
        nonlocal loads
        loads += 1
        await release.wait()
        if loads == 1:
            raise ProviderUnreachable("down")
        return rules("")

    waiting = [asyncio.create_task(cache.rules("k", load, now=0.0)) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    release.set()
    ended = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(end) for end in ended] == [asyncio.CancelledError, ProviderUnreachable, ProviderUnreachable]
    assert loads == 1
    assert (await cache.rules("k", load, now=0.0)).allows("http://h.test/")
    await cache.rules("k", load, now=3_599.0)
    assert loads == 2
    await cache.rules("k", load, now=3_601.0)
    assert loads == 3


def test_the_token_is_the_product_of_the_user_agent() -> None:
    assert robot_token("kbsync/0.1 (+https://x)") == "kbsync"
    assert robot_token("Acme-Bot 2") == "acme-bot"
    assert robot_token("") == "kbsync"


@pytest.mark.spec("SE-05")
def test_hostile_files_are_read_and_asked_in_time() -> None:
    began = time.monotonic()
    many = rules("".join(f"User-agent: a{n}\n" for n in range(20_000)) + "Disallow: /x\n" * 20_000)
    assert many.allows("http://h.test/x")
    stars = rules("User-agent: *\nDisallow: /" + "*a" * 5_000 + "b\n")
    assert stars.allows("http://h.test/" + "a" * 8_000)
    assert time.monotonic() - began < 5


LINE = st.sampled_from(
    ["User-agent:", "User-agent: *", "Disallow: ", "Allow: /a*$", "Crawl-delay: ", "Sitemap: ", ":", "\r"]
)


@given(st.lists(st.tuples(LINE, st.text(max_size=20))) | st.binary(max_size=300))
@settings(max_examples=200, deadline=None)
def test_any_file_gives_rules(content: list[tuple[str, str]] | bytes) -> None:
    body = content if isinstance(content, bytes) else "\n".join(a + b for a, b in content).encode("utf-8", "replace")
    parsed = rules(body)
    assert parsed.allows("http://h.test/robots.txt")
    parsed.allows("http://h.test/a?b=%zz")
    assert parsed.crawl_delay_s is None or 0 <= parsed.crawl_delay_s <= 30
