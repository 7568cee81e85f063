"""Child processes of a measurement: servers of its own, contestants, and what those report."""

from __future__ import annotations

import asyncio
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kbsync.db.migrate import migrate
from kbsync.db.pool import Database
from kbsync.library.principals import Role, create_token
from ops.bench.contestants import ROOT, Contestant
from ops.embedded import process
from ops.embedded.postgres import EmbeddedPostgres
from ops.embedded.redis import EmbeddedRedis


class NoReport(Exception):
    """A contestant ended, or said nothing in time; the message holds the end of its log."""


@contextmanager
def postgres_up(folder: Path) -> Iterator[str]:
    """The embedded Postgres as it ships (durable), migrated; its URL."""
    server = EmbeddedPostgres(folder / "postgres", durable=True)
    server.start()
    try:
        asyncio.run(migrate(server.url))
        yield server.url
    finally:
        server.stop()


@contextmanager
def redis_up(folder: Path, binary: Path | None = None) -> Iterator[EmbeddedRedis]:
    """A new, empty server with the settings that the embedded profile ships; gone with its data afterwards."""
    data = Path(tempfile.mkdtemp(prefix="redis-", dir=folder))
    server = EmbeddedRedis(data, keep=True, binary=binary)
    server.start()
    try:
        yield server
    finally:
        server.kill()
        shutil.rmtree(data, ignore_errors=True)


def environment(**settings: str) -> dict[str, str]:
    """This process's environment with `settings` as the only KBSYNC_ variables: an operator's own stay out of figures."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("KBSYNC_")}
    return own | settings | {"PYTHONUNBUFFERED": "1"}


@dataclass(frozen=True)
class Kbsync:
    """A process of ours, started by the command line. `port`: where its HTTP is, when it has one."""

    process: subprocess.Popen[bytes]
    log: Path
    port: int


@contextmanager
def kbsync_up(folder: Path, verb: str, *arguments: str, **settings: str) -> Iterator[Kbsync]:
    """`kbsync api` or `kbsync worker`, embedded profile, ready; stopped afterwards."""
    port = process.free_port()
    log = folder / f"{verb}-{port}.log"
    where = ("--port" if verb == "api" else "--health-port", str(port))
    command = [sys.executable, "-m", "ops.cli", verb, *arguments, *where]
    started = process.start(command, log, env=environment(KBSYNC_PROFILE="embedded", **settings))
    try:
        process.wait_until(lambda: _is_ready(port), started, log, f"kbsync {verb}")
        yield Kbsync(started, log, port)
    finally:
        process.stop(started, signal.SIGTERM, wait_s=15)


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2) as answer:
            ready: bool = answer.status == 200
            return ready
    except OSError:  # refused, or urllib's word for another status
        return False


def new_token(database_url: str, *roles: Role) -> str:
    """A new API token with these roles."""

    async def make() -> str:
        database = await Database.open(database_url, max_size=1)
        try:
            async with database.fleet() as connection:
                made = await create_token(connection, f"bench-{time.monotonic_ns()}", roles=roles)
                return made.text
        finally:
            await database.close()

    return asyncio.run(make())


@dataclass(frozen=True)
class Report:
    """A line that a driver wrote: its first word, and the rest."""

    word: str
    rest: tuple[str, ...]


class Driver:
    """One run of a contestant's driver; its reports can be awaited, all else that it prints goes to `log`."""

    def __init__(
        self, contestant: Contestant, url: str, arguments: Sequence[str], folder: Path, settings: Mapping[str, str]
    ) -> None:
        self.contestant = contestant
        self.log = folder / f"{contestant.key}-{time.monotonic_ns()}.log"
        self._reports: queue.SimpleQueue[Report | None] = queue.SimpleQueue()
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*contestant.command, url, *arguments],
                cwd=ROOT,
                env=environment(**settings),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                preexec_fn=process.die_with_parent,
            )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines, self.log.open("ab") as log:
            for line in lines:
                if line.startswith(b"@"):
                    word, *rest = line[1:].decode("utf-8", "replace").split()
                    self._reports.put(Report(word, tuple(rest)))
                else:
                    log.write(line)
        self._reports.put(None)

    def next(self, within_s: float) -> Report:
        """Raises NoReport."""
        try:
            report = self._reports.get(timeout=max(0.001, within_s))
        except queue.Empty:
            raise NoReport(f"{self.contestant.name} said nothing for {within_s:.0f} s{self._tail()}") from None
        if report is None:
            raise NoReport(f"{self.contestant.name} ended with {self.process.wait()}{self._tail()}")
        return report

    def _tail(self) -> str:
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return f": {lines[-1][:300]}" if lines else ""

    def kill(self) -> None:
        process.stop(self.process, signal.SIGKILL)

    def stop(self) -> None:
        """SIGTERM, then SIGKILL: the figures are there, nobody waits for a slow good-bye."""
        process.stop(self.process, signal.SIGTERM, wait_s=1)


@dataclass(frozen=True)
class Arena:
    """Where one measurement takes place: a folder, and a Postgres for those who need one."""

    folder: Path
    database_url: str
    payload_bytes: int
    concurrency: int
    settings: Mapping[str, str] = field(default_factory=dict)  # of kbsync's worker, beside the shipped ones

    @contextmanager
    def worker(self, contestant: Contestant, url: str, work: str) -> Iterator[Driver]:
        arguments = ["worker", "--work", work, "--concurrency", str(self.concurrency), *contestant.arguments]
        settings = {"KBSYNC_DATABASE_URL": self.database_url, **self.settings}
        driver = Driver(contestant, url, arguments, self.folder, settings)
        try:
            yield driver
        finally:
            driver.stop()

    @contextmanager
    def producer(
        self, contestant: Contestant, url: str, command: str, count: int, prefix: str = "job"
    ) -> Iterator[Driver]:
        arguments = [command, "--count", str(count), "--payload-bytes", str(self.payload_bytes), "--prefix", prefix]
        driver = Driver(contestant, url, arguments, self.folder, {})
        try:
            yield driver
        finally:
            driver.stop()


def arena_without_postgres(folder: Path, payload_bytes: int, concurrency: int) -> Arena:
    """For producers alone: a worker of kbsync can't run there."""
    return Arena(folder, "", payload_bytes, concurrency)


@contextmanager
def arena(folder: Path, payload_bytes: int, concurrency: int) -> Iterator[Arena]:
    with postgres_up(folder) as database_url:
        yield Arena(folder, database_url, payload_bytes, concurrency)
