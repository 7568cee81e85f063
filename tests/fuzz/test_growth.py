"""Documents that grow in one dimension: a quadratic reader would not come back from these in anybody's patience, and one
that keeps all it reads would not fit."""

from __future__ import annotations

import pytest

from tests.fuzz.bounded import ends

pytestmark = pytest.mark.spec("RB-04", "SE-05")

# A process of its own, held below this much memory, fails instead of the machine. It says where it is: the last name printed
# is the one that hung.
_HELD = "import resource; resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))\n"
_PAGES = """
from kbsync.http.client import Response
from kbsync.providers.website.page import read_page
for html in (
    "<div>" * 60_000 + "x",
    "<div><ul><li>" * 20_000 + "x",
    "<b>" * 100_000 + "</i>" * 40_000 + "x",
    "<table><tr><td>" * 10_000 + "x",
    "<a href=x>" * 60_000 + "x",
    "<!--" * 200_000 + "x",
    "<" * 1_000_000 + "x",
    "<p" + " a" * 200_000 + ">x",
    "&" * 500_000 + "<p>x",
    "<dt>" * 60_000 + "x",
    "<h2 id=a>" * 40_000 + "x",
    "<pre>" * 40_000 + "x",
    "<script>" * 100_000 + "x",
    "<p>" + "w" * 2_000_000,
):
    print(html[:20], len(html), flush=True)
    read_page(Response(200, "http://h.test/", (), {"content-type": "text/html"}, html.encode()), "kbsync")
"""
_TEXTS = """
from kbsync.domain.chunking import chunk
from kbsync.domain.crawl_text import same_text_key
from kbsync.domain.markdown import plain_text, plain_title
from kbsync.domain.text import searchable_text
from kbsync.providers.files.reading import read_document, split_front_matter
for text in (
    "w" * 1_000_000,
    "> " * 100_000 + "x",
    "```\\n" * 60_000,
    "| a |\\n" * 60_000,
    "- " * 100_000 + "x",
    ("*" * 400 + "a\\n") * 1_000,
    "[" * 100_000,
    "\\n" * 1_000_000 + "x",
    "# " * 60_000,
    "\\u0301" * 200_000,
    "](" * 200_000,
    "<http:" * 100_000,
    "[" * 30_000 + "](x" * 10_000,
    "_" * 50_000 + "*" * 50_000,
    "---\\n" + "[" * 16_000 + "\\n---\\n",
    "---\\n" + "a:\\n" * 5_000 + "---\\n",
):
    print(repr(text[:12]), len(text), flush=True)
    chunk(text, size=400, overlap=40)
    same_text_key(text)
    plain_text(text)
    plain_title(text)
    searchable_text(text)
    split_front_matter(text)
    read_document("a.md", text.encode(), "https://docs.example/")
"""
_WIRE = """
from kbsync.domain.url_identity import judge_link
from kbsync.providers.website.charset import decode
from kbsync.providers.website.links import header_canonicals
from kbsync.providers.website.robots import parse_robots
from kbsync.providers.website.sitemap_file import SitemapLimits, parse_sitemap
for body in (b"<urlset>" + b"<url><loc>" * 200_000, b"<loc>" * 1_000_000, b"<urlset>" + b"&" * 1_000_000):
    print(body[:20], flush=True)
    parse_sitemap(body, "http://h.test/", SitemapLimits())
print("robots", flush=True)
rules = parse_robots(b"User-agent: *\\nDisallow: /" + b"*a" * 200_000, "kbsync")
rules.allows("http://h.test/" + "a" * 2_000)
print("charset", flush=True)
decode(b"<meta " * 400_000, None)
decode(b"<!--" * 400_000, "text/html; " + "charset" * 10_000)
for link in ("/" + "../" * 600_000, "http://" + "a." * 300_000 + "/", "?" + "a&" * 300_000, "%2e/" * 300_000):
    print(link[:20], flush=True)
    judge_link(link, "http://h.test/")
print("canonicals", flush=True)
header_canonicals("<" * 16_000 + "rel=" * 4_000, "http://h.test/")
header_canonicals("<a>" * 5_000 + "rel=" * 4_000, "http://h.test/")
"""


@pytest.mark.parametrize("code", [_PAGES, _TEXTS, _WIRE], ids=["pages", "texts", "wire"])
def test_what_grows_is_read_in_time_and_memory(code: str) -> None:
    assert ends(_HELD + code)
