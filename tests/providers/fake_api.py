"""A provider's server on a real socket, that can be told to fail at any request: the base of every fake (LS-18)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Self

from aiohttp import web


@dataclass(frozen=True)
class Asked:
    """One request as it arrived. `body` is text."""

    method: str
    path: str
    query: dict[str, str]
    body: str
    headers: dict[str, str]


@dataclass(frozen=True)
class Fault:
    """What is answered instead. `cut`: the body stops in the middle; `reset`: the connection is torn down; `silent_s`:
    nothing comes for so long."""

    status: int = 200
    body: str = "{}"
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False
    reset: bool = False
    silent_s: float = 0.0


@dataclass
class _Rule:
    wants: Callable[[Asked], bool]
    fault: Fault
    skip: int
    times: int | None


class FakeApi:
    """Subclass it and write `answer`, which heeds the three switches. `log` has every request; `fail` and `heal` steer
    faults."""

    def __init__(self) -> None:
        self.log: list[Asked] = []
        self.url = ""
        self.revoked = False  # the credentials are refused as the provider refuses them
        self.repeats = False  # a page of the listing points to itself as its next one
        self.has_empty_page = False  # the second page of the listing is empty and has a next one
        self._rules: list[_Rule] = []

    async def answer(self, asked: Asked, request: web.Request) -> web.StreamResponse:
        raise NotImplementedError

    def fail(self, wants: Callable[[Asked], bool], fault: Fault, *, skip: int = 0, times: int | None = None) -> None:
        """Of the requests that `wants` picks, lets `skip` pass and answers the next `times` (None: all) with `fault`."""
        self._rules.append(_Rule(wants, fault, skip, times))

    def heal(self) -> None:
        self._rules.clear()

    def asked_for(self, wants: Callable[[Asked], bool]) -> int:
        return sum(1 for asked in self.log if wants(asked))

    @asynccontextmanager
    async def served(self) -> AsyncIterator[Self]:
        app = web.Application(client_max_size=1 << 20)
        app.router.add_route("*", "/{tail:.*}", self._serve)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        asked = Asked(
            request.method,
            request.path,
            dict(request.query),
            (await request.read()).decode("utf-8", "replace"),
            {name.lower(): value for name, value in request.headers.items()},
        )
        self.log.append(asked)
        fault = self._fault_for(asked)
        return await (self.answer(asked, request) if fault is None else _play(fault, request))

    def _fault_for(self, asked: Asked) -> Fault | None:
        for rule in self._rules:
            if not rule.wants(asked):
                continue
            if rule.skip > 0:
                rule.skip -= 1
                continue
            if rule.times is None:
                return rule.fault
            if rule.times > 0:
                rule.times -= 1
                return rule.fault
        return None


async def _play(fault: Fault, request: web.Request) -> web.StreamResponse:
    if fault.silent_s:
        await asyncio.sleep(fault.silent_s)
    if fault.reset:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()
    body = fault.body.encode()
    headers = {"Content-Type": fault.content_type, **fault.headers}
    if not fault.cut:
        return web.Response(status=fault.status, body=body, headers=headers)
    response = web.StreamResponse(status=fault.status, headers={**headers, "Content-Length": str(len(body) + 100)})
    await response.prepare(request)
    await response.write(body)
    assert request.transport is not None
    request.transport.abort()
    return response
