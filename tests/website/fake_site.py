"""A website on loopback that plays what real ones do, and writes down what it was asked (LS-18).

    async with FakeSite() as site:
        site.page("/", '<a href="/a">a</a>')
        site.on("/busy", Reply(429, headers={"Retry-After": "7"}), Reply(body="fine"))
        provider = site.provider()

A path answers its replies in order and then the last one for ever; a path without replies answers 404. The site speaks
HTTP by itself, so that it can also break it: drip, stop in the middle, send headers without end.
"""

from __future__ import annotations

import asyncio
import gzip
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from kbsync.http.addresses import AllowList
from kbsync.http.client import FetchLimits, SafeClient
from kbsync.providers.contract import FoundUrl, SourceSetup
from kbsync.providers.website.provider import WebsiteProvider

USER_AGENT = "kbsync/0.1 (+https://example.invalid/kbsync)"
LOOPBACK = AllowList.of(["127.0.0.1"])


@dataclass(frozen=True)
class Reply:
    """One answer. `body` is sent as it is; `drip_s` sends it a byte at a time; `truncate_to` stops there although the
    length said more; `hang` never answers; `reset` closes the connection without a word."""

    status: int = 200
    body: str | bytes = ""
    content_type: str | None = "text/html; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)
    drip_s: float | None = None
    truncate_to: int | None = None
    hang: bool = False
    reset: bool = False

    def gzipped(self) -> Reply:
        """The same answer under Content-Encoding: gzip."""
        body = gzip.compress(_bytes(self.body))
        return Reply(self.status, body, self.content_type, {**self.headers, "Content-Encoding": "gzip"})


@dataclass(frozen=True)
class Asked:
    """One request as it came: `target` is path and query, undecoded."""

    at: float
    method: str
    target: str
    host: str
    headers: Mapping[str, str]


Answer = Callable[[Asked], Reply]


class FakeSite:
    """A started server at `url` (http://127.0.0.1:port). `at(path)` is the absolute URL of a path."""

    def __init__(self) -> None:
        self.requests: list[Asked] = []
        self._replies: dict[str, list[Reply]] = {}
        self._answers: list[tuple[str, Answer]] = []
        self._server: web.ServerRunner | None = None
        self._clients: list[SafeClient] = []
        self._stopping = asyncio.Event()
        self.port = 0

    # --- scripting ----------------------------------------------------------------------------------------------

    def on(self, target: str, *replies: Reply) -> None:
        """What `target` (a path, or a path with its query) answers, in order; the last one repeats."""
        self._replies[target] = list(replies)

    def page(self, target: str, html: str | bytes, *, title: str = "", **headers: str) -> None:
        """A page of HTML; a fragment is wrapped into a document. Header names: `X_Robots_Tag="noindex"`."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if isinstance(html, str) and "<html" not in html.lower():
            html = f"<!doctype html><html><head><title>{title or target}</title></head><body>{html}</body></html>"
        self.on(target, Reply(body=html, headers=named))

    def redirect(self, target: str, location: str, status: int = 302) -> None:
        self.on(target, Reply(status, headers={"Location": location}))

    def answer(self, prefix: str, answer: Answer) -> None:
        """What every target that begins with `prefix` answers, unless it has replies of its own: spaces without end."""
        self._answers.append((prefix, answer))

    def robots(self, text: str | bytes, status: int = 200) -> None:
        self.on("/robots.txt", Reply(status, text, "text/plain"))

    def sitemap(self, urls: Iterable[str], target: str = "/sitemap.xml") -> None:
        """A urlset of absolute URLs or paths."""
        locs = "".join(f"<url><loc>{self.at(url)}</loc></url>" for url in urls)
        xml = f'<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{locs}</urlset>'
        self.on(target, Reply(body=xml, content_type="application/xml"))

    # --- what happened ------------------------------------------------------------------------------------------

    @property
    def targets(self) -> list[str]:
        """Every target asked for, in order."""
        return [asked.target for asked in self.requests]

    @property
    def pages(self) -> list[str]:
        """As `targets`, without robots.txt and sitemaps."""
        return [target for target in self.targets if target != "/robots.txt" and "sitemap" not in target]

    def times_asked(self, target: str) -> int:
        return self.targets.count(target)

    # --- where it is --------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def at(self, path: str) -> str:
        return path if "://" in path else self.url + path

    def found(self, path: str) -> FoundUrl:
        """A path as the ledger would know it, when identity and spelling are the same."""
        return FoundUrl(self.at(path), self.at(path))

    def client(self, *, limits: FetchLimits | None = None, allowed: AllowList = LOOPBACK, **more: Any) -> SafeClient:
        """A client that may come here; closed with the site."""
        client = SafeClient(user_agent=USER_AGENT, allowed=allowed, limits=limits or FetchLimits(), **more)
        self._clients.append(client)
        return client

    def provider(
        self,
        start: str = "/",
        *,
        client: SafeClient | None = None,
        credentials: Mapping[str, str] | None = None,
        **config: object,
    ) -> WebsiteProvider:
        """The provider of a source that starts at `start` here."""
        setup = SourceSetup(7, 1, {"start_url": self.at(start), **config}, credentials or {})
        return WebsiteProvider(setup, client or self.client())

    # --- serving ------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._server = web.ServerRunner(
            web.Server(self._serve, access_log=None, max_line_size=32_768), shutdown_timeout=0.1
        )
        await self._server.setup()
        tcp = web.TCPSite(self._server, "127.0.0.1", 0)
        await tcp.start()
        self.port = self._server.addresses[0][1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        self._stopping.set()
        for client in self._clients:
            await client.close()
        if self._server is not None:
            await self._server.cleanup()

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        asked = Asked(time.monotonic(), request.method, request.raw_path, request.host, dict(request.headers))
        self.requests.append(asked)
        return await self._play(request, self._reply(asked))

    def _reply(self, asked: Asked) -> Reply:
        for target in (asked.target, asked.target.partition("?")[0]):
            if replies := self._replies.get(target):
                return replies.pop(0) if len(replies) > 1 else replies[0]
        for prefix, answer in self._answers:
            if asked.target.startswith(prefix):
                return answer(asked)
        return Reply(404, "<html><body><h1>Not here</h1></body></html>")

    async def _play(self, request: web.BaseRequest, reply: Reply) -> web.StreamResponse:
        body = _bytes(reply.body)
        etag = reply.headers.get("ETag")
        if etag is not None and request.headers.get("If-None-Match") == etag:
            return web.Response(status=304, headers={"ETag": etag})
        if reply.hang:
            await self._stopping.wait()
        if reply.reset or reply.hang:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        headers = dict(reply.headers)
        if reply.content_type is None:
            # aiohttp always names a type, so this answer is written by hand.
            assert request.transport is not None
            head = f"HTTP/1.1 {reply.status} Fine\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            request.transport.write(head.encode() + body)
            request.transport.close()
            return web.Response()
        headers["Content-Type"] = reply.content_type
        response = web.StreamResponse(status=reply.status, headers=headers)
        if reply.status in (204, 304):
            body = b""
        else:
            response.content_length = len(body)
        await response.prepare(request)
        await self._send(response, request, body, reply)
        return response

    async def _send(self, response: web.StreamResponse, request: web.BaseRequest, body: bytes, reply: Reply) -> None:
        if reply.truncate_to is not None:
            await response.write(body[: reply.truncate_to])
            assert request.transport is not None
            request.transport.close()
            return
        if reply.drip_s is not None:
            for position in range(len(body)):
                if self._stopping.is_set() or request.transport is None:
                    return
                await response.write(body[position : position + 1])
                await asyncio.sleep(reply.drip_s)
            return
        try:
            await response.write(body)
            await response.write_eof()
        except ConnectionError:
            return  # the client had enough


def _bytes(body: str | bytes) -> bytes:
    return body.encode() if isinstance(body, str) else body


@asynccontextmanager
async def fake_site() -> AsyncIterator[FakeSite]:
    """A started site, for a fixture in one line."""
    async with FakeSite() as site:
        yield site
