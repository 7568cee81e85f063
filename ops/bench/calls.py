"""How many commands a server was sent, by MONITOR: those of clients, and those that scripts made of them."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

LINE_LIMIT = 64 * 1024 * 1024


@dataclass
class Calls:
    """Filled when the counted block has ended. `by_clients` and `in_scripts`: commands by name, in capitals."""

    by_clients: Counter[str] = field(default_factory=Counter)
    in_scripts: Counter[str] = field(default_factory=Counter)

    def note(self, line: str) -> None:
        """A line of MONITOR: `+1700000000.1 [0 127.0.0.1:5] "GET" "a"`, or `[0 lua]` for a script's own."""
        head, _, command = line.partition("] ")
        name = command.split(" ", 1)[0].strip('"').upper()
        (self.in_scripts if head.endswith(" lua") else self.by_clients)[name] += 1


@asynccontextmanager
async def counted(url: str) -> AsyncIterator[Calls]:
    """Counts every command of the block, and nothing of its own."""
    calls, end = Calls(), secrets.token_hex(8)
    reader, writer = await _connected(url)
    writer.write(b"MONITOR\r\n")
    await reader.readline()  # +OK

    async def read() -> None:
        while (line := (await reader.readline()).decode("utf-8", "replace").strip()) and end not in line:
            calls.note(line)

    reading = asyncio.create_task(read())
    try:
        yield calls
    finally:
        last_reader, last = await _connected(url)
        last.write(f"ECHO {end}\r\n".encode())
        await last_reader.readline()
        async with asyncio.timeout(30):
            await reading
        for one in (last, writer):
            one.close()


async def _connected(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    address = urlsplit(url)
    return await asyncio.open_connection(address.hostname, address.port, limit=LINE_LIMIT)
