"""Pages in every charset, declared well, badly or not at all (field cases D06, D07)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbsync.providers.contract import CrawledPage
from kbsync.providers.website.charset import codec_of, decode
from tests.website.fake_site import FakeSite, Reply
from tests.website.one_page import stored

JAPANESE = "日本語の見出し"
RUSSIAN = "Привет, мир"


def page(text: str, head: str = "") -> str:
    return f"<html><head>{head}<title>{text}</title></head><body><h1>{text}</h1><p>{text}</p></body></html>"


META = '<meta charset="{}">'
OLD_META = '<meta content="text/html; charset={}" http-equiv=Content-Type>'


@pytest.mark.spec("LS-16")
@pytest.mark.parametrize(
    ("text", "codec", "content_type", "head"),
    [
        (JAPANESE, "shift_jis", "text/html", OLD_META.format("Shift_JIS")),
        (JAPANESE, "shift_jis", "text/html", META.format("sjis")),
        (JAPANESE, "shift_jis", "text/html", ""),
        (JAPANESE, "euc-jp", "text/html", ""),
        (JAPANESE, "euc-jp", "text/html; charset=EUC-JP", ""),
        (RUSSIAN, "windows-1251", "text/html; charset=windows-1251", ""),
        (RUSSIAN, "windows-1251", 'text/html; charset="cp1251"', ""),
        (RUSSIAN, "koi8-r", "text/html; charset=koi8-r", META.format("utf-8")),
        (RUSSIAN, "utf-8", "text/html; charset=utf8;", ""),
        (RUSSIAN, "utf-8", "text/html; charset=x-nothing", ""),
        (RUSSIAN, "utf-8", "text/html", META.format("x-nothing")),
        (RUSSIAN, "utf-8", "text/html", ""),
        (RUSSIAN, "utf-8-sig", "text/html; charset=windows-1251", ""),
        (RUSSIAN, "utf-16", "text/html; charset=utf-8", ""),
        (RUSSIAN, "utf-8", "text/html; charset=iso-8859-1", META.format("utf-8")),
        (RUSSIAN, "windows-1251", "text/html; charset=utf-8", META.format("windows-1251")),
        (RUSSIAN, "utf-8", "text/html", META.format("utf-16")),
        (RUSSIAN, "windows-1251", "text/html", "<script>var x = 'charset=shift_jis'</script>" + META.format("cp1251")),
        (RUSSIAN, "windows-1251", "text/html", "<!-- <meta charset=shift_jis> -->" + META.format("cp1251")),
        ("“naïve” – café", "windows-1252", "text/html", ""),
        ("“naïve” – café", "windows-1252", "text/html; charset=iso-8859-1", ""),
        ("汉字内容", "gbk", "text/html; charset=gb2312", ""),
    ],
)
async def test_the_text_is_readable(site: FakeSite, text: str, codec: str, content_type: str, head: str) -> None:
    site.on("/", Reply(body=page(text, head).encode(codec), content_type=content_type))
    content = await stored(site, "/")
    assert content.title == text
    assert text in content.markdown
    assert "\ufffd" not in content.markdown


def test_the_page_s_language_decides_when_nothing_else_is_said() -> None:
    body = page(RUSSIAN).replace("<html>", '<html lang="ru-RU">').encode("windows-1251")
    assert RUSSIAN in decode(body, None)


def test_an_xml_declaration_counts() -> None:
    body = f"<?xml version='1.0' encoding='windows-1251'?>{page(RUSSIAN)}".encode("windows-1251")
    assert RUSSIAN in decode(body, "application/xhtml+xml")


def test_labels_are_the_web_s() -> None:
    assert codec_of("iso-8859-1") == "cp1252"
    assert codec_of(" UTF8;") == "utf-8"
    assert codec_of("utf-7") is None
    assert codec_of("x-nothing") is None


@given(st.binary(max_size=300), st.text(max_size=40) | st.none())
def test_any_bytes_are_text(body: bytes, content_type: str | None) -> None:
    assert isinstance(decode(b"<meta charset=" + body, content_type), str)
    assert isinstance(decode(body, f"text/html; charset={content_type}"), str)


@pytest.mark.spec("LS-13")
async def test_nul_bytes_leave_the_page_readable(site: FakeSite) -> None:
    body = b'<html><head><title>Ti\0tle</title></head><body><p>before\0after &#0; &#xD800;</p><a href="/x\0y">l</a>'
    site.on("/", Reply(body=body, headers={"ETag": '"a"'}))
    result = await site.provider().crawl_page(site.found("/"))
    assert isinstance(result, CrawledPage)
    assert result.content is not None
    assert result.content.title == "Title"
    assert "beforeafter" in result.content.markdown
    assert result.detail == "characters that can't be stored were removed"
    texts = [result.content.markdown, result.content.title, *(link.url + link.fetch_url for link in result.links)]
    assert not any(character in text for text in texts for character in ("\0", "\ud800"))
    site.on("/t", Reply(body=b"te\0xt", content_type="text/plain"))
    assert (await stored(site, "/t")).markdown == "text"
