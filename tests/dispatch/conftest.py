"""An enqueue API on loopback that answers as it is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from producers.dispatch import ENQUEUE_PATH
from tests.dispatch.drivers import Driver, PythonDriver, RubyDriver


@dataclass
class Received:
    method: str
    path: str
    authorization: str | None
    content_type: str
    body: Any


@dataclass
class FakeApi:
    """Answers `statuses` one after the other, then 202; `hang` answers when it is set, or never."""

    url: str = ""
    statuses: list[int] = field(default_factory=list)
    hang: asyncio.Event | None = None
    received: list[Received] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.received.append(
            Received(
                request.method,
                request.path,
                request.headers.get("Authorization"),
                request.content_type,
                await request.json() if request.can_read_body else None,
            )
        )
        if self.hang is not None:
            await self.hang.wait()
        status = self.statuses.pop(0) if self.statuses else 202
        headers = {"Location": f"{self.url}/elsewhere"} if 300 <= status < 400 else {}
        return web.json_response({}, status=status, headers=headers)


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    fake = FakeApi()
    app = web.Application()
    app.router.add_route("*", ENQUEUE_PATH, fake.answer)
    app.router.add_route("*", "/elsewhere", fake.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    fake.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield fake
    if fake.hang is not None:
        fake.hang.set()
    await runner.cleanup()


@pytest.fixture(params=["python", pytest.param("ruby", marks=pytest.mark.needs("ruby"))])
def driver(request: pytest.FixtureRequest) -> Driver:
    return PythonDriver() if request.param == "python" else RubyDriver()
