"""Which links a page holds (field cases D01, D02, D10, E02)."""

from __future__ import annotations

import random
import string

import pytest

from kbsync.providers.contract import CrawledPage
from kbsync.providers.nesting import flattened, measure
from kbsync.providers.website.links import header_canonicals, header_directives, read_markup
from tests.website.crawl import crawl
from tests.website.fake_site import FakeSite, Reply

ELEVEN_FORMS = """
<a href="a.html">1</a> <a href="./b.html">2</a> <a href="../c.html">3</a> <a href="d/./x/../e.html">4</a>
<a href=" f.html?x=1 ">5</a> <a href="?x=2">6</a> <a href="#top">7</a> <a href="">8</a>
<a href="//{host}/h.html">9</a> <a href="/../../i.html">10</a> <a href="j k.html">11</a>
"""


@pytest.mark.spec("LS-16")
async def test_links_resolve_against_the_address_that_answered(site: FakeSite) -> None:
    site.redirect("/", "/guide/start.html")
    site.page("/guide/start.html", ELEVEN_FORMS.format(host=site.host))
    site.answer("/", lambda _: Reply(body="<p>leaf</p>"))
    done = await crawl(site.provider(use_sitemaps=False), depth=1)
    assert done.paths() == [
        "/",
        "/guide/a.html",
        "/guide/b.html",
        "/c.html",
        "/guide/d/e.html",
        "/guide/f.html?x=1",
        "/guide/start.html?x=2",
        "/h.html",
        "/i.html",
        "/guide/j%20k.html",
    ]
    result = done.results[site.at("/")]
    assert isinstance(result, CrawledPage)
    assert result.final.url == site.at("/guide/start.html")


@pytest.mark.spec("LS-16")
@pytest.mark.parametrize(
    ("base", "targets"),
    [
        ('<base href="/manual/"><base href="/wrong/">', ["/manual/one.html", "/manual/sub/two.html", "/abs.html"]),
        ('<base target="_top"><base href="../m/">', ["/docs/m/one.html", "/docs/m/sub/two.html", "/abs.html"]),
        ('<base href="">', ["/docs/a/one.html", "/docs/a/sub/two.html", "/abs.html"]),
        ('<base href="//elsewhere.test/x/">', []),
    ],
)
async def test_the_first_base_rules_the_document(site: FakeSite, base: str, targets: list[str]) -> None:
    script = f"<script>/* {'padding ' * 800} <base href='/in-script/'> */</script>"
    links = '<a href="one.html">1</a><a href="sub/two.html">2</a><a href="/abs.html">3</a>'
    site.page("/docs/a/page.html", f"<html><head>{script}{base}</head><body><p>text</p>{links}</body></html>")
    result = await site.provider("/docs/a/page.html").crawl_page(site.found("/docs/a/page.html"))
    assert isinstance(result, CrawledPage)
    assert [link.url for link in result.links] == [site.at(path) for path in targets]


@pytest.mark.spec("LS-16")
async def test_one_row_for_one_page_and_the_page_s_spelling_on_the_wire(site: FakeSite) -> None:
    upper = site.url.upper()
    site.page(
        "/",
        f"""<p>home</p><a href="{site.url}">1</a> <a href="{upper}/">2</a> <a href="/#x">4</a>
        <a href="/content/">5</a> <a href="/content">6</a> <a href="/%7Eu/">7</a> <a href="/~u/">8</a>
        <a href="/l?b=2&amp;a=1">9</a> <a href="/l?a=1&amp;b=2">10</a> <a href="/e?">11</a> <a href="/e">12</a>
        <a href="/t?utm_source=mail&amp;id=1">13</a> <a href="/t?id=1">14</a>""",
    )
    for target in ("/content/", "/%7Eu/", "/l", "/e", "/t"):
        site.page(target, f"<p>{target}</p>")
    done = await crawl(site.provider(use_sitemaps=False))
    assert done.paths() == ["/", "/content/", "/content", "/~u/", "/l?a=1&b=2", "/e", "/t?id=1"]
    assert site.pages == ["/", "/content/", "/content", "/%7Eu/", "/l?b=2&a=1", "/e", "/t?utm_source=mail&id=1"]


@pytest.mark.spec("LS-16")
async def test_long_links_are_rows_of_their_own_or_left_out_singly(site: FakeSite) -> None:
    draw = random.Random(7)
    texts = ["".join(draw.choices(string.ascii_letters + string.digits, k=size)) for size in (3_000, 7_500, 2_900)]
    links = [
        f"/p?x={texts[0]}",
        f"/p?x={texts[1]}",
        f"/p?x={texts[2]}a",
        f"/p?x={texts[2]}b",
        f"/p?x={'r' * 9_000}",
        "/short",
    ]
    site.page("/", "<p>long</p>" + "".join(f'<a href="{link}">x</a>' for link in links))
    site.answer("/p", lambda _: Reply(body="<p>found</p>"))
    site.page("/short", "short")
    done = await crawl(site.provider(use_sitemaps=False))
    assert done.paths() == ["/", *links[:4], "/short"]
    assert len(done.stored) == 6
    result = done.results[site.at("/")]
    assert isinstance(result, CrawledPage)
    assert result.detail == "links: 1 left out, URL longer than 8192 characters"


@pytest.mark.spec("LS-16")
def test_what_is_a_link_and_what_is_not() -> None:
    html = """<head><link rel="next" href="/next"><link rel="stylesheet" href="/style.css"><link rel="icon" href="/i">
    <link rel="alternate" hreflang="de" href="/de"><link rel="alternate" type="application/rss+xml" href="/feed">
    <meta http-equiv="refresh" content="5; url='/moved'"></head>
    <body><a href="/a" rel="external">a</a><a href="/ad" rel="sponsored NOFOLLOW">b</a><map><area href="/area"></map>
    <img srcset="/big.png 2x" src="/x.png"><a href="javascript:go()">c</a><a href="{{ url }}">d</a><a name="x">e</a>
    <script>var s = '<a href="/in-script">x</a>'</script><!-- <a href="/in-comment">x</a> --><a href="/a#b">f</a></body>"""
    markup = read_markup(html, "http://h.test/", "kbsync")
    assert [link.identity[13:] for link in markup.links] == ["/next", "/de", "/a", "/area", "/moved"]
    assert markup.left_out == {"template that was never filled in": 1}
    frames = read_markup('<frameset><frame src="left.html"></frameset>', "http://h.test/x/", "kbsync")
    assert [link.identity for link in frames.links] == ["http://h.test/x/left.html"]


@pytest.mark.spec("LS-16")
def test_directives_for_other_robots_are_not_ours() -> None:
    assert header_directives("googlebot: noindex, nofollow\nnoarchive", "kbsync") == {"noarchive"}
    assert header_directives("kbsync: noindex", "kbsync") == {"noindex"}
    assert header_directives("googlebot: none\nNOINDEX", "kbsync") == {"noindex"}
    assert "noindex" in header_directives("unavailable_after: 25 Jun 2030 15:00:00 PST, noindex", "kbsync")


def test_canonicals_of_a_header() -> None:
    header = '</style.css>; rel=preload; as=style, <../main.html>; rel="canonical", </p2>; rel=next'
    assert [found.identity for found in header_canonicals(header, "http://h.test/a/b")] == ["http://h.test/main.html"]


@pytest.mark.spec("SE-05")
@pytest.mark.parametrize("tag", ["div", "ul", "section", "p", "b", "table", "a href=/x", "x-y", "svg", "li", "dl"])
@pytest.mark.parametrize("closed", [True, False])
def test_deep_nesting_is_read_in_time(tag: str, closed: bool) -> None:
    html = '<a href="/first">1</a>' + f"<{tag}>" * 60_000 + '<a href="/inside">2</a>'
    html += f"</{tag.split()[0]}>" * 60_000 if closed else ""
    assert measure(html).is_deep or tag in ("p", "li")
    markup = read_markup(flattened(html), "http://h.test/", "kbsync")
    assert {"http://h.test/first", "http://h.test/inside"} <= {link.identity for link in markup.links}
