"""One page, one name; what belongs to a crawl; what is a trap."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kbsync.domain.requests import MAX_URL_LENGTH
from kbsync.domain.url_identity import Found, NotFollowed, _judge, found_url, judge_link
from kbsync.domain.url_scope import Scope, TrapGuard, host_and_port, path_of, pattern_bound, pattern_of

BASE = "http://site.test/docs/page.html?x=1"


def identity(raw: str, base: str = BASE) -> str | None:
    found = found_url(raw, base)
    return None if found is None else found.identity


def fetched(raw: str, base: str = BASE) -> str | None:
    found = found_url(raw, base)
    return None if found is None else found.fetch_url


@pytest.mark.spec("LS-16")
@pytest.mark.parametrize(
    ("raw", "target"),
    [
        ("a.html", "/docs/a.html"),
        ("./a.html", "/docs/a.html"),
        ("../a.html", "/a.html"),
        ("../../../a.html", "/a.html"),
        ("b/./c/../d.html", "/docs/b/d.html"),
        (" \t a.html\n", "/docs/a.html"),
        ("a\n.html", "/docs/a.html"),
        ("?y=2", "/docs/page.html?y=2"),
        ("?", "/docs/page.html"),
        ("/", "/"),
        ("//other.test/p", "http://other.test/p"),
        ("///other.test/p", "http://other.test/p"),
        ("sp ace.html", "/docs/sp%20ace.html"),
        ("\\up\\down", "/up/down"),
        ("%2e%2e/a", "/a"),
        ("..", "/"),
        (".", "/docs/"),
        ("über", "/docs/%C3%BCber"),
        ("HTTP://Site.TEST./a", "/a"),
        ("http:a", "/docs/a"),
        ("https:/other.test/a", "https://other.test/a"),
        ("http://münchen.test/", "http://xn--mnchen-3ya.test/"),
        ("http://[2A00:0:0::1]:80/x", "http://[2a00::1]/x"),
        ("a:b", None),
        ("#top", None),
        ("", None),
        ("mailto:a@b.test", None),
        ("javascript:void(0)", None),
        ("java\nscript:alert(1)", None),
        ("data:text/html,x", None),
        ("file:///etc/passwd", None),
        ("http://user:secret@site.test/", None),
        ("{{ page.url }}", None),
        ("http://a b/", None),
        ("http://..", None),
        ("http://site.test:0/", None),
        ("http://site.test:99999/", None),
        ("http://site.test:8x/", None),
    ],
)
def test_links_resolve_as_in_a_browser(raw: str, target: str | None) -> None:
    expected = f"http://site.test{target}" if target is not None and target.startswith("/") else target
    assert identity(raw) == expected


@pytest.mark.spec("LS-16")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("http://site.test", "http://site.test/"),
        ("HTTP://SITE.test:80/", "http://site.test/"),
        ("https://site.test:443/a", "https://site.test/a"),
        ("/%7Eu/", "/~u/"),
        ("/%7eu", "/~u"),
        ("/a%2fb", "/a%2Fb"),
        ("/e?", "/e"),
        ("/e#part", "/e"),
        ("/e?&&", "/e"),
        ("/l?b=2&a=1", "/l?a=1&b=2"),
        ("/p?utm_source=x&id=3&fbclid=y", "/p?id=3"),
        ("/p;jsessionid=AB?PHPSESSID=1", "/p"),
        ("/p?sid=0123456789abcdef0", "/p"),
    ],
)
def test_spellings_of_one_page_have_one_identity(one: str, other: str) -> None:
    assert identity(one) == identity(other)


@pytest.mark.spec("LS-16")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/content/", "/content"),
        ("/a%2Fb", "/a/b"),
        ("/Page", "/page"),
        ("/p?sid=12", "/p?sid=13"),
        ("/p?tag=b&tag=a", "/p?tag=a&tag=b"),
        ("/p?a", "/p?a="),
        ("/index.html", "/"),
        ("http://www.site.test/", "http://site.test/"),
        ("https://site.test/", "http://site.test/"),
        ("/p?x=a+b", "/p?x=a%2Bb"),
        ("/x%25zz", "/xzz"),
    ],
)
def test_different_pages_keep_different_identities(one: str, other: str) -> None:
    assert identity(one) != identity(other)


@pytest.mark.spec("LS-16")
@pytest.mark.parametrize("path", ["/%7Eu/", "/content/", "/l?b=2&a=1", "/p;jsessionid=AB?utm_source=x", "/a%2fb"])
def test_the_spelling_on_the_page_is_the_one_that_is_fetched(path: str) -> None:
    assert fetched(path) == f"http://site.test{path}"


@pytest.mark.spec("SE-03")
@pytest.mark.parametrize(
    "host",
    [
        "2130706433",
        "127.1",
        "0x7f.1",
        "0x7f000001",
        "0177.0.0.1",
        "127.0.0.1.1",
        "1.256.3.4",
        "[::1%25lo]",
        "[::1",
        "0x",
    ],
)
def test_addresses_in_unusual_spellings_are_not_followed(host: str) -> None:
    assert isinstance(judge_link(f"http://{host}/", BASE), NotFollowed)


@pytest.mark.spec("LS-16")
def test_long_urls_are_kept_apart_or_refused_singly() -> None:
    most = MAX_URL_LENGTH - len("http://site.test/p?x=")
    one, other = found_url(f"/p?x={'r' * (most - 1)}1", BASE), found_url(f"/p?x={'r' * (most - 1)}2", BASE)
    assert one is not None
    assert other is not None
    assert one.identity != other.identity
    assert len(one.identity) == MAX_URL_LENGTH
    refused = judge_link(f"/p?x={'r' * (most + 1)}", BASE)
    assert refused == NotFollowed("URL longer than 8192 characters")
    # A long tracking tail doesn't hide a short page, but it can't be fetched either.
    assert isinstance(judge_link(f"/p?utm_source={'r' * 9_000}", BASE), NotFollowed)


TEXT = st.text(max_size=60) | st.text(alphabet="ab./\\?#&=%:@[]~;2eEfF\x00\t \udc80", max_size=40)


@given(raw=TEXT, base=st.sampled_from([BASE, "http://h", "https://h.test:8443/a/b/?q", "http://[::2]/x/y"]))
@example(raw="?", base=BASE)
@example(raw="http:", base=BASE)
@example(raw="http:?x", base=BASE)
@example(raw="//%", base=BASE)
@example(raw="?{\x7f", base=BASE)
@settings(max_examples=400, deadline=None)
def test_any_link_gives_safe_text_and_a_stable_identity(raw: str, base: str) -> None:
    judged = judge_link(raw, base)
    reference = raw.partition("#")[0].strip("".join(map(chr, range(0x21))))
    if reference:
        assert judged == _judge(reference, base), "the cache and its shorter bases change nothing"
    if isinstance(judged, NotFollowed):
        return
    for url in (judged.identity, judged.fetch_url):
        assert url.isascii()
        assert url.isprintable()
        assert not {" ", "#"} & set(url)
        assert url.startswith(("http://", "https://"))
    assert found_url(judged.fetch_url, "") == judged
    again = found_url(judged.identity, "")
    assert again is not None
    assert again.identity == judged.identity


# --- scope --------------------------------------------------------------------------------------------------------


@pytest.mark.spec("LS-16")
@pytest.mark.parametrize(
    ("url", "is_in"),
    [
        ("http://example.com/", True),
        ("https://example.com/fr", True),
        ("http://example.com.evil.test/", False),
        ("http://evil-example.com/", False),
        ("http://sub.example.com/", False),
        ("http://www.example.com/", False),
        ("http://example.com:8080/", False),
        ("http://docs.example.com:8443/", True),
    ],
)
def test_hosts_are_matched_whole(url: str, is_in: bool) -> None:
    scope = Scope.of(["Example.com", "docs.example.com:8443"])
    found = found_url(url, "")
    assert found is not None
    assert scope.contains(found.identity) is is_in


@pytest.mark.spec("LS-16")
@pytest.mark.parametrize(
    ("path", "is_in"),
    [
        ("/fr", True),
        ("/fr/", True),
        ("/fr/x?y=1", True),
        ("/fr?y=1", True),
        ("/france", False),
        ("/fr-ca", False),
        ("/", False),
        ("/fr/private", False),
        ("/fr/private/x", False),
        ("/fr//private/x", False),
        ("/fr/%70rivate/x", False),
        ("/fr/privateer", True),
    ],
)
@pytest.mark.parametrize("prefix", ["/fr", "fr", "/fr/"])
def test_paths_are_matched_on_segments_and_excludes_win(prefix: str, path: str, is_in: bool) -> None:
    scope = Scope.of(["h.test"], [prefix], ["/fr/private"])
    found = found_url(path, "http://h.test/")
    assert found is not None
    assert scope.contains(found.identity) is is_in


def test_the_root_as_a_prefix_holds_every_path() -> None:
    scope = Scope.of(["h.test"], ["/"])
    assert scope.contains("http://h.test/")
    assert scope.contains("http://h.test/a/b")


@pytest.mark.parametrize("host", ["", "a b", "http://", "user@host"])
def test_a_host_that_is_none_is_refused(host: str) -> None:
    with pytest.raises(ValueError, match="not a host"):
        Scope.of([host])


# --- traps --------------------------------------------------------------------------------------------------------


@pytest.mark.spec("LS-16")
@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/a/a/a/", "path repeats"),
        ("/x/a/b/a/b/a/b", "path repeats"),
        ("/" + "/".join(f"s{n}" for n in range(41)), "deeper"),
        ("/t?q=&q=&q=", "parameter repeats"),
        ("/t?" + "&".join(f"p{n}=1" for n in range(13)), "query parameters"),
        ("/a/a/", None),
        ("/2024/01/01/", None),
        ("/docs/api/docs/guide/docs", None),
        ("/t?tag=a&tag=b&tag=c", None),
        ("/t?q=&q=", None),
    ],
)
def test_traps_are_told_by_the_url(path: str, reason: str | None) -> None:
    told = TrapGuard().reason(f"http://h.test{path}")
    assert (told is None) if reason is None else (told is not None and reason in told)


@pytest.mark.spec("LS-16")
def test_a_generator_has_one_pattern_and_calendars_a_small_bound() -> None:
    assert pattern_of("http://h.test/cal/2024-05?m=3&y=1") == pattern_of("http://h.test/cal/1999-12?m=4&y=2")
    assert pattern_of("http://h.test/a") != pattern_of("http://h.test/b")
    assert pattern_of("http://h.test/a?x=1") != pattern_of("http://h.test/a?y=1")
    assert pattern_of("http://h.test/f/0a1b2c3d4e5f60") == pattern_of("http://h.test/f/ffffffff00000000")
    assert pattern_of("http://h.test/f/introduction") != pattern_of("http://h.test/f/installation")
    assert pattern_bound("http://h.test/cal?m=2024-05", 1_000) == 100
    assert pattern_bound("http://h.test/e?month=5", 1_000) == 100
    assert pattern_bound("http://h.test/article?id=5", 1_000) == 1_000


@given(segments=st.lists(st.sampled_from(["a", "b", "c"]), max_size=60), query=st.text(alphabet="ab=&", max_size=60))
@settings(max_examples=200, deadline=None)
def test_no_url_is_too_much_for_the_guards(segments: list[str], query: str) -> None:
    found = found_url(f"http://h.test/{'/'.join(segments)}?{query}", "")
    assert isinstance(found, Found)
    TrapGuard().reason(found.identity)
    pattern_of(found.identity)
    assert path_of(found.identity).startswith("/")
    assert host_and_port(found.identity) == "h.test"
