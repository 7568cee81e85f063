"""What every verb starts from: settings, completed by the stack that runs in this folder."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kbsync.db.pool import Connection, Database
    from kbsync.domain.requests import UnitRequest
    from kbsync.queue.fleet import Fleet
    from kbsync.queue.jobs import Enqueued
    from kbsync.settings import Settings

T = TypeVar("T")


def run(main: Callable[[], Coroutine[object, object, T]]) -> T:
    return asyncio.run(main())


def who() -> str:
    """The person at this command line, for the audit."""
    return os.environ.get("KBSYNC_ACTOR") or f"cli:{os.environ.get('SUDO_USER') or os.environ.get('USER') or 'unknown'}"


def settings_here() -> Settings:
    """This process's settings. URLs that are not set come from the stack running in this folder (`kbsync up`).

    Raises SettingsError when there is neither."""
    from kbsync.domain.errors import SettingsError
    from kbsync.settings import load_settings
    from ops.stack import running_stack
    from ops.state import local_state

    settings = load_settings()
    if settings.database_url and settings.redis_url:
        return settings
    running = running_stack(local_state())
    if running is None:
        raise SettingsError("no servers: run `kbsync up` here first, or set KBSYNC_DATABASE_URL and KBSYNC_REDIS_URL")
    return load_settings(
        profile="embedded",
        database_url=settings.database_url or running.database_url,
        redis_url=settings.redis_url or running.redis_url,
        credentials_keys=settings.credentials_keys or local_state().credentials_key(),
    )


def allowed_files_roots() -> list[str]:
    """Where the workers of this folder's stack (or of these settings) may read files."""
    from kbsync.settings import load_settings
    from ops.stack import running_stack
    from ops.state import local_state

    running = running_stack(local_state())
    return running.files_roots if running is not None else load_settings().files_roots


def settings_for_database() -> Settings:
    """As `settings_here`, for a command that needs Postgres alone."""
    from kbsync.settings import load_settings

    settings = load_settings()
    return settings if settings.database_url or settings.database_direct_url else settings_here()


@dataclass
class Connected:
    settings: Settings
    database: Database
    fleet: Fleet


@asynccontextmanager
async def connected() -> AsyncIterator[Connected]:
    """Both servers, opened for one command. Raises SettingsError or ServerUnavailable."""
    from kbsync.db.pool import Database
    from kbsync.queue.fleet import Fleet

    settings = settings_here()
    assert settings.database_url
    assert settings.redis_url
    database = await Database.open(settings.database_url, max_size=4, pooled=settings.database_pooled)
    fleet = Fleet(settings.redis_url, settings.queue_redis_urls)
    try:
        yield Connected(settings, database, fleet)
    finally:
        await fleet.close()
        await database.close()


async def enqueue_by_hand(here: Connected, requests: Sequence[UnitRequest]) -> list[Enqueued]:
    """A person's requests, urgent: owed in Postgres and queued, as the API does it for a producer."""
    from kbsync.domain.requests import Priority
    from kbsync.recovery.promises import accept_units

    return await accept_units(here.database, here.fleet, list(requests), priority=Priority.URGENT, rerun_if_active=True)


async def scan_by_hand(here: Connected) -> Enqueued:
    """The daily scan, now, under an id of its own."""
    from datetime import UTC, datetime
    from uuid import uuid4

    from kbsync.domain.requests import Scan

    return (await enqueue_by_hand(here, [Scan(date=datetime.now(UTC).date(), manual_id=uuid4())]))[0]


async def audited(
    connection: Connection,
    action: str,
    target: str,
    *,
    organization_id: int | None = None,
    reason: str | None = None,
    detail: Mapping[str, object] | None = None,
) -> None:
    """An audit entry in this transaction, under the name of the person at this command line."""
    from kbsync.library.audit import write

    await write(
        connection,
        actor=who(),
        action=action,
        target=target,
        organization_id=organization_id,
        reason=reason,
        detail=detail,
    )
