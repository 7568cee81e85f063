"""What becomes of one page, by its status, its type and its size (LS-07, LS-16)."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from kbsync.domain.errors import ProviderBusy, ProviderUnreachable
from kbsync.http.client import FetchLimits, Response
from kbsync.providers.contract import CrawledPage, CrawlingProvider, ListingEnd, PageGone, PageRefused, PageResult
from kbsync.providers.nesting import measure
from kbsync.providers.website.page import read_page
from tests.website.fake_site import FakeSite, Reply
from tests.website.one_page import fetch, stored


def _redirect(location: str) -> Reply:
    return Reply(302, headers={"Location": location})


def test_it_keeps_the_contract(site: FakeSite) -> None:
    provider: CrawlingProvider = site.provider()
    assert (provider.name, provider.crawls, provider.listing_brings_content) == ("website", True, False)


async def test_its_listing_proves_nothing(site: FakeSite) -> None:
    parts = [part async for part in site.provider().list_items()]
    assert parts == [ListingEnd(False, "a website is listed by its crawl")]


# --- statuses -----------------------------------------------------------------------------------------------------


@pytest.mark.spec("LS-07", "LS-16")
@pytest.mark.parametrize(
    ("reply", "result"),
    [
        (Reply(404), PageGone(404)),
        (Reply(410), PageGone(410)),
        (Reply(401), PageRefused("no access (answered 401)")),
        (Reply(403), PageRefused("no access (answered 403)")),
        (Reply(407), PageRefused("no access (answered 407)")),
        (Reply(451), PageRefused("no access (answered 451)")),
        (Reply(400), PageRefused("answered 400")),
        (Reply(405), PageRefused("answered 405")),
        (Reply(414), PageRefused("answered 414")),
        (Reply(418), PageRefused("answered 418")),
        (Reply(501), PageRefused("answered 501")),
        (Reply(204), PageRefused("no content (answered 204)")),
        (Reply(300), PageRefused("answered 300")),
        (Reply(302), PageRefused("answered 302")),
        (Reply(503, headers={"cf-mitigated": "challenge"}), PageRefused("a bot wall answered (503)")),
        (Reply(403, headers={"cf-mitigated": "challenge"}), PageRefused("a bot wall answered (403)")),
        (_redirect("file:///etc/passwd"), PageRefused("redirected to a URL that can't be followed: not http or https")),
        (_redirect("http://169.254.169.254/"), PageRefused("redirected out of scope to 169.254.169.254")),
    ],
)
async def test_what_is_permanent_for_a_page(site: FakeSite, reply: Reply, result: PageResult) -> None:
    site.on("/p", reply)
    assert await fetch(site) == result
    assert site.times_asked("/p") == 1


@pytest.mark.spec("LS-07")
@pytest.mark.parametrize(
    "reply",
    [
        *(Reply(status) for status in (408, 425, 500, 502, 504, 507, 520, 527, 599)),
        Reply(304),
        Reply(reset=True),
        Reply(body="x" * 500, truncate_to=20),
    ],
)
async def test_what_may_pass_is_raised_for_a_retry(site: FakeSite, reply: Reply) -> None:
    site.on("/p", reply)
    with pytest.raises(ProviderUnreachable):
        await fetch(site)
    site.on("/p", Reply(body="<p>well again</p>"))
    assert isinstance(await fetch(site), CrawledPage)


@pytest.mark.spec("LS-07", "RL-05")
@pytest.mark.parametrize("status", [429, 503])
async def test_a_busy_site_says_when_to_come_back(site: FakeSite, status: int) -> None:
    in_a_while = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    site.on(
        "/p",
        Reply(status, headers={"Retry-After": "120"}),
        Reply(status, headers={"Retry-After": in_a_while}),
        Reply(status),
    )
    waits = []
    for _ in range(3):
        with pytest.raises(ProviderBusy) as caught:
            await fetch(site)
        waits.append(caught.value.retry_after_s)
    assert waits[0] == 120
    assert waits[1] is not None
    assert 95 <= waits[1] <= 100
    assert waits[2] is None


@pytest.mark.spec("SE-05", "LS-07")
async def test_a_slow_or_huge_page_costs_itself_alone(site: FakeSite) -> None:
    limits = FetchLimits(first_byte_s=0.2, body_bytes=50_000, drip_grace_s=0.1, min_bytes_per_s=2_000)
    provider = site.provider(client=site.client(limits=limits))
    site.on("/hang", Reply(hang=True))
    site.on("/drip", Reply(body="x" * 5_000, drip_s=0.02))
    site.on("/huge", Reply(body="x" * 100_000))
    site.on("/bomb", Reply(body=b" " * 5_000_000).gzipped())
    site.on("/long", Reply(body="x", headers={"X": "y" * 30_000}))
    for path in ("/hang", "/drip"):
        with pytest.raises(ProviderUnreachable):
            await provider.crawl_page(site.found(path))
    for path in ("/huge", "/bomb", "/long"):
        assert isinstance(await provider.crawl_page(site.found(path)), PageRefused)


# --- types --------------------------------------------------------------------------------------------------------


@pytest.mark.spec("LS-16")
@pytest.mark.parametrize(
    ("content_type", "body", "markdown"),
    [
        ("text/html", "<h1>Hi</h1>", "# Hi"),
        ("application/xhtml+xml", "<?xml version='1.0'?><html><body><h1>Hi</h1></body></html>", "# Hi"),
        ("TEXT/HTML;charset=UTF-8", "<h1>Hi</h1>", "# Hi"),
        ("text/plain", "a < b\n", "a < b"),
        ("text/markdown; charset=utf-8", "# Hi\n\ntext", "# Hi\n\ntext"),
        (None, "<h1>Hi</h1>", "# Hi"),
        (None, "plain", "plain"),
    ],
)
async def test_text_in_its_forms_is_content(site: FakeSite, content_type: str | None, body: str, markdown: str) -> None:
    site.on("/p", Reply(body=body, content_type=content_type))
    assert (await stored(site)).markdown == markdown


@pytest.mark.spec("LS-16")
@pytest.mark.parametrize(
    ("reply", "detail"),
    [
        (Reply(body=b"%PDF", content_type="application/pdf"), "not text: application/pdf"),
        (Reply(body=b"x", content_type="image/png"), "not text: image/png"),
        (Reply(body=b"{}", content_type="application/json"), "not text: application/json"),
        (Reply(body=b"\x00\x01", content_type=None), "neither a type nor text"),
        (Reply(body="x", headers={"Content-Disposition": "Attachment; filename=x.html"}), "a download, not a page"),
        (Reply(body=""), "no text"),
        (Reply(body="", content_type="text/plain"), "no text"),
        (Reply(body="<html><body><div id=root></div></body></html>"), "empty until scripts run: needs rendering"),
        (Reply(body="<title>Page not found</title><h1>Oops</h1>"), "an error page answered with status 200"),
        (Reply(body="<title>404</title><h1>Oops</h1>"), "an error page answered with status 200"),
        (Reply(body="<title>Seite nicht gefunden | Acme</title><p>Hm</p>"), "an error page answered with status 200"),
    ],
)
async def test_what_is_no_content_is_refused_with_its_reason(site: FakeSite, reply: Reply, detail: str) -> None:
    site.on("/p", reply)
    assert await fetch(site) == PageRefused(detail)


async def test_a_page_about_errors_is_content(site: FakeSite) -> None:
    site.page("/p", "<h1>404 Not Found</h1>" + "<p>The status that says so, explained at length.</p>" * 50, title="404")
    assert (await stored(site)).title
    site.page("/q", "<h1>Files</h1><p>x</p>", title="Handling 'file not found' errors")
    assert (await stored(site, "/q")).title


async def test_a_page_without_text_still_leads_on(site: FakeSite) -> None:
    site.page("/p", "<nav><a href='/a'>a</a></nav>")
    result = await fetch(site)
    assert isinstance(result, CrawledPage)
    assert (result.content, result.detail) == (None, "no text")
    assert [link.url for link in result.links] == [site.at("/a")]


async def test_titles_and_languages(site: FakeSite) -> None:
    site.on("/a", Reply(body="<html lang='de-AT'><body><p>x</p></body></html>"))
    site.on("/b", Reply(body="<p>x</p>", headers={"Content-Language": "fr, en"}))
    site.on("/c.md", Reply(body="## Deep heading\n\nx", content_type="text/markdown"))
    site.on("/d.txt", Reply(body="x", content_type="text/plain"))
    assert (await stored(site, "/a")).language == "de-AT"
    assert (await stored(site, "/a")).title == "/a"
    assert (await stored(site, "/b")).language == "fr"
    assert (await stored(site, "/c.md")).title == "Deep heading"
    assert (await stored(site, "/d.txt")).title == "d.txt"


# --- bounds -------------------------------------------------------------------------------------------------------


@pytest.mark.spec("SE-05")
async def test_a_page_of_links_is_bounded_and_a_strange_type_is_told_safely(site: FakeSite) -> None:
    site.page("/p", "<p>x</p>" + "".join(f"<a href='/{n}'>x</a>" for n in range(21_000)))
    result = await fetch(site, max_urls=100_000)
    assert isinstance(result, CrawledPage)
    assert len(result.links) == 20_000
    assert result.detail == "links: 1000 left out, more than 20000 on one page"
    site.on("/q", Reply(body="x", content_type="tëxt/ödd"))
    refused = await fetch(site, "/q")
    assert isinstance(refused, PageRefused)
    assert refused.detail.isascii()
    assert refused.detail.isprintable()


@pytest.mark.spec("SE-05")
@pytest.mark.parametrize("tags", ["<b><i>", "<div></p>", "<x-a></x-b>", "<div></x-b>"])
def test_a_page_of_tags_is_cut(tags: str) -> None:
    body = ("<p>beginning</p><a href='/a'>a</a>" + tags * 200_000).encode()
    began = time.monotonic()
    reading = read_page(Response(200, "http://h.test/", (), {"content-type": "text/html"}, body), "kbsync")
    assert reading.note == "only the first 150000 tags were read"
    assert [link.identity for link in reading.markup.links] == ["http://h.test/a"]
    assert reading.content is not None
    assert "beginning" in reading.content.markdown
    assert time.monotonic() - began < 30, "work that grows with the square would take minutes"


def test_an_honest_page_keeps_its_structure() -> None:
    drawing = "<svg>" + "<path d='M0 0'/>" * 5_000 + "</svg>"
    html = f"<h1>Top</h1><ul><li>one<li>two</ul>{drawing}" + "<div><p>text</p></div>" * 3_000
    nesting = measure(html)
    assert nesting.is_deep, "counted on the deep side"
    assert not nesting.is_costly
    reading = read_page(Response(200, "http://h.test/", (), {"content-type": "text/html"}, html.encode()), "kbsync")
    assert reading.content is not None
    assert reading.content.markdown.startswith("# Top\n\n- one\n- two")
