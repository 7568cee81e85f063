"""Child servers that die with their parent, and free ports."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_CLONE_NEWUSER = 0x10000000


def free_port() -> int:
    """A port that was free on loopback a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def die_with_parent() -> None:
    """For the child, between fork and exec: the kernel sends it SIGINT when its parent is gone (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGINT)


def be_a_user_inside(uid: int, gid: int) -> None:
    """For the child: a user namespace in which root appears as user 1000. initdb and postgres refuse to run as root."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWUSER) != 0:
        raise OSError(ctypes.get_errno(), "user namespaces are not allowed here")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"1000 {uid} 1")
    Path("/proc/self/gid_map").write_text(f"1000 {gid} 1")


def start(
    command: Sequence[str | Path],
    log: Path,
    *,
    preexec: Callable[[], None] | None = None,
    user: int | None = None,
    env: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Starts a server in its own session, its output in `log`."""

    def before_exec() -> None:
        die_with_parent()
        if preexec:
            preexec()

    with log.open("ab") as output:
        if user is not None:
            os.chown(log, user, -1)
        return subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd="/",
            start_new_session=True,
            preexec_fn=before_exec,
            user=user,
            extra_groups=[] if user is not None else None,
            env=dict(env) if env is not None else None,
        )


def stop(process: subprocess.Popen[bytes], with_signal: int, wait_s: float = 10) -> None:
    """Asks, waits, then kills. Safe to repeat."""
    if process.poll() is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(with_signal)
    try:
        process.wait(wait_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(5)


def wait_until(
    ready: Callable[[], bool], process: subprocess.Popen[bytes], log: Path, what: str, wait_s: float = 30
) -> None:
    """Returns when `ready()`; raises RuntimeError with the log's tail when the process ends or time runs out."""
    deadline = time.monotonic() + wait_s
    while not ready():
        if process.poll() is not None or time.monotonic() > deadline:
            tail = log.read_text(errors="replace")[-2000:]
            stop(process, signal.SIGKILL)
            raise RuntimeError(f"{what} did not start:\n{tail}")
        time.sleep(0.01)


def accepts_connections(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.2)
        return probe.connect_ex(("127.0.0.1", port)) == 0
