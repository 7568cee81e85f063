"""What a run was made on: versions of interpreter and servers, cores."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import kbsync
from ops.embedded import postgres
from ops.embedded.redis import server_binary

_VERSION = re.compile(r"v?=?(\d+\.\d+(?:\.\d+)?)")


def redis_7() -> Path | None:
    """The machine's own redis-server, or None."""
    found = shutil.which("redis-server") or shutil.which("redis-server", path="/usr/sbin:/usr/bin:/usr/local/bin")
    return Path(found) if found else None


def versions() -> list[str]:
    own = [
        f"kbsync {kbsync.__version__}",
        f"Python {platform.python_version()}",
        f"embedded {server_name(server_binary())}",
        f"embedded Postgres {version_of(postgres.binaries() / 'postgres')}",
    ]
    if (redis := redis_7()) is not None:
        own.append(f"{server_name(redis)} on PATH")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return [*own, f"{cores} cores, {platform.system()} {platform.machine()}"]


def server_name(binary: Path) -> str:
    """Valkey 9.1.2, Redis 7.0.15."""
    done = subprocess.run([str(binary), "--version"], capture_output=True, text=True, timeout=20, check=False)
    return f"{(done.stdout.split() or ['unknown'])[0]} {version_of(binary)}"


def version_of(program: str | Path, arguments: Sequence[str] = ("--version",)) -> str:
    """The first version number that the program prints, or `unknown`."""
    try:
        done = subprocess.run([str(program), *arguments], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    found = _VERSION.search(done.stdout or done.stderr)
    return found.group(1) if found else "unknown"
