"""The whole API on a loopback port over real servers, in a thread of its own, for clients that are not asyncio's."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from aiohttp import web

from kbsync.api.app import build_app
from kbsync.api.services import ApiServices
from kbsync.api.wire import ApiRunner
from kbsync.db.pool import Database
from kbsync.library.principals import Role
from kbsync.queue.fleet import Fleet
from kbsync.settings import load_settings
from ops.embedded.redis import EmbeddedRedis
from tests.api.conftest import new_token
from tests.databases import Databases
from tests.producers.doubles import Switch


@dataclass
class Served:
    """`token` is of a principal with every role."""

    port: int = 0
    token: str = ""
    ready: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def auth(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}


@contextmanager
def served_api(databases: Databases, redis: EmbeddedRedis) -> Iterator[Served]:
    name = asyncio.run(databases.take())
    url = databases.url_of(name)
    served, stop = Served(), threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(_serve(served, url, redis.url, stop)), daemon=True)
    thread.start()
    try:
        assert served.ready.wait(30)
        yield served
    finally:
        stop.set()
        thread.join(30)
        asyncio.run(databases.give_back(name))


async def _serve(served: Served, database_url: str, redis_url: str, stop: threading.Event) -> None:
    database, fleet = await Database.open(database_url), Fleet(redis_url)
    settings = load_settings(redis_url=redis_url, api_requests_per_second=1_000_000)
    services = ApiServices(database, fleet, fleet, Switch(), settings)
    runner = ApiRunner(build_app(services), keepalive_timeout=1.0, shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    served.token = (await new_token(database, *Role, name="everything")).text
    served.port = runner.addresses[0][1]
    served.ready.set()
    await asyncio.to_thread(stop.wait)
    await runner.cleanup()
    await fleet.close()
    await database.close()
