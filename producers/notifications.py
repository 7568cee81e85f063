"""Postgres notifications on a connection of their own: a hint that there is work, never the only way to learn of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from kbsync.db.errors import translated
from kbsync.db.migrate import refuse_pooler
from kbsync.domain.errors import DatabaseUnavailable
from kbsync.library.outbox import CHANNEL
from kbsync.telemetry import log
from producers.backoff import Backoff

CONNECT_TIMEOUT_S = 5.0


@asynccontextmanager
async def listen(direct_url: str, wake: asyncio.Event, stop: asyncio.Event) -> AsyncIterator[None]:
    """Sets `wake` at each notification while the block runs, and after each reconnection: some may have been missed.

    Raises PooledUrl at once when a transaction-mode pooler stands in between. A lost connection is made again."""
    first: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(_keep_listening(direct_url, wake, stop, first))
    try:
        await asyncio.wait({first, task}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            await task
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _keep_listening(
    direct_url: str, wake: asyncio.Event, stop: asyncio.Event, first: asyncio.Future[None]
) -> None:
    backoff = Backoff(first_s=0.1, most_s=5.0)
    while not stop.is_set():
        try:
            await _listen_once(direct_url, wake, first)
            backoff.reset()
        except (DatabaseUnavailable, TimeoutError) as error:
            log.warning("relay_listens_not", error=str(error))
        if not first.done():
            first.set_result(None)  # the sweep works without us
        await asyncio.sleep(backoff.next_s())


async def _listen_once(direct_url: str, wake: asyncio.Event, first: asyncio.Future[None]) -> None:
    """Returns when the connection is gone."""
    lost = asyncio.Event()
    with translated():
        connection = await asyncpg.connect(direct_url, timeout=CONNECT_TIMEOUT_S, statement_cache_size=0)
    try:
        await refuse_pooler(connection)
        connection.add_termination_listener(lambda _: lost.set())
        with translated():
            await connection.add_listener(CHANNEL, lambda *_: wake.set())
        wake.set()
        if not first.done():
            first.set_result(None)
        await lost.wait()
    finally:
        connection.terminate()
