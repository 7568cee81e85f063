"""Sitemaps that are honest, broken, endless or hostile (field case D05)."""

from __future__ import annotations

import gzip
import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbsync.providers.website.sitemap_file import SitemapFile, SitemapLimits, parse_sitemap
from tests.website.fake_site import FakeSite, Reply

LIMITS = SitemapLimits()
HEAD = '<?xml version="1.0" encoding="UTF-8"?>'
LAUGHS = (
    '<?xml version="1.0"?><!DOCTYPE urlset [<!ENTITY a "0123456789">'
    + "".join(f'<!ENTITY {new} "{f"&{old};" * 10}">' for old, new in zip("abcdefgh", "bcdefghi", strict=True))
    + "]><urlset><url><loc>http://h.test/&i;</loc></url><url><loc>http://h.test/ok</loc></url></urlset>"
)


def read(body: str | bytes) -> SitemapFile:
    return parse_sitemap(body if isinstance(body, bytes) else body.encode(), "http://h.test/sitemap.xml", LIMITS)


def paths(body: str | bytes) -> list[str]:
    return [found.identity.removeprefix("http://h.test") for found in read(body).urls]


def urlset(*paths: str, space: str = ' xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"') -> str:
    return f"{HEAD}<urlset{space}>{''.join(f'<url><loc>http://h.test{path}</loc></url>' for path in paths)}</urlset>"


@pytest.mark.spec("LS-16")
@pytest.mark.parametrize(
    "body",
    [
        urlset("/a", "/b"),
        urlset("/a", "/b", space=""),
        urlset("/a", "/b", space=' xmlns="http://wrong.test/"'),
        urlset("/a", "/b").replace("<loc>", "<loc>\n   ").replace("</loc>", "\n </loc>"),
        urlset("/a", "/b")
        .replace("<url", "<sm:url")
        .replace("</url", "</sm:url")
        .replace("sm:urlset xmlns", "sm:urlset xmlns:sm"),
        urlset("/a", "/b").replace("http://h.test", ""),
        "\n  " + urlset("/a", "/b"),
        "\ufeff" + urlset("/a", "/b"),
        urlset("/a", "/b").replace("UTF-8", "UTF-16").encode("utf-16"),
        gzip.compress(urlset("/a", "/b").encode()),
        gzip.compress(gzip.compress(urlset("/a", "/b").encode())),
        urlset("/a", "/b")
        .replace("</url>", "<image:image><image:loc>http://h.test/i.png</image:loc></image:image></url>")
        .replace("<urlset", '<urlset xmlns:image="http://i.test/"'),
        "http://h.test/a\r\nhttp://h.test/b\r\n# not a URL\r\n",
        "<rss><channel><link>http://h.test/</link><item><link>http://h.test/a</link></item>"
        "<item><link>http://h.test/b</link></item></channel></rss>",
        '<feed xmlns="http://www.w3.org/2005/Atom"><link href="http://h.test/"/><entry><link href="http://h.test/a"/></entry>'
        '<entry><link rel="alternate" href="/b"/><link rel="edit" href="/c"/></entry></feed>',
    ],
)
def test_every_honest_form_is_read(body: str | bytes) -> None:
    assert paths(body) == ["/a", "/b"]
    assert read(body).fault is None


@pytest.mark.spec("LS-16")
def test_translations_are_pages_too() -> None:
    body = urlset("/a").replace("</url>", '<xhtml:link rel="alternate" hreflang="de" href="http://h.test/de/a"/></url>')
    assert paths(body.replace("<urlset", '<urlset xmlns:xhtml="x"')) == ["/a", "/de/a"]


@pytest.mark.spec("LS-16")
def test_half_broken_xml_gives_what_it_holds() -> None:
    stray = urlset("/a", "/b?x=1&y=2", "/c")
    assert paths(stray) == ["/a", "/b?x=1&y=2", "/c"]
    assert read(stray).fault is None, "its own end was seen"
    cut = urlset("/a", "/b")[:-25]
    assert paths(cut)[:1] == ["/a"]
    assert read(cut).fault == "sitemap malformed"
    index = f"{HEAD}<sitemapindex><sitemap><loc>/s1.xml?a=1&b=2</loc></sitemap></sitemapindex>"
    assert [child.identity for child in read(index).children] == ["http://h.test/s1.xml?a=1&b=2"]
    gone = gzip.compress(urlset(*(f"/p{n}" for n in range(20_000))).encode())
    half = read(gone[: len(gone) // 2])
    assert half.fault == "sitemap truncated"
    assert len(half.urls) > 1_000, "URLs found before the break stay"


@pytest.mark.parametrize(
    "body", ["", " \n ", "<!DOCTYPE html><html><body>404</body></html>", "hello", "<x><y/></x>", "{}"]
)
def test_other_documents_are_told_apart(body: str) -> None:
    assert read(body) == SitemapFile(is_sitemap=False)


@pytest.mark.spec("SE-05")
def test_entities_are_refused() -> None:
    began = time.monotonic()
    file = read(LAUGHS)
    assert file.fault == "sitemap declares entities"
    assert file.urls == ()
    assert time.monotonic() - began < 1
    outer = '<!DOCTYPE urlset [<!ENTITY x SYSTEM "file:///etc/passwd">]><urlset><url><loc>/&x;</loc></url></urlset>'
    assert read(outer).fault == "sitemap declares entities"


@pytest.mark.spec("SE-05")
@pytest.mark.parametrize("layers", [1, 2])
def test_bombs_stop_at_the_bound_and_take_no_memory(layers: int) -> None:
    body = b" " * (64 << 20)
    for _ in range(layers):
        body = gzip.compress(body)
    tracemalloc.start()
    assert (read(body).fault or "").startswith("sitemap too large")
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()


@pytest.mark.spec("SE-05")
def test_size_nesting_and_counts_are_bounded() -> None:
    deep = "<urlset>" + "<x>" * 100_000
    assert read(deep).fault == "sitemap nested too deeply"
    limits = SitemapLimits(max_urls_per_file=10, max_bytes=200_000)
    many = parse_sitemap(urlset(*(f"/{n}" for n in range(50))).encode(), "http://h.test/", limits)
    assert (len(many.urls), many.fault) == (10, "sitemap too large: more than 10 URLs")
    big = parse_sitemap(urlset("/a").replace("</urlset>", " " * 300_000).encode(), "http://h.test/", limits)
    assert (len(big.urls), big.fault) == (1, "sitemap too large: more than 200000 bytes")
    long = urlset("/" + "x" * 20_000, "/ok")
    assert paths(long) == ["/ok"]


# --- the walk -----------------------------------------------------------------------------------------------------


@pytest.mark.spec("LS-16")
async def test_listed_sitemaps_are_read_whatever_their_type_says(site: FakeSite) -> None:
    site.robots(f"Sitemap: {site.at('/maps/all.txt')}\nSitemap: {site.at('/gone.xml')}\n")
    children = f"<sitemap><loc>{site.at('/s.xml.gz')}</loc></sitemap><sitemap><loc>/s2.xml</loc></sitemap>"
    index = f"<sitemapindex>{children}</sitemapindex>"
    site.on("/maps/all.txt", Reply(body=index, content_type="text/html"))
    one = f"<urlset><url><loc>{site.at('/a')}</loc></url><url><loc>{site.at('/b?utm_source=x')}</loc></url></urlset>"
    site.on("/s.xml.gz", Reply(body=gzip.compress(one.encode()), content_type="application/gzip"))
    site.on("/s2.xml", Reply(body=gzip.compress(one.replace("/a<", "/c<").encode())).gzipped())
    plan = await site.provider(include_paths=["/"]).crawl_plan()
    assert [seed.url for seed in plan.seeds] == [site.at(path) for path in ("/", "/a", "/b", "/c")]
    assert plan.seeds[2].fetch_url == site.at("/b?utm_source=x")
    assert plan.incomplete_reasons == ()
    assert plan.notes == (f"sitemap {site.at('/gone.xml')}: answered 404",)


@pytest.mark.spec("LS-16")
async def test_the_usual_places_are_tried_and_scope_robots_and_traps_hold(site: FakeSite) -> None:
    site.robots("User-agent: *\nDisallow: /no\n")
    site.sitemap(["/yes", "/no/x", "/a/a/a/a", "http://other.test/x", "/private/x"], "/sitemap_index.xml")
    plan = await site.provider(exclude_paths=["/private"]).crawl_plan()
    assert [seed.url for seed in plan.seeds] == [site.at("/"), site.at("/yes")]
    assert plan.notes == (
        "sitemap: 1 left out, forbidden by robots.txt",
        "sitemap: 1 left out, trap: path repeats itself 3 times",
    )
    assert site.targets == ["/robots.txt", "/sitemap.xml", "/sitemap_index.xml"]


@pytest.mark.spec("LS-16", "SE-05")
async def test_a_chain_of_ever_new_sitemaps_ends(site: FakeSite) -> None:
    def endless(_: object) -> Reply:
        n = len(site.requests)
        locs = "".join(f"<sitemap><loc>{site.at(f'/sitemap-{n}{tail}.xml')}</loc></sitemap>" for tail in ("", "b"))
        return Reply(body=f"<sitemapindex>{locs}</sitemapindex>", content_type="application/xml")

    site.answer("/sitemap", endless)
    plan = await site.provider().crawl_plan()
    assert [seed.url for seed in plan.seeds] == [site.at("/")]
    assert plan.incomplete_reasons == ("sitemap too deep: more than 5 levels",)
    assert len(site.requests) <= 2 + 2**6
    site.requests.clear()

    def wide(_: object) -> Reply:
        locs = "".join(f"<sitemap><loc>/sitemap-{n}.xml</loc></sitemap>" for n in range(500))
        return Reply(body=f"<sitemapindex>{locs}</sitemapindex>")

    site.on("/sitemap.xml", wide(None))
    plan = await site.provider().crawl_plan()
    assert "sitemap too large: more than 100 files" in plan.incomplete_reasons
    assert len(site.requests) <= 102


@pytest.mark.spec("LS-16")
async def test_cycles_end_and_are_complete(site: FakeSite) -> None:
    site.on("/sitemap.xml", Reply(body="<sitemapindex><sitemap><loc>/sitemap.xml</loc></sitemap></sitemapindex>"))
    plan = await site.provider().crawl_plan()
    assert plan.incomplete_reasons == ()
    assert site.times_asked("/sitemap.xml") == 1


@pytest.mark.spec("LS-16", "LS-07")
async def test_a_sitemap_that_fails_makes_the_listing_incomplete(site: FakeSite) -> None:
    bomb = gzip.compress(b" " * (32 << 20))
    for reply, words in (
        (Reply(500), "answered 500"),
        (Reply(429), "answered 429"),
        (Reply(reset=True), "the connection failed"),
        (Reply(body="<urlset><url><loc>/a</loc></url>", truncate_to=20), "truncated"),
        (Reply(body=bomb, headers={"Content-Encoding": "gzip"}), "unpacks to far more"),
        (Reply(body=bomb), "sitemap too large"),
        (Reply(body=LAUGHS), "declares entities"),
        (Reply(body="<urlset><url><loc>/a</loc></url>"), "malformed"),
    ):
        site.on("/sitemap.xml", reply)
        plan = await site.provider().crawl_plan()
        assert len(plan.incomplete_reasons) == 1
        assert words in plan.incomplete_reasons[0]


@pytest.mark.spec("SE-03", "LS-17")
async def test_sitemaps_reach_no_inner_address(site: FakeSite) -> None:
    async with FakeSite() as inner:
        inner_url = inner.url.replace("127.0.0.1", "127.0.0.2")
        site.robots(f"Sitemap: {inner_url}/s.xml\nSitemap: {site.at('/sitemap.xml')}\nSitemap: {site.at('/hop.xml')}\n")
        site.redirect("/hop.xml", f"{inner_url}/s.xml")
        site.on(
            "/sitemap.xml",
            Reply(body=f"<sitemapindex><sitemap><loc>{inner_url}/s.xml</loc></sitemap></sitemapindex>"),
        )
        plan = await site.provider().crawl_plan()
        assert [note.rpartition(": ")[2] for note in plan.notes] == ["address not allowed", "address not allowed"]
        assert inner.requests == []


async def test_more_urls_than_the_crawl_takes_are_told(site: FakeSite) -> None:
    site.sitemap([f"/p{n}" for n in range(20)])
    plan = await site.provider(max_urls=5).crawl_plan()
    assert len(plan.seeds) == 6
    assert plan.incomplete_reasons == ("sitemap too large: more than 5 URLs of this site",)


@pytest.mark.spec("SE-05")
def test_broken_files_are_salvaged_in_time() -> None:
    began = time.monotonic()
    for filler in ("<loc>" + " " * 300_000, "<loc>" * 60_000, "<loc " * 60_000, "</urlset" * 40_000, "&" * 300_000):
        read("<urlset><url><loc>/a?x=1&y=2</loc>" + filler)
    assert time.monotonic() - began < 5


PIECE = st.sampled_from(
    [
        "<urlset>",
        "</urlset>",
        "<url>",
        "</url>",
        "<loc>",
        "</loc>",
        "http://h.test/",
        "&",
        "&amp;",
        "<!",
        "]]>",
        "<?",
        "\x00",
    ]
)


@given(st.lists(PIECE | st.text(max_size=5), max_size=40).map("".join) | st.binary(max_size=200))
@settings(max_examples=300, deadline=None)
def test_any_bytes_give_an_answer(body: str | bytes) -> None:
    raw = body if isinstance(body, bytes) else body.encode("utf-8", "replace")
    for variant in (raw, gzip.compress(raw), gzip.compress(raw)[:-4], b"<urlset>" + raw):
        file = parse_sitemap(variant, "http://h.test/", LIMITS)
        assert all(found.identity.startswith("http") for found in (*file.urls, *file.children))
