"""Whatever a website sends, its readers answer: no error but their own, nothing that Postgres can't store, bounded output."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbsync.domain.requests import MAX_URL_LENGTH
from kbsync.domain.text import has_unstorable_characters
from kbsync.domain.url_identity import Found, judge_link
from kbsync.domain.url_scope import Scope, TrapGuard, pattern_bound, pattern_of
from kbsync.http.client import Response
from kbsync.providers.html import to_markdown
from kbsync.providers.nesting import flattened, measure
from kbsync.providers.website.charset import decode
from kbsync.providers.website.links import MAX_LINKS, header_canonicals, header_directives
from kbsync.providers.website.page import read_page
from kbsync.providers.website.robots import MAX_CRAWL_DELAY_S, parse_robots
from kbsync.providers.website.sitemap_file import SitemapLimits, parse_sitemap
from ratelimits.retry_after import parse_retry_after
from tests.fuzz.bounded import fuzzed
from tests.fuzz.pages import MARKUP, VALUES

pytestmark = pytest.mark.spec("RB-04")

URL = "http://h.test/a/b.html?q=1"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
HEADER = st.sampled_from(
    ["text/html", "text/html; charset=utf-16", "text/plain;charset=x", "", "application/xhtml+xml"]
)


@fuzzed(120)
@given(MARKUP)
def test_html_becomes_markdown_or_nothing(html: str) -> None:
    document = to_markdown(html, base_url=URL)
    assert not has_unstorable_characters(document.markdown + document.title)
    assert len(document.markdown) <= 40 * len(html) + 200
    assert "](javascript:" not in document.markdown.lower()


@fuzzed(120)
@given(st.binary(max_size=400) | MARKUP.map(lambda html: html.encode("utf-8", "surrogatepass")), HEADER, VALUES)
def test_any_answer_is_a_page(body: bytes, content_type: str, header: str) -> None:
    headers = {
        "content-type": content_type,
        "x-robots-tag": header,
        "link": f"<{header}>; rel=canonical",
        "etag": header,
    }
    reading = read_page(Response(200, URL, (), headers, body), "kbsync")
    assert (reading.content is None) == (reading.detail is not None)
    assert len(reading.markup.links) <= MAX_LINKS
    if reading.content is not None:
        assert not has_unstorable_characters(reading.content.markdown)


@fuzzed(80)
@given(MARKUP)
def test_flattening_never_deepens(html: str) -> None:
    long = html * (1 + 45_000 // max(1, len(html)))
    assert measure(flattened(long)).walked <= max(measure(long).walked, len(long) * 50)


@fuzzed(120)
@given(st.binary(max_size=200), st.none() | st.text(max_size=60))
def test_any_bytes_are_text(body: bytes, content_type: str | None) -> None:
    assert len(decode(body, content_type)) <= len(body) + 1


@fuzzed(120)
@given(st.text(max_size=200) | VALUES, st.sampled_from([URL, "", "https://[::1]:8443/x/", "http://h.test"]))
def test_a_link_is_a_url_or_has_a_reason(raw: str, base: str) -> None:
    judged = judge_link(raw, base)
    if isinstance(judged, Found):
        assert max(len(judged.identity), len(judged.fetch_url)) <= MAX_URL_LENGTH
        again = judge_link(judged.identity, "")
        assert isinstance(again, Found)
        assert again.identity == judged.identity, "an identity is its own"
        Scope.of(["h.test"]).contains(judged.identity)
        TrapGuard().reason(judged.identity)
        assert pattern_bound(judged.identity, 100) >= 1
        assert pattern_of(judged.identity)
    else:
        assert judged.reason


@fuzzed(120)
@given(
    st.lists(
        st.sampled_from(["User-agent:", "user agent", "Disallow:", "Allow:", "Sitemap:", "Crawl-delay:", "*", "kbsync", "/",
                         "\ufeff", "#", "\r", "\n", "$", "1e999", "-1", "nan", "%zz", "\x00", "<html>"])
        | st.text(max_size=8),
        max_size=40,
    )
)  # fmt: skip
def test_robots_files_have_rules(parts: list[str]) -> None:
    rules = parse_robots(" ".join(parts).encode("utf-8", "surrogatepass"), "kbsync")
    assert rules.allows(URL) in (True, False)
    assert rules.crawl_delay_s is None or rules.crawl_delay_s <= MAX_CRAWL_DELAY_S


@fuzzed(120)
@given(
    st.lists(
        st.sampled_from(
            ["<urlset>", "</urlset>", "<sitemapindex>", "<sitemap>", "</sitemap>", "<url>", "</url>", "<loc>", "</loc>",
             "<?xml version='1.0' encoding='utf-16'?>", "<!DOCTYPE x [<!ENTITY a 'b'>]>", "&a;", "&", "http://h.test/x",
             "\n", "<rss>", "<link>", "<link href='/y'/>", "<![CDATA[", "]]>"]
        )
        | st.text(max_size=8),
        max_size=30,
    ).map(lambda parts: "".join(parts).encode("utf-8", "surrogatepass"))
    | st.binary(max_size=100).map(lambda tail: b"\x1f\x8b" + tail)
    | st.binary(max_size=200)
)  # fmt: skip
def test_sitemaps_are_read_within_bounds(body: bytes) -> None:
    limits = SitemapLimits(max_urls_per_file=5)
    found = parse_sitemap(body, "http://h.test/", limits)
    assert max(len(found.urls), len(found.children)) <= limits.max_urls_per_file


@fuzzed(120)
@given(
    st.text(max_size=60) | st.sampled_from(["1e400", "-5", "Wed, 99 Foo 2026", "9" * 400, "PT5S", "٣"]),
    st.text(max_size=80),
)
def test_a_stated_wait_is_finite(value: str, message: str) -> None:
    names = ("Retry-After", "X-RateLimit-Reset", "RateLimit", "X-RateLimit-Remaining")
    for name in names:
        wait = parse_retry_after([(name, value), (name, value)], message, now=NOW)
        assert wait is None or 0 <= wait.seconds < float("inf")


@fuzzed(60)
@given(st.text(max_size=200))
def test_headers_for_robots_and_canonicals(value: str) -> None:
    assert all(directive == directive.strip() for directive in header_directives(value, "kbsync"))
    assert len(header_canonicals(value, URL)) <= len(value)
