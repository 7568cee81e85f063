"""Bodies read with their bounds on, compressed or not (SE-05). A body is never trusted to be as long as it says."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import StreamReader

from kbsync.domain.errors import ProviderUnreachable
from kbsync.http.errors import ResponseRefused

_CHUNK = 65_536
# Below this a high ratio is an ordinary repetitive page.
_RATIO_FROM_BYTES = 1_048_576


@dataclass(frozen=True)
class BodyLimits:
    """`cut`: a body over `max_bytes` ends there instead of being refused. Rates are of the bytes on the wire."""

    max_bytes: int
    max_ratio: int = 200
    min_bytes_per_s: float = 256
    drip_grace_s: float = 5
    cut: bool = False


class Inflater:
    """Undoes one Content-Encoding, bounded: never more than `max_bytes` out, never more than the ratio out of its input."""

    def __init__(self, encoding: str, limits: BodyLimits) -> None:
        self._limits = limits
        self._encoding = encoding
        self._stream = None if encoding == "identity" else zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
        self._in = 0
        self._started = False
        self.output = bytearray()

    def feed(self, data: bytes) -> bool:
        """Takes the next bytes; answers False when the body was cut and no more is wanted. Raises ResponseRefused for
        a bomb or an excess, ProviderUnreachable for what doesn't unpack."""
        self._in += len(data)
        if self._stream is None:
            self.output += data
            return self._within_bounds()
        pending = self._first(data)
        while pending:
            self.output += self._unpack(pending)
            if not self._within_bounds():
                return False
            pending = self._rest()
        return True

    def end(self) -> None:
        """Raises ProviderUnreachable when the compressed stream stops in the middle."""
        if self._stream is not None and self._started and not self._stream.eof:
            raise ProviderUnreachable("the compressed body is truncated")

    def _first(self, data: bytes) -> bytes:
        # "deflate" means zlib's frame by the standard and none by the practice of some servers.
        if not self._started and data and self._encoding == "deflate" and (data[0] & 0x0F) != 8:
            self._stream = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
        self._started = self._started or bool(data)
        assert self._stream is not None
        return data if not self._stream.eof else b""

    def _unpack(self, data: bytes) -> bytes:
        assert self._stream is not None
        room = self._limits.max_bytes + 1 - len(self.output)
        try:
            return self._stream.decompress(data, max(1, min(room, 4 * _CHUNK)))
        except zlib.error:
            raise ProviderUnreachable("the compressed body is malformed") from None

    def _rest(self) -> bytes:
        assert self._stream is not None
        if self._stream.eof:
            # A gzip body may have several members; anything else behind the first one is padding.
            rest = self._stream.unused_data
            if rest[:2] != b"\x1f\x8b":
                return b""
            self._stream = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
            return rest
        return self._stream.unconsumed_tail

    def _within_bounds(self) -> bool:
        size = len(self.output)
        if size > _RATIO_FROM_BYTES and size > self._in * self._limits.max_ratio:
            raise ResponseRefused("the body unpacks to far more than was sent")
        if size <= self._limits.max_bytes:
            return True
        if not self._limits.cut:
            raise ResponseRefused(f"the body is larger than {self._limits.max_bytes} bytes")
        del self.output[self._limits.max_bytes :]
        return False


def encoding_of(header: str | None) -> str:
    """The one Content-Encoding of a response. Raises ResponseRefused for stacked or unknown ones: none was asked for."""
    names = [name.strip().lower() for name in re.split(r"[,\n]", header or "") if name.strip()]
    names = [name.removeprefix("x-") for name in names if name != "identity"]
    if not names:
        return "identity"
    if len(names) > 1:
        raise ResponseRefused("the body is compressed several times over")
    if names[0] not in ("gzip", "deflate"):
        raise ResponseRefused("the body has an encoding that was not asked for")
    return names[0]


async def read_body(
    stream: StreamReader, encoding: str, limits: BodyLimits, clock: Callable[[], float]
) -> tuple[bytes, bool]:
    """The unpacked body and whether it was cut. Raises ResponseRefused, or ProviderUnreachable when it comes slower
    than `min_bytes_per_s` after the grace or stops too early."""
    inflater = Inflater(encoding, limits)
    started, received = clock(), 0
    async for data in stream.iter_chunked(_CHUNK):
        received += len(data)
        elapsed = clock() - started
        if elapsed > limits.drip_grace_s and received < elapsed * limits.min_bytes_per_s:
            raise ProviderUnreachable("the body comes too slowly")
        if not inflater.feed(data):
            return bytes(inflater.output), True
    inflater.end()
    return bytes(inflater.output), False
