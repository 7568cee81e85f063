"""The local folder of the embedded profile: servers' data, generated secrets, and what the demo opened.

`.kbsync/` in the current folder, or KBSYNC_HOME. Readable by its owner only where it holds a secret."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from cryptography.fernet import Fernet

DEFAULT_FOLDER = ".kbsync"


@dataclass(frozen=True)
class LocalState:
    folder: Path

    @property
    def postgres(self) -> Path:
        return self.folder / "postgres"

    @property
    def redis(self) -> Path:
        return self.folder / "redis"

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    def credentials_key(self) -> str:
        """The key that seals providers' credentials, made once."""
        return self.secret("credentials.key") or self.keep_secret("credentials.key", Fernet.generate_key().decode())

    def secret(self, name: str) -> str | None:
        path = self.folder / name
        return path.read_text().strip() if path.exists() else None

    def keep_secret(self, name: str, value: str) -> str:
        """Writes a secret that only the owner can read, from its first moment. Answers it."""
        path = self.folder / name
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
            file.write(value)
        return value

    def opened_addresses(self) -> dict[str, list[str]]:
        """Source id -> addresses that this machine's operator opened for that source alone (LS-17)."""
        path = self.folder / "opened-addresses.json"
        if not path.exists():
            return {}
        loaded: dict[str, list[str]] = json.loads(path.read_text())
        return loaded

    def open_addresses(self, source_id: int, addresses: list[str]) -> None:
        opened = self.opened_addresses()
        opened[str(source_id)] = sorted(set(addresses))
        (self.folder / "opened-addresses.json").write_text(json.dumps(opened))

    def demo_port(self) -> int | None:
        """The port of the demo's site last time: its pages' addresses are their names."""
        path = self.folder / "demo-port"
        return int(path.read_text()) if path.exists() else None

    def keep_demo_port(self, port: int) -> None:
        (self.folder / "demo-port").write_text(str(port))

    def files_roots(self) -> list[str]:
        path = self.folder / "files-roots.json"
        return list(json.loads(path.read_text())) if path.exists() else []

    def add_files_root(self, root: Path) -> None:
        roots = sorted({*self.files_roots(), str(root)})
        (self.folder / "files-roots.json").write_text(json.dumps(roots))


def local_state() -> LocalState:
    """The folder of this checkout (or of KBSYNC_HOME), made when missing."""
    folder = Path(os.environ.get("KBSYNC_HOME") or DEFAULT_FOLDER).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    return LocalState(folder)
