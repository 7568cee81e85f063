"""Everything on one machine in one process tree: embedded servers where no URL is given, and our own processes (OP-02)."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from kbsync.domain.errors import SettingsError
from kbsync.settings import Settings
from ops.embedded import process
from ops.embedded.postgres import EmbeddedPostgres
from ops.embedded.redis import EmbeddedRedis
from ops.state import LocalState

STOP_WAIT_S = 15.0
_RESTART_AT_MOST_EVERY_S = 1.0


@dataclass
class Servers:
    """Where Postgres and Redis are, and which of them are ours to stop."""

    database_url: str
    redis_url: str
    postgres: EmbeddedPostgres | None = None
    redis: EmbeddedRedis | None = None

    def restart_the_dead(self, say: Callable[[str], None]) -> None:
        """One look: a server of ours that ended is started again where it was, with its data."""
        for name, server in (("Redis", self.redis), ("Postgres", self.postgres)):
            if server is not None and server.ended:
                say(f"{name} ended: started again")
                server.start()

    def stop(self) -> None:
        if self.redis:
            self.redis.stop()
        if self.postgres:
            self.postgres.stop()


def start_servers(settings: Settings, state: LocalState) -> Servers:
    """URLs given by settings are used as they are; what is missing is started from `state`'s folder, data kept."""
    postgres = None if settings.database_url else EmbeddedPostgres(state.postgres, durable=True)
    redis = None if settings.redis_url else EmbeddedRedis(state.redis, keep=True)
    servers = Servers(settings.database_url or "", settings.redis_url or "", postgres, redis)
    try:
        if postgres:
            postgres.start()
            servers.database_url = postgres.url
        if redis:
            redis.start()
            servers.redis_url = redis.url
    except BaseException:
        servers.stop()
        raise
    return servers


@contextlib.contextmanager
def only_one_here(state: LocalState) -> Iterator[None]:
    """One stack a folder: two would start two servers on the same data. Raises SettingsError naming the other's pid."""
    path = state.folder / "lock"
    with path.open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise SettingsError(
                f"kbsync already runs on {state.folder} (pid {lock.read().strip() or 'unknown'}): "
                "stop it, or set KBSYNC_HOME to another folder"
            ) from None
        lock.seek(0)
        lock.truncate()
        lock.write(str(os.getpid()))
        lock.flush()
        try:
            yield
        finally:
            forget_running(state)


@dataclass(frozen=True)
class Running:
    """What a running stack tells the other commands of its folder."""

    pid: int
    database_url: str
    redis_url: str
    api_url: str
    files_roots: list[str] = field(default_factory=list)


def remember_running(state: LocalState, running: Running) -> None:
    (state.folder / "running.json").write_text(json.dumps(vars(running)))


def forget_running(state: LocalState) -> None:
    (state.folder / "running.json").unlink(missing_ok=True)


def running_stack(state: LocalState) -> Running | None:
    """The stack that runs on this folder now, or None."""
    path = state.folder / "running.json"
    with contextlib.suppress(OSError, ValueError, TypeError):
        running = Running(**json.loads(path.read_text()))
        os.kill(running.pid, 0)
        return running
    return None


@dataclass
class Child:
    name: str
    arguments: Sequence[str]
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0


@dataclass
class Supervisor:
    """Runs kbsync's own processes, restarts one that ends unasked, and stops them in order."""

    environment: Mapping[str, str]
    logs: Path
    say: Callable[[str], None] = print
    children: list[Child] = field(default_factory=list)
    _stopping: bool = False

    def start(self, name: str, *arguments: str) -> Child:
        child = Child(name, arguments)
        self.children.append(child)
        self._spawn(child)
        return child

    def _spawn(self, child: Child) -> None:
        self.logs.mkdir(parents=True, exist_ok=True)
        child.started_at = time.monotonic()
        # The working directory of the whole tree stays the operator's, so relative paths in settings mean the same.
        with (self.logs / f"{child.name}.log").open("ab") as log:
            child.process = subprocess.Popen(
                [sys.executable, "-m", "ops.cli", *child.arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=dict(self.environment),
                start_new_session=True,
                preexec_fn=process.die_with_parent,
            )

    def restart_the_dead(self) -> None:
        """One look: whoever ended is started again, at most once a second each."""
        for child in self.children:
            if self._stopping or child.process is None or child.process.poll() is None:
                continue
            if time.monotonic() - child.started_at < _RESTART_AT_MOST_EVERY_S:
                continue
            self.say(
                f"{child.name} ended with {child.process.returncode}: started again (log: {self.logs / child.name}.log)"
            )
            self._spawn(child)

    def stop(self) -> None:
        """SIGTERM to all, a grace to drain, then SIGKILL."""
        self._stopping = True
        alive = [child.process for child in self.children if child.process and child.process.poll() is None]
        for running in alive:
            with contextlib.suppress(ProcessLookupError):
                running.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + STOP_WAIT_S
        for running in alive:
            with contextlib.suppress(subprocess.TimeoutExpired):
                running.wait(max(0.1, deadline - time.monotonic()))
            process.stop(running, signal.SIGKILL)


class StopSignal:
    """SIGINT and SIGTERM, as a flag that the foreground loop looks at."""

    def __init__(self) -> None:
        self.received = False

    def __enter__(self) -> StopSignal:
        self._before = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received = True
