"""Pages that move: the parts of a page that changed since they were last sent, over server-sent events (QU-24).

The stream has the page's own address and is asked for with `Accept: text/event-stream`. Once a second it reads the page
anew, renders the page's live blocks and sends those that are different; `stamp` says each time that it is still looking.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

from aiohttp import web
from aiohttp_sse import EventSourceResponse, sse_response

from kbsync.domain.errors import ServerUnavailable

INTERVAL_S = 1.0
LONGEST_S = 600.0  # then the browser asks anew
MOST_STREAMS = 100

# The live blocks of a page by name, rendered now; None when the person may no longer see it.
RenderBlocks = Callable[[], Awaitable[Mapping[str, str] | None]]


class Streams:
    """The open streams of one process: bounded, and closed before it stops."""

    def __init__(self) -> None:
        self._open: set[asyncio.Task[object]] = set()

    async def serve(self, request: web.Request, render: RenderBlocks) -> web.StreamResponse:
        """Answers with a stream until the reader leaves, the time is up, or they may no longer look."""
        if len(self._open) >= MOST_STREAMS:
            raise web.HTTPServiceUnavailable(headers={"Retry-After": "30"}, text="too many live pages are open")
        if request.transport is None:
            return web.Response(status=204)  # the reader left before it began
        async with self._counted(), sse_response(request) as stream:
            await _feed(stream, render)
            return stream

    @asynccontextmanager
    async def _counted(self) -> AsyncIterator[None]:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            yield
        finally:
            self._open.discard(task)

    async def close(self) -> None:
        tasks = list(self._open)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _feed(stream: EventSourceResponse, render: RenderBlocks) -> None:
    sent: dict[str, bytes] = {}
    deadline = asyncio.get_running_loop().time() + LONGEST_S
    try:
        while asyncio.get_running_loop().time() < deadline:
            try:
                blocks = await render()
            except ServerUnavailable:
                blocks = {}  # no stamp either: the page says by itself how old it is
            if blocks is None:
                return
            for name, html in blocks.items():
                seal = hashlib.sha256(html.encode("utf-8", "replace")).digest()
                if sent.get(name) != seal:
                    await stream.send(html, event=name)
                    sent[name] = seal
            await asyncio.sleep(INTERVAL_S)
    except (ConnectionResetError, ConnectionError):
        return  # the reader went away
