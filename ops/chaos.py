"""`make chaos`: kill any process of a running stack at random moments while it works, then see that nothing was lost.

    python -m ops.chaos --seed 7 --kills 50

A stack of its own (`kbsync up` in a temporary folder) crawls a real site and syncs a real folder while its processes,
Postgres and Redis among them, get SIGKILL, or SIGSTOP and later SIGCONT. Afterwards everything must settle: both sources
synced, every page and file there once, no failed job, and `kbsync doctor --strict` clean. The same seed makes the same
choices; when each one falls depends on the machine.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from ops.demo import serving
from ops.sample_site import installed_packages, sample_site

SETTLE_S = 240.0
QUICK = {
    "KBSYNC_FETCH_ALLOW_ADDRESSES": '["127.0.0.1"]',
    "KBSYNC_FETCH_PER_SECOND": "10",
    "KBSYNC_LEASE_S": "3",
    "KBSYNC_FIRST_BACKOFF_S": "1",
    "KBSYNC_RECONCILE_GRACE_S": "5",
    "KBSYNC_RECONCILE_INTERVAL_S": "3",
}


@dataclass
class Victim:
    """A stack to be hurt, and the command line over it."""

    process: subprocess.Popen[bytes]
    environment: Mapping[str, str]

    def cli(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "ops.cli", *arguments]
        return subprocess.run(command, env=dict(self.environment), capture_output=True, text=True, check=False)

    def read(self, *arguments: str) -> object:
        """The JSON of a read, tried again while servers are away."""
        deadline = time.monotonic() + 60
        while True:
            done = self.cli(*arguments, "--json")
            if done.returncode == 0:
                return json.loads(done.stdout)
            if time.monotonic() > deadline:
                raise RuntimeError(f"kbsync {' '.join(arguments)}: {done.stderr}")
            time.sleep(0.5)

    def children(self) -> list[tuple[int, str]]:
        listed = subprocess.run(
            ["ps", "-o", "pid=,args=", "--ppid", str(self.process.pid)], capture_output=True, text=True, check=False
        )
        return [
            (int(line.split()[0]), " ".join(line.split()[1:])) for line in listed.stdout.splitlines() if line.strip()
        ]


@contextlib.contextmanager
def victim(home: Path, environment: Mapping[str, str], folder: Path) -> Iterator[Victim]:
    own = {name: value for name, value in environment.items() if not name.startswith("KBSYNC_")}
    own |= QUICK | {"KBSYNC_HOME": str(home)}
    command = [sys.executable, "-m", "ops.cli", "up", "--port", "0", "--files", str(folder)]
    with (home / "up.log").open("wb") as log:
        process = subprocess.Popen(command, env=own, stdout=log, stderr=subprocess.STDOUT)
    try:
        while not (home / "running.json").exists():
            if process.poll() is not None:
                raise RuntimeError((home / "up.log").read_text())
            time.sleep(0.1)
        yield Victim(process, own)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def hurt(stack: Victim, choose: random.Random) -> None:
    """One process, one signal."""
    time.sleep(choose.uniform(0.3, 2.0))
    found = stack.children()
    if not found:
        return
    pid, what = choose.choice(found)
    kind = choose.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP])
    print(f"  {kind.name}  {what[-70:]}", flush=True)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, kind)
        if kind == signal.SIGSTOP:
            time.sleep(choose.uniform(1.0, 5.0))
            os.kill(pid, signal.SIGCONT)


def settled(stack: Victim, organization: str) -> list[dict[str, object]]:
    """The sources, once both ended and the queues are empty, or after the patience is over."""
    deadline = time.monotonic() + SETTLE_S
    while True:
        sources = stack.read("source", "list", "--organization", organization)
        queues = stack.read("queues")
        assert isinstance(sources, list)
        assert isinstance(queues, list)
        busy = sum(queue["waiting"] + queue["delayed"] + queue["active"] for queue in queues)
        failed = sum(queue["failed"] for queue in queues)
        ended = all(source["status"] in ("synced", "failed") for source in sources)
        if (ended and not busy) or time.monotonic() > deadline:
            print(f"settled: {busy} jobs left, {failed} failed")
            return sources
        time.sleep(1)


def run(seed: int, kills: int, environment: Mapping[str, str]) -> int:
    choose = random.Random(seed)
    folder = Path(web.__file__).parents[1]
    with (
        tempfile.TemporaryDirectory() as home,
        serving(sample_site(), 0) as port,
        victim(Path(home), environment, folder) as stack,
    ):
        url = f"http://127.0.0.1:{port}/"
        made = stack.read("source", "add", "website", url, "--new-organization", "Chaos")
        assert isinstance(made, dict)
        organization = str(made["organization_id"])
        of = ("--organization", organization)
        stack.read("source", "add", "files", str(folder), *of, "--include", "*.dist-info/**")
        print(f"seed {seed}: {kills} times a random process", flush=True)
        for _ in range(kills):
            hurt(stack, choose)
        sources = settled(stack, organization)
        faults = [f"source {source['name']}: {source}" for source in sources if source["status"] != "synced"]
        pages = len(installed_packages()) + 1
        faults += [
            f"{source['documents']} documents, not {pages}"
            for source in sources
            if source["type"] == "website" and source["documents"] != pages
        ]
        time.sleep(6)  # a lease, a grace and an interval: what recovery would still do is done
        doctor = stack.cli("doctor", "--strict")
        print(doctor.stdout.strip())
        if doctor.returncode != 0:
            faults.append("kbsync doctor --strict found something")
    for fault in faults:
        print(f"FAULT: {fault}")
    print("chaos: nothing lost, nothing doubled" if not faults else f"chaos: {len(faults)} faults (seed {seed})")
    return 1 if faults else 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills", type=int, default=30)
    wanted = parser.parse_args()
    sys.exit(run(wanted.seed, wanted.kills, os.environ))


if __name__ == "__main__":
    main()
