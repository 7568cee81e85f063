"""What Postgres says, in our words: the only place that catches asyncpg's exceptions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import asyncpg

from kbsync.domain.errors import DatabaseUnavailable

T = TypeVar("T")

# 40001 serialization_failure, 40P01 deadlock_detected: the whole transaction may simply be tried again.
RETRYABLE_SQLSTATES = frozenset({"40001", "40P01"})
RETRIES = 3
# A row that others point to was to go: somebody wrote one of those meanwhile.
StillReferenced = asyncpg.ForeignKeyViolationError

_UNAVAILABLE = (
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.ConnectionDoesNotExistError,
)


@contextmanager
def translated() -> Iterator[None]:
    """A lost or unreachable server leaves as DatabaseUnavailable; every other error leaves as it is."""
    try:
        yield
    except _UNAVAILABLE as error:
        raise DatabaseUnavailable(f"Postgres is not available ({type(error).__name__})") from error
    except asyncpg.InterfaceError as error:
        text = str(error)
        if (
            "clos" in text
        ):  # "connection is closed", "pool is closing", "connection was closed in the middle of operation"
            raise DatabaseUnavailable(f"Postgres is not available ({text})") from error
        raise
    except asyncpg.InternalClientError as error:
        # A server's last word that arrives between two statements leaves asyncpg's protocol in a state of its own.
        if "cannot switch to state" in str(error):
            raise DatabaseUnavailable("Postgres ended the connection between two statements") from error
        raise
    except (ConnectionError, OSError) as error:
        raise DatabaseUnavailable(f"Postgres can't be reached ({error})") from error


async def retry_on_conflict(transaction: Callable[[], Awaitable[T]]) -> T:
    """Runs a whole transaction again when Postgres chose it as a deadlock's victim, three times at most (B03)."""
    for left in range(RETRIES, -1, -1):
        try:
            return await transaction()
        except asyncpg.PostgresError as error:
            if error.sqlstate not in RETRYABLE_SQLSTATES or left == 0:
                raise
    raise AssertionError("unreachable")
