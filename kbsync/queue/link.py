"""One connection that the worker writes to without waiting: hiredis on a bare asyncio protocol.

redis-py connects (TLS, AUTH, SELECT, Sentinel), then the transport is taken over: this saves redis-py's 2 to 6 us a job
and lets a BLPOP and the claim that follows it be written together.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

import hiredis
from redis.asyncio.connection import ConnectionPool
from redis.exceptions import RedisError

pack: Callable[[tuple[Any, ...]], bytes] = hiredis.pack_command  # its own types allow one-argument commands only

Reply = Any  # what hiredis parses: bytes, int, None, list of these, or a hiredis.ReplyError as a value


class Link(asyncio.Protocol):
    """`closed` is done when the connection is gone; then every pending call has failed with ConnectionError."""

    def __init__(self, connection: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._connection = connection  # kept: redis-py's object closes the transport when it is collected
        self._transport: asyncio.Transport = connection._writer.transport
        self._loop = loop
        self._reader = hiredis.Reader()
        self._pending: deque[tuple[asyncio.Future[Reply], float]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self.closed: asyncio.Future[None] = loop.create_future()
        self._transport.set_protocol(self)

    @classmethod
    async def open(cls, pool: ConnectionPool) -> Link:
        """Raises redis-py's ConnectionError or TimeoutError, AuthenticationError and OSError."""
        connection = pool.make_connection()  # type: ignore[no-untyped-call]  # redis-py has no types for it
        await connection.connect()
        return cls(connection, asyncio.get_running_loop())

    def call(self, *command: Any, timeout_s: float = 5.0) -> asyncio.Future[Reply]:
        """Writes a command; its reply comes as the future's result, an error reply as a hiredis.ReplyError value."""
        return self.calls([command], timeout_s=timeout_s)[0]

    def calls(self, commands: list[tuple[Any, ...]], *, timeout_s: float) -> list[asyncio.Future[Reply]]:
        """Writes several commands at once. The connection is dropped when a reply takes over `timeout_s`."""
        futures = [self._loop.create_future() for _ in commands]
        if self.closed.done():
            for future in futures:
                _fail(future, "the connection to Redis is gone")
            return futures
        deadline = self._loop.time() + timeout_s
        self._pending.extend((future, deadline) for future in futures)
        self._transport.write(b"".join([pack(command) for command in commands]))
        if self._timer is None:
            self._timer = self._loop.call_at(deadline, self._drop_if_silent)
        return futures

    def abort(self) -> None:
        self._transport.abort()

    async def close(self) -> None:
        self._transport.abort()
        await self.closed

    def _drop_if_silent(self) -> None:
        self._timer = None
        if not self._pending:
            return
        deadline = self._pending[0][1]
        if deadline <= self._loop.time():
            self.abort()
        else:
            self._timer = self._loop.call_at(deadline, self._drop_if_silent)

    # asyncio.Protocol

    def data_received(self, data: bytes) -> None:
        reader = self._reader
        try:
            reader.feed(data)
            while (reply := reader.gets()) is not False:
                future, _ = self._pending.popleft()
                if not future.done():
                    future.set_result(reply)
        except (hiredis.ProtocolError, IndexError):  # not Redis, or an answer to nothing
            self.abort()

    def connection_lost(self, error: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for future, _ in self._pending:
            if not future.done():
                _fail(future, "the connection to Redis was lost")
        self._pending.clear()
        if not self.closed.done():
            self.closed.set_result(None)


def _fail(future: asyncio.Future[Reply], why: str) -> None:
    future.set_exception(ConnectionError(why))
    future.exception()  # seen: of a BLPOP and the claim after it, only the claim's end is waited for


class NoScript(RedisError):
    """NOSCRIPT: the server lost its scripts."""


class MustReconnect(RedisError):
    """READONLY, LOADING and the like: this server can't work now, another or a later connection can."""


_RECONNECT = ("READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "NOAUTH", "UNKILLABLE")


def raise_if_error(reply: Reply) -> Any:
    """A reply, or the error it is."""
    if isinstance(reply, hiredis.ReplyError):
        text = str(reply)
        if text.startswith("NOSCRIPT"):
            raise NoScript(text)
        # Redis 6 wraps what a script met: "ERR Error running script ... -READONLY ..."
        raise MustReconnect(text) if text.startswith(_RECONNECT) or "-READONLY" in text else RedisError(text)
    return reply
