"""One sitemap file: XML (urlset, index, RSS, Atom) or text, gzipped or not, read within bounds (field case D05, SE-05).

Pure. The parser streams, declares no entities and loads nothing. What was found before a fault or a bound stays found;
the fault is a finding of its own.
"""

from __future__ import annotations

import html
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

from kbsync.domain.url_identity import Found, found_url

_GZIP = b"\x1f\x8b"
_PIECE = 65_536
_MAX_NESTING = 64
_MAX_LOC = 8_192
_LOC = re.compile(r"<(?:[a-z0-9]+:)?loc\b[^>]{0,200}>([^<]{1,8192})</", re.IGNORECASE)
_HTML = re.compile(rb"^(?:\xef\xbb\xbf)?\s*<(?:!doctype\s+html|html)\b", re.IGNORECASE)


@dataclass(frozen=True)
class SitemapLimits:
    """Bounds over one crawl's sitemaps. The size is of one file, unpacked."""

    max_urls: int = 5_000
    max_urls_per_file: int = 50_000
    max_files: int = 100
    max_depth: int = 5
    max_bytes: int = 52_428_800
    max_ratio: int = 200


@dataclass(frozen=True)
class SitemapFile:
    """What one file holds. `fault` says why it may hold more than was found; `is_sitemap` is False for other documents."""

    urls: tuple[Found, ...] = ()
    children: tuple[Found, ...] = ()
    fault: str | None = None
    is_sitemap: bool = True


class _Bound(Exception):
    """A bound was met: the reason is its text."""


@dataclass
class _Reader:
    base_url: str
    limits: SitemapLimits
    urls: dict[str, Found] = field(default_factory=dict)
    children: dict[str, Found] = field(default_factory=dict)
    root: str = ""
    ended: bool = False
    _path: list[str] = field(default_factory=list)
    _text: list[str] | None = None
    _length: int = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        local = name.rpartition(":")[2].lower()
        self.root = self.root or local
        self._path.append(local)
        if len(self._path) > _MAX_NESTING:
            raise _Bound("sitemap nested too deeply")
        parent = self._path[-2] if len(self._path) > 1 else ""
        if (parent, local) in (("url", "loc"), ("sitemap", "loc"), ("item", "link")):
            self._text, self._length = [], 0
        elif local == "link" and parent in ("url", "entry") and attributes.get("rel", "alternate") == "alternate":
            self.take(attributes.get("href", ""), self.urls)

    def text(self, data: str) -> None:
        if self._text is not None and self._length <= _MAX_LOC:
            self._text.append(data)
            self._length += len(data)

    def end(self, name: str) -> None:
        if self._text is not None:
            is_child = len(self._path) > 1 and self._path[-2] == "sitemap"
            self.take("".join(self._text), self.children if is_child else self.urls)
            self._text = None
        self._path.pop()
        self.ended = not self._path

    def entity(self, *_: object) -> None:
        raise _Bound("sitemap declares entities")

    def take(self, raw: str, where: dict[str, Found]) -> None:
        found = found_url(raw.strip(), self.base_url) if raw.strip() else None
        if found is not None:
            where.setdefault(found.identity, found)
            if len(where) > self.limits.max_urls_per_file:
                del where[found.identity]
                raise _Bound(f"sitemap too large: more than {self.limits.max_urls_per_file} URLs")


def parse_sitemap(body: bytes, base_url: str, limits: SitemapLimits) -> SitemapFile:
    """What a file holds, whatever its type and suffix claim. Never raises for any bytes."""
    try:
        pieces = _unpacked(body, limits)
        first = next(pieces, b"")
        if not first.lstrip(b"\xef\xbb\xbf \t\r\n"):
            # Nothing but space so far; a bomb of spaces ends at the bound, an empty file at its end.
            return _drained(pieces)
        if _HTML.match(first):
            return SitemapFile(is_sitemap=False)
        if not first.lstrip(b"\xef\xbb\xbf \t\r\n\xff\xfe\xfe").startswith((b"<", b"\x00<")):
            return _text_sitemap(first, pieces, base_url, limits)
        # Space before the XML declaration is a fault that many templates make.
        return _xml_sitemap(first.lstrip(b" \t\r\n"), pieces, base_url, limits)
    except _Bound as bound:
        return SitemapFile(fault=str(bound))


def _drained(pieces: Iterator[bytes]) -> SitemapFile:
    for _ in pieces:
        pass
    return SitemapFile(is_sitemap=False)


def _xml_sitemap(first: bytes, pieces: Iterator[bytes], base_url: str, limits: SitemapLimits) -> SitemapFile:
    reader = _Reader(base_url, limits)
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    parser.EntityDeclHandler = reader.entity
    fault = None
    read = bytearray()
    try:
        read += first
        parser.Parse(first, False)
        for piece in pieces:
            read += piece
            if len(read) > 4 * _PIECE:
                del read[: -2 * _PIECE]
            parser.Parse(piece, False)
        parser.Parse(b"", True)
    except _Bound as bound:
        fault = str(bound)
    except (expat.ExpatError, ValueError, LookupError):
        if not reader.ended:
            fault = _salvage(bytes(read), pieces, reader)
    if reader.root not in ("urlset", "sitemapindex", "rss", "feed", "rdf") and not reader.urls and not reader.children:
        return SitemapFile(fault=fault if fault and "declares" in fault else None, is_sitemap=False)
    return SitemapFile(tuple(reader.urls.values()), tuple(reader.children.values()), fault)


def _salvage(read: bytes, pieces: Iterator[bytes], reader: _Reader) -> str | None:
    """Reads the rest of half-broken XML as text: a stray `&` must not hide the 40,000 URLs behind it. Answers the fault,
    or None when the file's own end was seen."""
    is_index = reader.root == "sitemapindex" or (not reader.root and b"<sitemapindex" in read)
    where = reader.children if is_index else reader.urls
    tail, text = "", ""
    try:
        for piece in (read, *_lazily(pieces)):
            text = tail + piece.decode("utf-8", "replace")
            for match in _LOC.finditer(text):
                reader.take(html.unescape(match[1]), where)
            tail = text[-2 * _MAX_LOC :]
    except _Bound as bound:
        return str(bound)
    return None if re.search(r"</(?:[a-z0-9]+:)?(?:urlset|sitemapindex)\s*>\s*$", tail, re.I) else "sitemap malformed"


def _lazily(pieces: Iterator[bytes]) -> Iterator[bytes]:
    yield from pieces


def _text_sitemap(first: bytes, pieces: Iterator[bytes], base_url: str, limits: SitemapLimits) -> SitemapFile:
    reader = _Reader(base_url, limits)
    fault = None
    try:
        for line in _lines(first, pieces):
            if line[:8].lower().startswith((b"http://", b"https://")):
                reader.take(line.decode("utf-8", "replace"), reader.urls)
    except _Bound as bound:
        fault = str(bound)
    return SitemapFile(tuple(reader.urls.values()), (), fault, is_sitemap=bool(reader.urls))


def _lines(first: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
    kept = first.removeprefix(b"\xef\xbb\xbf")
    while True:
        *whole, kept = kept.split(b"\n")
        yield from (line.strip() for line in whole)
        piece = next(pieces, None)
        if piece is None:
            yield kept.strip()
            return
        kept = kept[-2 * _MAX_LOC :] + piece


def _unpacked(body: bytes, limits: SitemapLimits) -> Iterator[bytes]:
    """The file in pieces, through up to two layers of gzip told by their magic. Raises _Bound over the size or ratio."""
    pieces: Iterator[bytes] = (body[start : start + _PIECE] for start in range(0, len(body), _PIECE))
    if body.startswith(_GZIP):
        pieces = _inflated(pieces, limits)
        head = next(pieces, b"")
        pieces = _with_head(head, pieces)
        if head.startswith(_GZIP):
            pieces = _inflated(pieces, limits)
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > limits.max_bytes:
            raise _Bound(f"sitemap too large: more than {limits.max_bytes} bytes")
        yield piece


def _with_head(head: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
    yield head
    yield from pieces


def _inflated(pieces: Iterator[bytes], limits: SitemapLimits) -> Iterator[bytes]:
    stream = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    taken = given = 0
    for piece in pieces:
        taken += len(piece)
        pending = piece
        while pending and not stream.eof:
            try:
                out = stream.decompress(pending, _PIECE)
            except zlib.error:
                raise _Bound("sitemap unpacks to nothing readable") from None
            pending = stream.unconsumed_tail
            given += len(out)
            if given > 1_048_576 and given > taken * limits.max_ratio:
                raise _Bound("sitemap too large: it unpacks to far more than was sent")
            if out:
                yield out
    if not stream.eof:
        raise _Bound("sitemap truncated")
