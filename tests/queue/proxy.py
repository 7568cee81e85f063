"""A TCP proxy in front of Redis that can delay, drop every connection, and refuse new ones."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit


class Proxy:
    def __init__(self, host: str, port: int, delay_s: float) -> None:
        self._target = (host, port)
        self.delay_s = delay_s
        self.refusing = False
        self.swallow_replies = False
        self._writers: set[asyncio.StreamWriter] = set()
        self.url = ""

    @classmethod
    @asynccontextmanager
    async def to(cls, url: str, delay_s: float = 0.0) -> AsyncIterator[Proxy]:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        proxy = cls(parts.hostname, parts.port, delay_s)
        server = await asyncio.start_server(proxy._serve, "127.0.0.1", 0)
        proxy.url = f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0"
        try:
            yield proxy
        finally:
            proxy.drop()
            server.close()

    def drop(self) -> None:
        """Every connection breaks now."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refusing:
            writer.transport.abort()
            return
        to_reader, to_writer = await asyncio.open_connection(*self._target)
        self._writers |= {writer, to_writer}
        await asyncio.gather(self._pump(reader, to_writer, False), self._pump(to_reader, writer, True))

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, replies: bool) -> None:
        try:
            while data := await reader.read(65_536):
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                if replies and self.swallow_replies:
                    continue
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.transport.abort()
            self._writers.discard(writer)
