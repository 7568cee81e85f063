"""What a page says of itself: not to be indexed, not to be followed, a copy of another (LS-16)."""

from __future__ import annotations

import pytest

from kbsync.providers.contract import CrawledPage
from tests.website.fake_site import FakeSite, Reply
from tests.website.one_page import fetch, stored


@pytest.mark.spec("LS-16")
@pytest.mark.parametrize(
    ("meta", "header", "is_stored", "is_followed"),
    [
        ("", "", True, True),
        ("noindex", "", False, True),
        ("NoIndex, Follow", "", False, True),
        ("nofollow", "", True, False),
        ("none", "", False, False),
        ("index", "noindex", False, True),
        ("", "none", False, False),
        ("", "otherbot: noindex", True, True),
        ("", "kbsync: noindex", False, True),
    ],
)
async def test_robots_meta_and_header(
    site: FakeSite, meta: str, header: str, is_stored: bool, is_followed: bool
) -> None:
    html = f"<html><head><meta name=robots content='{meta}'></head><body><p>text</p><a href='/a'>a</a></body></html>"
    site.on("/p", Reply(body=html, headers={"X-Robots-Tag": header} if header else {}))
    result = await fetch(site)
    assert isinstance(result, CrawledPage)
    assert (result.content is not None, bool(result.links)) == (is_stored, is_followed)
    assert is_stored or result.detail == "asks not to be indexed"


# --- canonicals ---------------------------------------------------------------------------------------------------

CANONICAL = "<html><head><link rel=canonical href='{}'></head><body><p>text</p></body></html>"


@pytest.mark.spec("LS-16")
async def test_a_copy_names_its_original(site: FakeSite) -> None:
    site.page("/p?print=1", CANONICAL.format("/p"))
    site.page("/p", CANONICAL.format("/p"))
    result = await fetch(site, "/p?print=1")
    assert isinstance(result, CrawledPage)
    assert (result.content, result.canonical) == (None, site.found("/p"))
    assert result.detail == "names another page as its canonical one"
    assert (await stored(site)).markdown == "text"
    site.on("/q", Reply(body="<p>by header</p>", headers={"Link": '</p>; rel="canonical"'}))
    result = await fetch(site, "/q")
    assert isinstance(result, CrawledPage)
    assert result.canonical == site.found("/p")


@pytest.mark.spec("LS-16", "SE-03", "LS-17")
@pytest.mark.parametrize(
    "target",
    [
        "http://elsewhere.test/p",
        "http://169.254.169.254/latest/",
        "http://[::ffff:127.0.0.1]/",
        "/",
        "/missing",
        "/moved",
        "/noindex",
        "/third",
        "/excluded/x",
        "/broken",
        "/forbidden",
        "javascript:x",
        "",
    ],
)
async def test_a_canonical_link_that_can_t_be_believed_is_ignored(site: FakeSite, target: str) -> None:
    site.robots("User-agent: *\nDisallow: /forbidden\n")
    site.page("/p", CANONICAL.format(target))
    site.page("/", "<p>home</p>")
    site.redirect("/moved", "/")
    site.page("/noindex", "<p>x</p>", X_Robots_Tag="noindex")
    site.page("/third", CANONICAL.format("/other"))
    site.on("/broken", Reply(500))
    for path in ("/excluded/x", "/forbidden"):
        site.page(path, "<p>x</p>")
    result = await fetch(site, exclude_paths=["/excluded"])
    assert isinstance(result, CrawledPage)
    assert result.content is not None
    assert result.canonical is None
    assert not {"/excluded/x", "/forbidden"} & set(site.targets)


async def test_several_canonicals_are_none(site: FakeSite) -> None:
    site.page("/p", CANONICAL.format("/a").replace("</head>", "<link rel=canonical href='/b'></head>"))
    assert (await stored(site)).markdown == "text"
