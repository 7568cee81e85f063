"""A folder of pages served from memory on loopback, as cheaply as Python can: `crawl_site FOLDER PORT`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

_TYPES = {".html": "text/html", ".css": "text/css", ".svg": "image/svg+xml", ".png": "image/png"}
_MISSING = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"


def answers(folder: Path, limit: int = 0) -> dict[bytes, bytes]:
    """Every file's whole answer by its path. With a `limit`, so many pages by name, the index among them."""
    files = sorted(path for path in folder.iterdir() if path.is_file())
    if limit:
        kept = [path for path in files if path.name == "index.html" or path.suffix != ".html"]
        files = kept + [path for path in files if path not in kept][: limit - 1]
    return {f"/{path.name}".encode(): _answer(path) for path in files}


def _answer(path: Path) -> bytes:
    body = path.read_bytes()
    kind = _TYPES.get(path.suffix, "application/octet-stream")
    return f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


class _Serve(asyncio.Protocol):
    def __init__(self, pages: dict[bytes, bytes]) -> None:
        self._pages = pages
        self._read = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._read += data
        while (end := self._read.find(b"\r\n\r\n")) >= 0:
            target = self._read.split(b" ", 2)[1].partition(b"?")[0]
            self._read = self._read[end + 4 :]
            self._transport.write(self._pages.get(target, _MISSING))


async def serve(folder: Path, port: int, limit: int) -> None:
    pages = answers(folder, limit)
    server = await asyncio.get_running_loop().create_server(lambda: _Serve(pages), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0))
