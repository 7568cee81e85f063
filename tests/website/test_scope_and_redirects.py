"""Scope, robots and addresses hold on every hop (field case D03), and a site is found through what it links (LS-16)."""

from __future__ import annotations

import pytest

from kbsync.domain.errors import ProviderRefused
from kbsync.providers.contract import CrawledPage, FoundUrl, PageRefused
from tests.website.crawl import crawl
from tests.website.fake_site import FakeSite


@pytest.mark.spec("LS-16")
async def test_a_redirect_out_of_scope_is_not_followed(site: FakeSite) -> None:
    async with FakeSite() as other:
        other.page("/", '<a href="http://third.test/">x</a>')
        site.page("/", "<p>x</p>" + "".join(f'<a href="/go?to={n}">{n}</a>' for n in range(1, 5)))
        site.redirect("/go?to=1", other.url + "/")
        site.redirect("/go?to=2", "/inside.html")
        site.redirect("/go?to=3", f"http://127.0.0.1.evil.test:{site.port}/")
        site.redirect("/go?to=4", "/go?to=4")
        site.page("/inside.html", '<p>inside</p><a href="/last.html">x</a>')
        site.page("/last.html", "last")
        done = await crawl(site.provider(use_sitemaps=False))
        assert other.requests == []
        assert done.results[site.at("/go?to=1")] == PageRefused(f"redirected out of scope to {other.host}")
        assert done.results[site.at("/go?to=3")] == PageRefused(
            f"redirected out of scope to 127.0.0.1.evil.test:{site.port}"
        )
        assert done.results[site.at("/go?to=4")] == PageRefused("redirects in a loop")
        inside = done.results[site.at("/go?to=2")]
        assert isinstance(inside, CrawledPage)
        assert inside.final.url == site.at("/inside.html")
        assert site.at("/last.html") in done.stored


@pytest.mark.spec("LS-16")
async def test_a_redirect_does_not_pass_robots_or_path_scope(site: FakeSite) -> None:
    site.robots("User-agent: *\nDisallow: /secret\n")
    site.page("/", "<p>x</p><a href='/docs/a'>a</a><a href='/docs/b'>b</a><a href='/blog/c'>c</a>")
    site.redirect("/docs/a", "/secret/x")
    site.redirect("/docs/b", "/blog/x")
    done = await crawl(site.provider(use_sitemaps=False, include_paths=["/docs", "/secret"]))
    assert done.results[site.at("/docs/a")] == PageRefused("redirected to a page that robots.txt forbids")
    assert done.results[site.at("/docs/b")] == PageRefused("redirected out of scope to /blog/x")
    assert site.at("/blog/c") not in done.rows
    assert site.pages == ["/", "/docs/a", "/docs/b"]


@pytest.mark.spec("LS-16")
async def test_a_start_page_outside_the_paths_gives_links_alone(site: FakeSite) -> None:
    site.redirect("/", "/welcome")
    site.page("/welcome", "<p>hello</p><a href='/docs/a'>a</a>")
    site.page("/docs/a", "<p>text</p>")
    done = await crawl(site.provider(use_sitemaps=False, include_paths=["/docs"]))
    assert list(done.stored) == [site.at("/docs/a")]
    start = done.results[site.at("/")]
    assert isinstance(start, CrawledPage)
    assert start.detail is not None
    assert start.detail.startswith("the start page is outside")


@pytest.mark.spec("LS-16")
async def test_listed_hosts_are_crawled_with_their_own_robots(site: FakeSite) -> None:
    async with FakeSite() as second:
        second.robots("User-agent: *\nDisallow: /no\n")
        second.page("/yes", "<p>yes</p>")
        site.page("/", f"<p>x</p><a href='{second.at('/yes')}'>y</a><a href='{second.at('/no')}'>n</a>")
        done = await crawl(site.provider(use_sitemaps=False, hosts=[second.host]))
        assert set(done.stored) == {site.at("/"), second.at("/yes")}
        assert second.targets == ["/robots.txt", "/yes"]
        start = done.results[site.at("/")]
        assert isinstance(start, CrawledPage)
        assert start.detail == "links: 1 left out, forbidden by robots.txt"


@pytest.mark.spec("LS-16")
async def test_depth_and_link_counts_are_bounded(site: FakeSite) -> None:
    site.page("/", "<p>x</p>" + "".join(f"<a href='/p{n}'>x</a>" for n in range(50)))
    result = await site.provider(max_urls=10).crawl_page(site.found("/"))
    assert isinstance(result, CrawledPage)
    assert len(result.links) == 10
    assert result.detail == "links: only the first 10 of 50 are followed"
    provider = site.provider(max_depth=3, max_urls=10)
    assert (provider.max_depth, provider.max_urls) == (3, 10)


@pytest.mark.spec("LS-16")
async def test_a_deep_page_sent_to_the_home_page_is_no_copy_of_it(site: FakeSite) -> None:
    site.page("/", "<p>home</p>")
    site.redirect("/old/page", "/")
    result = await site.provider().crawl_page(site.found("/old/page"))
    assert result == CrawledPage(None, (), site.found("/"), site.found("/"), "redirected to the home page")


async def test_a_redirect_to_a_login_is_no_access(site: FakeSite) -> None:
    site.redirect("/docs", "/accounts/login?next=/docs")
    site.page("/accounts/login", "<p>please sign in</p>")
    assert await site.provider().crawl_page(site.found("/docs")) == PageRefused("no access: redirected to a login page")


@pytest.mark.spec("LS-16")
async def test_a_start_page_that_moved_away_says_how_to_go_on(site: FakeSite) -> None:
    async with FakeSite() as other:
        site.redirect("/", other.url + "/", 301)
        assert await site.provider().crawl_page(site.found("/")) == PageRefused(
            f"redirected out of scope to {other.host}; make that the start URL, or add its host"
        )


async def test_a_page_that_moved_to_words_about_logging_in_is_content(site: FakeSite) -> None:
    site.redirect("/help/7", "/docs/login/", 301)
    site.page("/docs/login/", "<p>how to log in</p>")
    assert isinstance(await site.provider().crawl_page(site.found("/help/7")), CrawledPage)


@pytest.mark.spec("LS-16")
async def test_slash_pairs_meet_through_their_redirects(site: FakeSite) -> None:
    site.page("/", "<p>x</p><a href='/a'>1</a><a href='/a/'>2</a><a href='/b'>3</a><a href='/b/'>4</a>")
    site.redirect("/a", "/a/", 301)
    site.page("/a/", "<p>a</p>")
    site.redirect("/b/", "/b", 308)
    site.page("/b", "<p>b</p>")
    done = await crawl(site.provider(use_sitemaps=False))
    finals = {url: page.final.url for url, page in done.stored.items() if url != site.at("/")}
    assert finals == {
        site.at("/a"): site.at("/a/"),
        site.at("/a/"): site.at("/a/"),
        site.at("/b"): site.at("/b"),
        site.at("/b/"): site.at("/b"),
    }


async def test_a_url_of_another_site_is_refused_unasked(site: FakeSite) -> None:
    async with FakeSite() as other:
        assert await site.provider().crawl_page(other.found("/x")) == PageRefused("out of scope")
        forged = FoundUrl(site.at("/x"), other.at("/x"))
        assert await site.provider().crawl_page(forged) == PageRefused("out of scope")
        assert other.requests == []


@pytest.mark.spec("LS-07")
@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({}, "start_url: is needed"),
        ({"start_url": "ftp://x.test/"}, "not http or https"),
        ({"start_url": "http://user:pw@x.test/"}, "credentials in the URL"),
        ({"start_url": "http://2130706433/"}, "address in an unusual spelling"),
        ({"start_url": "http://[::1%25lo]:9/"}, "address in an unusual spelling"),
        ({"start_url": "http://x.test/", "hosts": ["a b"]}, "hosts: not a host"),
        ({"start_url": "http://x.test/", "max_urls": 0}, "max_urls"),
    ],
)
def test_a_wrong_configuration_is_told_to_the_editor(config: dict[str, object], words: str) -> None:
    from kbsync.providers.website.config import website_config

    with pytest.raises(ProviderRefused, match=words) as caught:
        website_config(config)
    assert "pw" not in str(caught.value)
