"""Which characters a page's bytes are (field case D06). Pure.

The rule, in order: byte order mark; the header's charset; the `<meta>` of the first 4 KB; the XML declaration; UTF-8 if
the bytes are valid UTF-8; a guess from the page's language or from Japanese syllables; windows-1252. Labels are the
WHATWG's (`iso-8859-1` is windows-1252), unknown ones are as good as none. A declaration under which more than one
character in a thousand can't be read, or that calls valid UTF-8 single-byte although the page itself says UTF-8, is wrong.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

import webencodings

_PRESCAN = 4_096
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_HEADER = re.compile(r"charset\s*=\s*[\"']?\s*([A-Za-z0-9._:+-]+)", re.IGNORECASE)
_META = re.compile(rb"<meta\b[^>]{0,1000}", re.IGNORECASE)
_META_CHARSET = re.compile(rb"charset\s*=\s*[\"']?\s*([A-Za-z0-9._:+-]+)", re.IGNORECASE)
_XML = re.compile(rb"^\s*<\?xml\b[^>]{0,200}?encoding\s*=\s*[\"']([A-Za-z0-9._:+-]+)", re.IGNORECASE)
_COMMENT = re.compile(rb"<!--.*?(?:-->|\Z)", re.DOTALL)
_LANGUAGE = re.compile(rb"<html\b[^>]{0,500}?\blang\s*=\s*[\"']?([A-Za-z]{2,3})", re.IGNORECASE)
_BY_LANGUAGE = {
    **dict.fromkeys(("ru", "uk", "be", "bg", "sr", "mk"), ("windows-1251",)),
    **dict.fromkeys(("pl", "cs", "hu", "sk", "sl", "hr", "ro"), ("windows-1250",)),
    "ja": ("shift_jis", "euc-jp"),
    "zh": ("gb18030", "big5"),
    "ko": ("euc-kr",),
    "tr": ("windows-1254",),
    "el": ("windows-1253",),
    "he": ("windows-1255",),
    "ar": ("windows-1256",),
    "th": ("windows-874",),
}
_KANA = re.compile("[\u3041-\u30ff]")
_NOT_ASCII = re.compile("[^\x00-\x7f]")
_TOLERATED = 1_000  # one unreadable character in so many


def decode(body: bytes, content_type: str | None) -> str:
    """`body` as text by the rule above. Never raises; what no rule can read becomes U+FFFD."""
    for mark, name in _BOMS:
        if body.startswith(mark):
            return body[len(mark) :].decode(name, "replace")
    utf8 = _strict(body, "utf-8")
    best: tuple[int, str] | None = None
    for name in _declared(body, content_type, utf8 is not None):
        text = body.decode(name, "replace") if name != "utf-8" or utf8 is None else utf8
        unreadable = text.count("\ufffd")
        if unreadable * _TOLERATED <= len(text):
            return text
        if best is None or unreadable < best[0]:
            best = (unreadable, text)
    if utf8 is not None:
        return utf8
    guessed = _guess(body)
    if best is None or "\ufffd" not in guessed[1]:
        return guessed[1]
    return min(best, guessed)[1]


def _declared(body: bytes, content_type: str | None, is_utf8: bool) -> Iterator[str]:
    """The codecs that header, meta and XML declaration name, in the order in which they are believed."""
    header = _HEADER.search(content_type or "")
    stated = codec_of(header[1]) if header else None
    in_page = _page_codec(body)
    if stated is not None and not (is_utf8 and in_page == "utf-8" and not body.isascii()):
        yield stated
    if in_page is not None:
        yield in_page


def _page_codec(body: bytes) -> str | None:
    head = _COMMENT.sub(b"", body[:_PRESCAN])
    for meta in _META.finditer(head):
        found = _META_CHARSET.search(meta[0])
        if found and (codec := codec_of(found[1].decode("ascii"))) is not None:
            # A page whose meta can be read is no UTF-16.
            return "utf-8" if codec.startswith("utf-16") else codec
    declaration = _XML.search(head)
    return codec_of(declaration[1].decode("ascii")) if declaration else None


def codec_of(label: str) -> str | None:
    """Python's codec for a WHATWG label, None for one that is unknown."""
    encoding = webencodings.lookup(label.strip("\"';, "))
    if encoding is None or encoding.name in ("replacement", "x-user-defined"):
        return None
    return str(encoding.codec_info.name)


def _guess(body: bytes) -> tuple[int, str]:
    language = _LANGUAGE.search(body[:_PRESCAN])
    for name in _BY_LANGUAGE.get(language[1].decode("ascii").lower(), ()) if language else ():
        text = _strict(body, codec_of(name) or name)
        if text is not None:
            return 0, text
    for name in ("shift_jis", "euc-jp"):
        text = _strict(body, codec_of(name) or name)
        # A fifth of what is not ASCII being syllables is what Japanese looks like, and nothing else does by chance.
        if text is not None and 5 * len(_KANA.findall(text)) > len(_NOT_ASCII.findall(text)) > 0:
            return 0, text
    text = body.decode("cp1252", "replace")
    return text.count("\ufffd"), text


def _strict(body: bytes, codec: str) -> str | None:
    try:
        return body.decode(codec)
    except UnicodeDecodeError:
        return None
