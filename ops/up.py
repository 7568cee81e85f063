"""`kbsync up`: servers, schema, then our own processes, until a signal (OP-02)."""

from __future__ import annotations

import asyncio
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from kbsync.domain.errors import KbsyncError
from kbsync.settings import Settings
from ops.embedded.process import free_port
from ops.stack import (
    Running,
    Servers,
    StopSignal,
    Supervisor,
    only_one_here,
    remember_running,
    start_servers,
)
from ops.state import LocalState

READY_WAIT_S = 60.0
ADMIN_NAME = "local-admin"
ADMIN_TOKEN_FILE = "admin.token"


class NotStarted(KbsyncError):
    """One of our own processes ended, or did not become ready, right after its start."""


@dataclass
class UpStack:
    """A running stack: where it is, its admin token, where its metrics are, and the supervisor of its processes."""

    servers: Servers
    api_url: str
    token: str
    metrics_urls: Sequence[str]
    supervisor: Supervisor


@contextmanager
def servers_up(settings: Settings, state: LocalState) -> Iterator[Servers]:
    """Servers started and migrated, the local admin known; stopped at the end. One at a time a folder."""
    from kbsync.db.migrate import migrate

    with only_one_here(state):
        servers = start_servers(settings, state)
        try:
            direct = settings.database_direct_url or servers.database_url
            asyncio.run(migrate(direct))
            asyncio.run(_ensure_admin(servers.database_url, settings, state))
            yield servers
        finally:
            servers.stop()


@contextmanager
def processes_up(
    settings: Settings,
    state: LocalState,
    servers: Servers,
    port: int,
    environment: Mapping[str, str],
    say: Callable[[str], None],
) -> Iterator[UpStack]:
    """API, workers and scheduler over `servers`, ready to take requests; stopped at the end."""
    port = port or free_port()
    api_url = f"http://{settings.api_host}:{port}"
    supervisor = Supervisor(child_environment(environment, settings, state, servers), state.logs, say)
    try:
        supervisor.start("api", "api", "--port", str(port))
        metrics_urls = [f"{api_url}/metrics"]
        for part in ("worker", "scheduler"):
            health_port = free_port()
            supervisor.start(part, part, "--health-port", str(health_port))
            metrics_urls.append(f"http://{settings.health_host}:{health_port}/metrics")
        _wait_until_ready(api_url, supervisor)
        roots = files_roots(settings, state)
        remember_running(state, Running(os.getpid(), servers.database_url, servers.redis_url, api_url, roots))
        yield UpStack(servers, api_url, state.secret(ADMIN_TOKEN_FILE) or "", metrics_urls, supervisor)
    finally:
        supervisor.stop()


def run_up(settings: Settings, state: LocalState, port: int, environment: Mapping[str, str]) -> int:
    """Until SIGINT or SIGTERM. Answers the exit code."""
    started = time.monotonic()
    with (
        StopSignal() as stop,
        servers_up(settings, state) as servers,
        processes_up(settings, state, servers, port, environment, print) as stack,
    ):
        print(f"kbsync is up after {time.monotonic() - started:.1f} s")
        print(f"  dashboard {stack.api_url}/   (sign in with the token)")
        print(f"  token     {stack.token}")
        print(f"  metrics   {' '.join(stack.metrics_urls)}   (the token as bearer)")
        print(f"  Postgres  {servers.database_url}")
        print(f"  Redis     {servers.redis_url}")
        print(f"  data      {state.folder}   logs in {state.logs}")
        print("Ctrl-C stops everything; the data stays.")
        while not stop.received:
            time.sleep(0.2)
            stack.servers.restart_the_dead(print)
            stack.supervisor.restart_the_dead()
        print("stopping: draining workers")
    return 0


def child_environment(
    parent: Mapping[str, str], settings: Settings, state: LocalState, servers: Servers
) -> dict[str, str]:
    """What our own processes are told: the parent's environment with the servers and the folder's secrets filled in."""
    environment = dict(parent)
    environment.update(
        KBSYNC_PROFILE=settings.profile,
        KBSYNC_DATABASE_URL=servers.database_url,
        KBSYNC_REDIS_URL=servers.redis_url,
        KBSYNC_FETCH_ALLOW_FOR_SOURCES=json.dumps(state.opened_addresses()),
        KBSYNC_FILES_ROOTS=json.dumps(files_roots(settings, state)),
        PYTHONUNBUFFERED="1",
    )
    environment.setdefault("KBSYNC_CREDENTIALS_KEYS", state.credentials_key())
    return environment


def files_roots(settings: Settings, state: LocalState) -> list[str]:
    """The folders below which files sources may read: the setting's, and those opened by hand in this folder."""
    return sorted({*settings.files_roots, *state.files_roots()})


async def _ensure_admin(database_url: str, settings: Settings, state: LocalState) -> None:
    """The folder's admin token works on this database: no token, no start, so the embedded profile makes one."""
    from kbsync.db.pool import Database
    from kbsync.library.principals import Role, create_token, digest_of, find_principal

    token = state.secret(ADMIN_TOKEN_FILE)
    database = await Database.open(database_url, max_size=1, pooled=settings.database_pooled)
    try:
        async with database.fleet() as connection:
            if token and await find_principal(connection, digest_of(token)):
                return
            made = await create_token(connection, ADMIN_NAME, roles=list(Role), kind="human")
    finally:
        await database.close()
    state.keep_secret(ADMIN_TOKEN_FILE, made.text)


def _wait_until_ready(api_url: str, supervisor: Supervisor) -> None:
    deadline = time.monotonic() + READY_WAIT_S
    while time.monotonic() < deadline:
        for child in supervisor.children:
            if child.process is not None and child.process.poll() not in (None, 0):
                tail = (supervisor.logs / f"{child.name}.log").read_text(errors="replace")[-1500:]
                raise NotStarted(f"{child.name} did not start:\n{tail}")
        try:
            with urllib.request.urlopen(f"{api_url}/readyz", timeout=2) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)
    raise NotStarted(f"the API did not become ready in {READY_WAIT_S:.0f} s; logs are in {supervisor.logs}")
