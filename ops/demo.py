"""`kbsync demo`: the main job on real input, end to end, through the real queue, database and sockets (OP-01).

Without a source it serves a site of its own on loopback (`sample_site`) and reads a real folder; with one it takes that.
It asks for the work over the HTTP API like any backend, watches it, searches, and says where to look next.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import socket
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from aiohttp import web

from kbsync.db.pool import Database
from kbsync.settings import Settings, load_settings
from ops.demo_progress import Progress, read_progress
from ops.hits import hit_as_json, print_hit
from ops.register import NewSource, Registered, find_or_register
from ops.sample_site import sample_site
from ops.stack import Servers, StopSignal
from ops.state import LocalState
from ops.up import UpStack, processes_up, servers_up

TIME_LIMIT_S = 170.0
ORGANIZATION = "Demo"
# A site that does not answer is said within the minute: three attempts with short pauses.
IMPATIENT = {"KBSYNC_FIRST_BACKOFF_S": "3"}


@dataclass(frozen=True)
class Wanted:
    """A source to sync, what to search in it afterwards, and the addresses opened for it alone."""

    new: NewSource
    query: str
    opened: tuple[str, ...] = ()


def run_demo(
    state: LocalState,
    source: str | None,
    environment: Mapping[str, str],
    *,
    keep: bool,
    say: Callable[[str], None] = print,
) -> int:
    """Answers the exit code: 0 when everything asked for was synced and found. Leaves no process behind unless `keep`."""
    settings = load_settings(profile="embedded", log_format="console")
    with ExitStack() as stack:
        stop = stack.enter_context(StopSignal())
        say("kbsync demo: a real site and a real folder, through the real queue, database and sockets")
        wanted = [_given(source)] if source else stack.enter_context(_samples(state, say))
        servers = stack.enter_context(servers_up(settings, state))
        say(f"  Postgres and Redis run from {state.folder}")
        registered = asyncio.run(_register(servers, settings, state, wanted))
        up = stack.enter_context(processes_up(settings, state, servers, 0, IMPATIENT | dict(environment), say))
        say(f"  API, worker and scheduler are up at {up.api_url}")
        for one, made in zip(wanted, registered, strict=True):
            say(f"  asking for {one.new.type} {one.new.name} (source {made.source_id})")
            _post_sync(up, made)
        code = asyncio.run(_watch_and_search(servers, settings, wanted, registered, stop, say))
        _where_to_look(up, state, registered[0].organization_id, wanted[0].query, say)
        if keep and code == 0:
            say("Everything keeps running (KEEP=1); Ctrl-C stops it.")
            while not stop.received:
                time.sleep(0.2)
                up.supervisor.restart_the_dead()
    return code


@contextmanager
def _samples(state: LocalState, say: Callable[[str], None]) -> Iterator[list[Wanted]]:
    """The built-in input: installed packages' descriptions as a site, and their licences as a folder."""
    with serving(sample_site(), state.demo_port() or 0) as port:
        state.keep_demo_port(port)
        say(f"  serving the installed packages' descriptions on http://127.0.0.1:{port}/")
        folder = Path(web.__file__).parents[1]
        site = NewSource("website", "installed packages", {"start_url": f"http://127.0.0.1:{port}/"})
        files = NewSource(
            "files", f"licences below {folder.name}", {"path": str(folder), "include": ["*.dist-info/licenses/**"]}
        )
        yield [Wanted(site, "asyncio http client", ("127.0.0.1",)), Wanted(files, "permission notice")]


@contextmanager
def serving(app: web.Application, preferred_port: int) -> Iterator[int]:
    """The site in a thread of its own, on loopback: the preferred port when it is free, so that a page keeps its address."""
    started: list[int] = []
    ready = threading.Event()
    loop = asyncio.new_event_loop()

    async def serve() -> web.AppRunner:
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", preferred_port).start()
        except OSError:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
        started.append(runner.addresses[0][1])
        ready.set()
        return runner

    def main() -> None:
        asyncio.set_event_loop(loop)
        runner = loop.run_until_complete(serve())
        loop.run_forever()
        loop.run_until_complete(runner.cleanup())
        loop.close()

    thread = threading.Thread(target=main, daemon=True)
    thread.start()
    ready.wait(10)
    try:
        yield started[0]
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)


def _given(source: str) -> Wanted:
    """What the person at this machine named: a URL (its addresses are opened for this source alone) or a folder."""
    if source.startswith(("http://", "https://")):
        return Wanted(NewSource("website", source, {"start_url": source}), "", _private_addresses(source))
    path = Path(source).expanduser().resolve()
    return Wanted(NewSource("files", str(path), {"path": str(path)}), "")


def _private_addresses(url: str) -> tuple[str, ...]:
    host = urlsplit(url).hostname or ""
    try:
        found = {str(answer[4][0]) for answer in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except OSError:
        return ()
    return tuple(sorted(a for a in found if not ipaddress.ip_address(a.split("%")[0]).is_global))


async def _register(servers: Servers, settings: Settings, state: LocalState, wanted: list[Wanted]) -> list[Registered]:
    database = await Database.open(servers.database_url, max_size=2, pooled=settings.database_pooled)
    try:
        made = []
        for one in wanted:
            registered = await find_or_register(database, one.new, ORGANIZATION)
            if one.opened:
                state.open_addresses(registered.source_id, list(one.opened))
            if one.new.type == "files":
                state.add_files_root(Path(str(one.new.config["path"])))
            made.append(registered)
        return made
    finally:
        await database.close()


def _post_sync(up: UpStack, made: Registered) -> None:
    """The request a backend would send; anything but a 202 is an error here."""
    body = {"requests": [{"type": "sync_source", "organization_id": made.organization_id, "source_id": made.source_id}]}
    request = urllib.request.Request(
        f"{up.api_url}/internal/knowledge_base_sync/enqueue",
        data=json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {up.token}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        if answer.status != 202:
            raise RuntimeError(f"the API answered {answer.status}")


async def _watch_and_search(
    servers: Servers,
    settings: Settings,
    wanted: list[Wanted],
    registered: list[Registered],
    stop: StopSignal,
    say: Callable[[str], None],
) -> int:
    from kbsync.domain.audience import MEMBER
    from kbsync.library.search import search

    organization_id = registered[0].organization_id
    database = await Database.open(servers.database_url, max_size=2, pooled=settings.database_pooled)
    try:
        progress = await _watch(database, organization_id, [made.source_id for made in registered], stop, say)
        for line in progress.problems():
            say(f"  {line}")
        if progress.failed or not progress.documents_chunked:
            return 1
        if not progress.ended:
            say("  a big one: what is there so far is searched now, and `kbsync up` goes on where this stopped")
        code = 0
        for one in wanted:
            query = one.query or progress.a_title
            say(f"\nsearch: {query}")
            async with database.organization(organization_id) as connection:
                hits = await search(connection, organization_id, query, limit=3, asker=MEMBER)
            for number, hit in enumerate(hits, 1):
                print_hit(number, hit_as_json(hit))
            if not hits:
                say("  nothing found")
                code = 1
        return code
    finally:
        await database.close()


async def _watch(
    database: Database, organization_id: int, source_ids: list[int], stop: StopSignal, say: Callable[[str], None]
) -> Progress:
    """Prints a line whenever something moved, until every source ended and every chunk is there."""
    started = time.monotonic()
    last = ""
    while True:
        progress = await read_progress(database, organization_id, source_ids)
        line = progress.line()
        if line != last:
            say(f"  {time.monotonic() - started:5.1f} s  {line}")
            last = line
        if progress.ended or stop.received or time.monotonic() - started > TIME_LIMIT_S:
            return progress
        await asyncio.sleep(0.5)


def _where_to_look(
    up: UpStack, state: LocalState, organization_id: int, query: str, say: Callable[[str], None]
) -> None:
    say("\nWhere to look next:")
    say("  .venv/bin/kbsync up                       opens this data again: dashboard, API, workers")
    say(f"  .venv/bin/kbsync search '{query or 'some words'}' --organization {organization_id}    (while it is up)")
    say(f"  {state.folder}    data, logs and the admin token")
