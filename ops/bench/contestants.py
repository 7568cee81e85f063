"""Who is measured: kbsync and the peers of peers.toml, each as a command that runs its driver.

A peer is installed when it is first asked for, below `.cache/bench/`, and again when its versions change. One that can't be
installed here is not measured, with the reason.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ops.bench.machine import version_of

PEERS_FILE = Path(__file__).with_name("peers.toml")
ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".cache" / "bench"
INSTALL_WITHIN_S = 300.0

# The peer's own packages come first on the path; our folder is only there for the driver.
_RUN_DRIVER = (
    "import runpy, sys; sys.path.append(sys.argv.pop(1)); runpy.run_module(sys.argv.pop(1), run_name='__main__')"
)


@dataclass(frozen=True)
class Contestant:
    """`command` runs the driver; the arguments of driver.py follow. Counts: jobs a round."""

    key: str
    name: str
    command: Sequence[str]
    settings: str
    drain: int
    enqueue: int
    one_by_one: int
    arguments: Sequence[str] = ()  # of its worker
    versions: str = ""


@dataclass(frozen=True)
class Peer:
    """A table of peers.toml."""

    key: str
    name: str
    driver: str
    settings: str
    drain: int
    enqueue: int
    one_by_one: int
    pip: Sequence[str] = ()
    npm: Sequence[str] = ()
    python: str = ""
    arguments: Sequence[str] = ()
    only: Sequence[str] = ()


@dataclass(frozen=True)
class Field:
    """Those who are there, and why others are not (by name)."""

    peers: list[Contestant] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)


def _table() -> dict[str, object]:
    with PEERS_FILE.open("rb") as file:
        return tomllib.load(file)


def peers() -> list[Peer]:
    return [Peer(key, **table) for key, table in _table().items() if isinstance(table, dict)]


def payload_bytes() -> int:
    return int(str(_table()["payload_bytes"]))


def concurrency() -> int:
    return int(str(_table()["concurrency"]))


def ours() -> Contestant:
    """kbsync, by the same commands."""
    settings = "as shipped"
    command = [sys.executable, "-m", "ops.bench.ours"]
    return Contestant("kbsync", "kbsync", command, settings, drain=50_000, enqueue=50_000, one_by_one=4_000)


def installed(spec_id: str, say: Callable[[str], None], wanted: Sequence[str] = ()) -> Field:
    """The peers of a measurement, installed. `wanted`: only these keys."""
    found = Field()
    for peer in peers():
        if (peer.only and spec_id not in peer.only) or (wanted and peer.key not in wanted):
            continue
        try:
            found.peers.append(install(peer, say))
        except (OSError, subprocess.SubprocessError, NotInstalled) as error:
            found.missing[peer.name] = str(error)
            say(f"{peer.name} is not measured: {error}")
    return found


class NotInstalled(Exception):
    """Why a peer can't be had here."""


def install(peer: Peer, say: Callable[[str], None], cache: Path = CACHE) -> Contestant:
    """Raises NotInstalled, OSError or SubprocessError."""
    packages = sorted([*peer.pip, *peer.npm])
    folder = cache / _folder_of(packages)
    stamp = folder / ".installed"
    if not stamp.exists() or stamp.read_text() != "\n".join(packages):
        say(f"installing {', '.join(packages)}")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        _install_npm(folder, peer.npm) if peer.npm else _install_pip(folder, peer)
        stamp.write_text("\n".join(packages))
    return Contestant(
        peer.key,
        peer.name,
        _command(peer, folder),
        peer.settings,
        peer.drain,
        peer.enqueue,
        peer.one_by_one,
        peer.arguments,
        f"{', '.join(packages)} on {'node' if peer.npm else 'Python'} {_interpreter_of(peer, folder)}",
    )


def _folder_of(packages: Sequence[str]) -> str:
    return "+".join("".join(c for c in one if c.isalnum() or c in ".-") for one in packages)


def _command(peer: Peer, folder: Path) -> list[str]:
    if peer.npm:
        return ["node", str(Path(__file__).parent / "peers" / peer.driver), str(folder)]
    return [str(folder / "bin" / "python"), "-c", _RUN_DRIVER, str(ROOT), f"ops.bench.peers.{peer.driver}"]


def _interpreter_of(peer: Peer, folder: Path) -> str:
    return version_of("node" if peer.npm else folder / "bin" / "python")


def _install_pip(folder: Path, peer: Peer) -> None:
    python = _python(peer.python)
    _run([python, "-m", "venv", "--without-pip", str(folder)])
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install"]
    _run([*pip, "--quiet", "--disable-pip-version-check", *peer.pip])


def _install_npm(folder: Path, packages: Sequence[str]) -> None:
    if not shutil.which("node") or not shutil.which("npm"):
        raise NotInstalled("node and npm are not on PATH")
    _run(["npm", "install", "--prefix", str(folder), "--no-save", "--no-audit", "--no-fund", "--silent", *packages])


def _python(wanted: str) -> str:
    """An interpreter of at least that version: this one, one on PATH, or one of pyenv's."""
    least = tuple(int(part) for part in wanted.split(".") if part)
    if sys.version_info >= least:
        return sys.executable
    for minor in range(least[1] + 3, least[1] - 1, -1):
        found = shutil.which(f"python3.{minor}")
        candidates = [
            *([found] if found else []),
            *map(str, Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python")),
        ]
        for candidate in candidates:
            check = [candidate, "-c", "import sys"]
            if subprocess.run(check, capture_output=True, timeout=20, check=False).returncode == 0:
                return candidate
    raise NotInstalled(f"it needs Python {wanted}, which is not on this machine")


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=INSTALL_WITHIN_S, stdin=subprocess.DEVNULL, check=False
    )
    if done.returncode != 0:
        lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip() and "WARNING" not in line]
        raise NotInstalled(lines[-1][:200] if lines else f"{command[0]} ended with {done.returncode}")
